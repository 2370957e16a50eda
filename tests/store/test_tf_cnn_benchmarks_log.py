"""Logs of tf_cnn_benchmarks become references.

The logs in logs/tf_cnn_*.txt are excerpts of what people posted, cut to some of their step lines:
1.14_one_gpu: a README with ROCm and CUDA results, found by its text; 1.4_hung: tensorflow/benchmarks#146, where it hung;
1.10_worker: tensorflow/benchmarks#232, its last step lines and total reconstructed; 1.10_horovod: bytedance/byteps#29, from its
warm-up on reconstructed; kubeflow: notes on a TFJob of `kubeflow/tf-benchmarks-gpu:v20171202`, which has no header.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from scalemark.records.references import Origin, Reference
from store.formats import tf_cnn_benchmarks
from trainer import ancestor_log

LOGS = Path(__file__).parent / "logs"
FROM = {"source": "a log", "citation": "https://example.org/log", "hardware": "DGX-1"}

HEADER = """TensorFlow:  1.13
Model:       vgg16
Dataset:     imagenet (synthetic)
Mode:        training
SingleSess:  False
Batch size:  256 global
             64 per device
Num batches: 100
Devices:     ['/gpu:0', '/gpu:1', '/gpu:2', '/gpu:3']
Data format: NCHW
Optimizer:   momentum
Variables:   replicated
AllReduce:   nccl/xring
==========
"""
STEPS = """Step\tImg/sec\ttotal_loss
1\timages/sec: 601.1 +/- 0.0 (jitter = 0.0)\t8.108
100\timages/sec: 600.2 +/- 0.5 (jitter = 3.2)\t7.908
"""
TOTAL = "total images/sec: 599.98\n"
REPLICATED = HEADER + STEPS + TOTAL


def parse(text, **options):
    return tf_cnn_benchmarks.parse(text.splitlines(keepends=True), **FROM, **options)


def read(text, **options):
    """The only reference of a log that has nothing wrong."""
    (reference,), rejected = parse(text, **options)
    assert rejected == []
    return reference


def reason(text, **options):
    """Why the only run of a log was left out."""
    references, (rejected,) = parse(text, **options)
    assert references == []
    return rejected.reason


def test_a_header_is_kept_and_defaults_are_marked():
    assert read(REPLICATED) == Reference(
        origin=Origin.TF_CNN_BENCHMARKS,
        **FROM,
        model="vgg16",
        batch_size=64,
        data="synthetic",
        variable_update="replicated",
        all_reduce="nccl/xring",
        local_parameter_device="gpu?",
        precision="fp32?",
        num_gpus=4,
        throughput=599.98,
        evidence="log",
        note="TensorFlow 1.13; optimizer momentum; NCHW; 100 batches",
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("tf_cnn_1.14_one_gpu.txt", ("resnet50", 32, 1, "parameter_server", "none", 180.26)),
        ("tf_cnn_1.10_worker.txt", ("alexnet", 1024, 4, "parameter_server", "none", 521.47)),
        ("tf_cnn_1.10_horovod.txt", ("resnet50", 32, 2, "horovod", "", 201.61)),
    ],
)
def test_logs_that_people_posted_are_read(name, expected):
    found = read((LOGS / name).read_text())
    assert (
        found.model,
        found.batch_size,
        found.num_gpus,
        found.variable_update,
        found.all_reduce,
        found.throughput,
    ) == expected


def test_a_run_that_hung_is_rejected_with_its_line():
    _, (rejected,) = parse("a line before\n" + (LOGS / "tf_cnn_1.4_hung.txt").read_text())
    assert rejected.where == "a log line 2"
    assert rejected.reason == "interrupted: no line 'total images/sec' after its header"


def test_an_interrupted_run_tells_its_last_step():
    expected = "interrupted: no line 'total images/sec' after step 100 (line 17: images/sec: 600.2)"
    assert reason(HEADER + STEPS) == expected


def test_a_log_without_its_header_is_read_when_what_it_lacks_is_said():
    text = (LOGS / "tf_cnn_kubeflow.txt").read_text()
    assert "--num-gpus" in parse(text)[1][0].reason
    assert "--model" in parse(text, num_gpus=1)[1][0].reason
    references, rejected = parse(text, num_gpus=1, model="resnet50")
    assert [found.throughput for found in references] == [82.4, 167.4]
    assert {
        (found.precision, found.data, found.variable_update, found.batch_size)
        for found in references
    } == {("", "", "", None)}
    assert rejected == []


def test_the_log_of_our_own_trainer_is_read():
    samples = [
        StepSample(
            step=step,
            phase=Phase.MEASURE,
            start_s=step / 2,
            duration_s=0.5,
            data_wait_s=0.0,
            loss=None,
        )
        for step in range(20)
    ]
    text = "\n".join(ancestor_log.lines(samples, 64, 128.25))
    found = read(text, model="resnet50", num_gpus=2, batch_size=32)
    assert (found.throughput, found.num_gpus, found.batch_size) == (128.25, 2, 32)


def test_several_runs_in_one_file_are_kept_apart():
    text = (
        REPLICATED
        + HEADER.replace("vgg16", "alexnet")
        + STEPS
        + REPLICATED.replace("599.98", "612.5")
    )
    references, rejected = parse(text)
    assert [found.throughput for found in references] == [599.98, 612.5]
    assert [(lost.where, "interrupted" in lost.reason) for lost in rejected] == [
        ("a log line 19", True)
    ]


def test_a_run_that_died_before_its_first_step_does_not_spoil_the_next():
    references, (rejected,) = parse(HEADER.replace("256", "512").replace("64", "128") + REPLICATED)
    assert [found.batch_size for found in references] == [64]
    assert (rejected.where, rejected.reason) == (
        "a log line 1",
        "interrupted: no line 'total images/sec' after its header",
    )


@pytest.mark.parametrize(
    "reported",
    [
        "[1,0]<stdout>:{}",
        "[3]: {}",
        "12: {}",
        "2019-04-21 03:44:23,157 {}",
        "INFO:tensorflow:{}",
        "\x1b[91m{}\x1b[0m",
        "{}\r",
    ],
)
def test_colors_line_ends_ranks_and_times_are_passed_over(reported):
    assert read("\n".join(reported.format(line) for line in REPLICATED.splitlines())) == read(
        REPLICATED
    )


def test_tabs_may_have_become_spaces():
    assert read(REPLICATED.replace("\t", "   ")) == read(REPLICATED)


def test_ranks_of_one_run_are_one_figure():
    run = REPLICATED.replace("replicated\nAllReduce:   nccl/xring", "horovod")
    lines = [f"[1,{rank}]<stdout>:{line}" for line in run.splitlines() for rank in range(4)]
    assert read("\n".join(lines)).throughput == 599.98


def test_headers_printed_through_each_other_are_one():
    header, rest = HEADER.replace("replicated\nAllReduce:   nccl/xring", "horovod"), STEPS + TOTAL
    lines = header.splitlines()
    first_of_other = [lines[0], lines[0], *lines[1:]]
    assert read("\n".join([*first_of_other, lines[1], *lines[2:], rest])) == read(header + rest)


def test_workers_of_one_run_are_one_figure():
    run = REPLICATED.replace("replicated\nAllReduce:   nccl/xring", "parameter_server")
    workers = [
        run.replace("'/gpu", f"'/job:worker/replica:0/task:{task}/gpu").replace("256", "512")
        for task in range(2)
    ]
    text = "\n".join(
        f"{task}: {line}" for task, worker in enumerate(workers) for line in worker.splitlines()
    )
    assert read(text).num_gpus == 8


def test_runs_that_stand_alone_are_figures_of_their_own():
    references, rejected = parse(
        "\n".join(f"[{rank}]: {line}" for rank in range(2) for line in REPLICATED.splitlines())
    )
    assert (len(references), rejected) == (2, [])


@pytest.mark.parametrize(
    ("old", "new", "all_reduce"),
    [
        ("AllReduce:   nccl/xring", "AllReduce:   None", "none"),
        ("AllReduce:   nccl/xring", "AllReduce:   pscpu:32k:xring", "pscpu:32k:xring"),
        ("AllReduce:   nccl/xring", "Use NCCL:    True", "nccl"),
        ("AllReduce:   nccl/xring", "Use NCCL:    False", "none"),
        ("AllReduce:   nccl/xring\n", "", "nccl?"),
        ("replicated\nAllReduce:   nccl/xring", "independent", "none"),
        (
            "replicated\nAllReduce:   nccl/xring",
            "distributed_replicated\nSync:        True",
            "none",
        ),
    ],
)
def test_the_all_reduce_is_found_in_every_version(old, new, all_reduce):
    assert read(REPLICATED.replace(old, new)).all_reduce == all_reduce


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("imagenet (synthetic)", "imagenet", {"data": "real"}),
        ("imagenet (synthetic)", "cifar10", {"data": "real", "note": "TensorFlow 1.13; optimizer momentum; NCHW; 100 batches; cifar10"}),
        ("Dataset:     imagenet (synthetic)\n", "", {"data": "synthetic?"}),
        ("64 per device", "64.0 per device", {"batch_size": 64}),
        ("             64 per device\n", "", {"batch_size": 64, "num_gpus": 4}),
        ("/gpu:", "/cpu:", {"local_parameter_device": "cpu?", "num_gpus": 4}),
    ],
)  # fmt: skip
def test_versions_differ_in_what_they_tell(old, new, reported):
    found = read(REPLICATED.replace(old, new))
    assert {name: getattr(found, name) for name in reported} == reported


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("256 global", "192 global", "contradictory: batch of 192, 64 per device, but 4 devices"),
        ("256 global", "512 global", "contradictory: batch of 512, 64 per device, but 4 devices"),
        ("256 global", "200 global", "contradictory: batch of 200 over devices with 64 each"),
        ("64 per", "-64 per", "per device: -64: wanted a whole number of images, 1 or more"),
        ("64 per", "0 per", "per device: 0: wanted a whole number of images, 1 or more"),
        ("256 global", "a lot", "Batch size: a lot: wanted a whole number of images, 1 or more"),
        ("599.98", "nan", "line 18: total images/sec: nan: wanted a finite number greater than 0"),
        ("599.98", "inf", "line 18: total images/sec: inf: wanted a finite number greater than 0"),
        (
            "599.98",
            "-3.5",
            "line 18: total images/sec: -3.5: wanted a finite number greater than 0",
        ),
        (
            "599.98",
            "0.00",
            "line 18: total images/sec: 0.00: wanted a finite number greater than 0",
        ),
        ("599.98", "5_9", "line 18: total images/sec: 5_9: wanted a finite number greater than 0"),
        ("training", "forward-only", "Mode: forward-only: wanted training"),
        (
            "Optimizer:",
            "Variables:   horovod\nOptimizer:",
            "contradictory: Variables: 'horovod', and in line 13 'replicated'",
        ),
        (
            TOTAL,
            TOTAL * 2,
            "contradictory: a second total in line 19, 599.98, without a run of its own",
        ),
    ],
)
def test_what_is_contradictory_or_impossible_is_rejected(old, new, expected):
    assert reason(REPLICATED.replace(old, new)) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"num_gpus": 8}, "contradictory: number of devices 4 in the log, 8 by --num-gpus"),
        ({"model": "alexnet"}, "contradictory: model vgg16 in the log, alexnet by --model"),
        (
            {"batch_size": 32},
            "contradictory: batch size per device 64 in the log, 32 by --batch-size",
        ),
    ],
)
def test_what_is_said_must_not_contradict_the_log(said, expected):
    assert reason(REPLICATED, **said) == expected


def test_an_empty_list_of_devices_is_a_number_that_is_not_known():
    devices = "['/gpu:0', '/gpu:1', '/gpu:2', '/gpu:3']"
    empty = REPLICATED.replace(devices, "[]")
    assert read(empty).num_gpus == 4
    without_share = empty.replace("             64 per device\n", "")
    assert "say it with --num-gpus" in reason(without_share)
    assert read(without_share, num_gpus=4).batch_size == 64


@pytest.mark.parametrize("text", ["", "\n\n", "epoch 1 loss 0.3\n"])
def test_a_file_without_a_run_is_rejected_once(text):
    _, (rejected,) = parse(text)
    assert rejected.where == "a log"
    assert rejected.reason.startswith("no run of tf_cnn_benchmarks in it")


PIECES = st.sampled_from(
    [
        *REPLICATED.splitlines(),
        "Variables:   horovod",
        "[1,1]<stdout>:",
        "Batch size: \u0669",
        "Devices: [''",
        "\r",
    ]
)


@given(st.lists(st.one_of(PIECES, st.text(), st.builds("{}{}".format, PIECES, st.text()))))
def test_no_text_whatever_raises(lines):
    references, rejected = tf_cnn_benchmarks.parse(lines, **FROM)
    assert references or rejected, "a log without a figure is reported of"


@given(st.floats(min_value=0.01, max_value=1e9), st.integers(1, 512), st.integers(1, 64))
def test_every_figure_is_read_as_it_was_printed(throughput, batch_size, num_gpus):
    devices = [f"/gpu:{number}" for number in range(num_gpus)]
    text = f"Model: x\nBatch size: {batch_size * num_gpus} global\n {batch_size} per device\nDevices: {devices}\ntotal images/sec: {throughput:.2f}"
    found = read(text)
    assert (found.throughput, found.batch_size, found.num_gpus) == (
        float(f"{throughput:.2f}"),
        batch_size,
        num_gpus,
    )
