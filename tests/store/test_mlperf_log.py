"""MLPerf logs become references.

The logs in logs/mlperf_*.txt are excerpts of github.com/mlcommons/training_results_vX.Y, their paths shortened:
0.7
DellEMC/results/C4140/resnet/result_0.txt; 2.0 NVIDIA/results/2xa30_ngc22.04_mxnet/resnet/result_0.txt.
"""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.formats import mlperf

LOGS = Path(__file__).parent / "logs"
FROM = {"source": "a log", "citation": "https://example.org/log", "hardware": "DGX-1"}


def event(key, value=None, at_s=0.0, **metadata):
    reported = {
        "namespace": "",
        "time_ms": round(1000 * at_s),
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
    }
    return f":::MLLOG {json.dumps(reported | {'metadata': metadata})}"


def log(*middle, benchmark="resnet", platform="4xNVIDIA H200", batch=1024, samples=1000):
    """A whole run around these lines."""
    return [
        event("submission_benchmark", benchmark),
        event("submission_platform", platform),
        event("global_batch_size", batch),
        event("train_samples", samples),
        event("run_start", at_s=0),
        *middle,
        event("run_stop", at_s=1000, status="success"),
    ]


def epochs(*durations_s):
    """One after the other, from second 10 on."""
    start = 10.0
    for duration_s in durations_s:
        yield event("epoch_start", at_s=start)
        yield event("epoch_stop", at_s=start + duration_s)
        start += duration_s


def parse(lines, **options):
    return mlperf.parse(lines, **FROM, **options)


def read(lines, **options):
    (reference,), rejected = parse(lines, **options)
    assert rejected == []
    return reference


def reason(lines, **options):
    references, (rejected,) = parse(lines, **options)
    assert references == []
    return rejected.reason


@pytest.mark.parametrize(
    ("name", "reported_num_gpus", "batch_size", "num_gpus", "throughput", "evidence"),
    [
        ("mlperf_0.7_c4140", 4, 208, 4, 5620.04, "log, derived: epochs, median of 1"),
        ("mlperf_2.0_2xa30", 2, None, 2, 3197.88, "log: throughput, median of 3"),
    ],
)
def test_logs_of_two_rounds_are_read(
    name, reported_num_gpus, batch_size, num_gpus, throughput, evidence
):
    found = read(
        (LOGS / f"{name}.txt").read_text().splitlines(keepends=True), num_gpus=reported_num_gpus
    )
    assert (found.model, found.data, found.precision, found.variable_update) == (
        "resnet50_v1.5",
        "real",
        "",
        "",
    )
    assert (found.batch_size, found.num_gpus, found.evidence) == (batch_size, num_gpus, evidence)
    assert found.throughput == pytest.approx(throughput, abs=0.01)


def test_what_a_log_tells_of_its_throughput_agrees_with_its_epochs():
    lines = (LOGS / "mlperf_2.0_2xa30.txt").read_text().splitlines()
    silent = [line for line in lines if not re.search("tracked_stats|throughput", line)]
    derived = read(silent, num_gpus=2)
    assert derived.evidence == "log, derived: epochs, median of 3"
    assert derived.throughput == pytest.approx(read(lines, num_gpus=2).throughput, rel=1e-3)


def test_throughput_are_the_median_of_the_epochs():
    assert read(log(*epochs(10, 2, 5))).throughput == 200


def test_an_evaluation_is_no_time_of_training():
    evaluation = [event("eval_start", at_s=12), event("eval_stop", at_s=18)]
    assert (
        read(
            log(event("epoch_start", at_s=10), *evaluation, event("epoch_stop", at_s=20))
        ).throughput
        == 250
    )


def test_blocks_count_when_there_are_no_epochs():
    block = [
        event("block_start", at_s=10, epoch_count=4),
        event("eval_start", at_s=26),
        event("eval_stop", at_s=30),
    ]
    found = read(log(*block, event("block_stop", at_s=30)))
    assert (found.throughput, found.evidence) == (250, "log, derived: blocks, median of 1")


def test_blocks_may_count_their_samples():
    block = (
        event("block_start", at_s=10, samples_count=500),
        event("block_stop", at_s=20, samples_count=4500),
    )
    assert read(log(*block)).throughput == 400


def test_throughput_that_is_reported_comes_before_what_follows_from_epochs():
    reported = [
        event("tracked_stats", {"throughput": figure, "loss": 3.0}) for figure in (90, 110, 500)
    ]
    found = read(log(*epochs(10), *reported, event("throughput", 7)))
    assert (found.throughput, found.evidence) == (110, "log: throughput, median of 3")


def test_lines_repeated_by_other_processes_change_nothing():
    assert read([line for line in log(*epochs(10, 20)) for _ in range(8)]) == read(
        log(*epochs(10, 20))
    )


def test_an_interval_begins_with_the_first_process_and_ends_with_the_first():
    starts, stops = (
        [event(key, at_s=at_s) for at_s in times]
        for key, times in (("epoch_start", (10, 12)), ("epoch_stop", (20, 21)))
    )
    assert read(log(*starts, *stops)).throughput == 100


@pytest.mark.parametrize(
    "reported", ["0: {}", "[1,0]<stdout>:{}", "\x1b[0m{}\r\n", "{} and words of another process"]
)
def test_what_stands_around_a_line_is_passed_over(reported):
    assert read([reported.format(line) for line in log(*epochs(10))]) == read(log(*epochs(10)))


def test_several_runs_in_one_file_are_kept_apart():
    references, rejected = parse([*log(*epochs(10)), *log(*epochs(10))[:-1], *log(*epochs(20))])
    assert [found.throughput for found in references] == [100, 50]
    assert [(lost.where, lost.reason) for lost in rejected] == [
        ("a log line 9", "interrupted: no run_stop; the last line is of epoch_stop (line 15)")
    ]


@pytest.mark.parametrize(
    ("platform", "num_gpus"),
    [
        ("8xV100", 8),
        ("4xNVIDIA A100-SXM4-40GB", 4),
        ("2 x Tesla T4", 2),
        ("16xNVIDIA GeForce RTX 3090", 16),
        ("8xMI300X", 8),
    ],
)
def test_accelerators_are_counted_from_the_platform_where_it_names_them(platform, num_gpus):
    assert read(log(*epochs(10), platform=platform, batch=None)).num_gpus == num_gpus


@pytest.mark.parametrize(
    "platform",
    ["1xNVIDIA DGX A100", "1xDGX-1 with V100", "tpu-v3-8", "1xNF5688M6", "8xX", None, 3, "x" * 999],
)
def test_nodes_are_not_taken_for_accelerators(platform):
    lines = log(*epochs(10), platform=platform)
    assert "say it with --num-gpus" in reason(lines)
    assert read(lines, num_gpus=8).num_gpus == 8


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (log(*epochs(10), platform="2xV100", batch=1023), "contradictory: a batch of 1023 cannot be shared evenly by 2 accelerators"),
        (log(event("global_batch_size", 5)), "contradictory: global_batch_size 1024 in line 3, 5 in line 6"),
        (log(batch=-1), "global_batch_size: -1: wanted a whole number, 1 or more"),
        (log(*epochs(10), samples=2.5), "train_samples: 2.5: wanted a whole number, 1 or more"),
        (log(event("throughput", -3)), "line 6: throughput -3.0: wanted a finite number greater than 0"),
        (log(event("throughput", float("nan"))), "line 6: throughput nan: wanted a finite number greater than 0"),
        (log(event("throughput", float("inf"))), "line 6: throughput inf: wanted a finite number greater than 0"),
        (log(event("throughput", "fast")), "no throughput, and no epochs or blocks with samples and times"),
        (log(*epochs(-5)), "no throughput, and no epochs or blocks with samples and times"),
        (log(*epochs(10), benchmark="bert"), "benchmark bert: its samples are no images; wanted one of resnet, ssd, maskrcnn, retinanet"),
        (log(*epochs(10))[1:], "no submission_benchmark: the log does not say what was trained"),
    ],
)  # fmt: skip
def test_what_is_contradictory_or_impossible_is_rejected(lines, expected):
    assert reason(lines) == expected


def test_what_is_said_must_not_contradict_the_log():
    assert (
        reason(log(*epochs(10)), num_gpus=8)
        == "contradictory: 4 accelerators in the log, 8 by --num-gpus"
    )


def test_a_run_that_was_aborted_says_so():
    lines = [*log(*epochs(10))[:-1], event("run_stop", at_s=50, status="aborted")]
    assert read(lines).note == "4xNVIDIA H200; run_stop: aborted"


def test_a_line_that_is_broken_is_rejected_and_the_rest_is_read():
    references, rejected = parse(
        [
            *log(*epochs(10)),
            ':::MLLOG {"time_ms": 1',
            ":::MLLOG {}",
            ':::MLLOG {"time_ms": 1e300, "key": "x"}',
        ]
    )
    assert len(references) == 1
    assert [lost.where for lost in rejected] == ["a log line 9", "a log line 10", "a log line 11"]
    assert (
        rejected[1].reason
        == "no line of an MLPerf log: time_ms None: wanted milliseconds since 1970"
    )


@pytest.mark.parametrize("lines", [[], ["epoch 1 loss 0.3"]])
def test_a_file_without_a_line_of_mlperf_is_rejected_once(lines):
    assert reason(lines) == "no line of an MLPerf log in it: wanted ':::MLLOG {...}'"


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["epoch", "throughput"]), inner, max_size=3)
    ),
    max_leaves=4,
)
KEYS = [
    "run_start",
    "run_stop",
    "epoch_start",
    "epoch_stop",
    "block_start",
    "block_stop",
    "eval_start",
    "eval_stop",
]
TOLD = [
    "submission_benchmark",
    "submission_platform",
    "submission_org",
    "global_batch_size",
    "train_samples",
]
MORE = [
    "number_of_nodes",
    "accelerators_per_node",
    "tracked_stats",
    "throughput",
    "opt_name",
    "init_start",
]
LINES = st.builds(
    lambda key, value, time, metadata: (
        f":::MLLOG {json.dumps({'key': key, 'value': value, 'time_ms': time, 'metadata': metadata})}"
    ),
    st.sampled_from(KEYS + TOLD + MORE),
    JSON | st.sampled_from(["resnet", "4xV100", "scalemark", 8, 10**400]),
    st.integers(0, 10**6) | JSON,
    st.dictionaries(
        st.sampled_from(["epoch_count", "samples_count", "status", "strategy"]), JSON, max_size=2
    )
    | JSON,
)


@given(
    st.lists(
        LINES
        | st.text()
        | st.builds(":::ML{}{}".format, st.sampled_from(["LOG ", "LOG {", "L 1.5 x: "]), st.text())
    )
)
def test_no_text_whatever_raises(lines):
    references, rejected = parse(lines)
    assert references or rejected, "a log without a figure is reported of"


def test_a_line_of_nothing_but_beginnings_is_given_up():
    references, rejected = parse([":::MLLOG {" * 1000, *log(*epochs(10))])
    assert (len(references), len(rejected)) == (1, 8)


def test_values_nested_without_end_do_not_raise():
    deep = "[" * 100_000
    assert "no line of an MLPerf log" in reason(
        [f':::MLLOG {{"time_ms": 1, "key": "x", "value": {deep}']
    )
