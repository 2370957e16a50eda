"""`python -m analysis predict` at a shell."""

import json
import re
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from costs.profiles import profile
from scalemark.host import kept_probes
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import GpuLink
from scalemark.records.references import Reference
from store.reference_rows import add_references
from store.writer import Writer
from tests.analysis.commands.command import Ended, unfolded
from tests.analysis.gpu_box import GPU_BOX, NCCL, PS, curve, fill_gpus, on_gpus, repeated
from tests.filled import MACHINE, fill
from tests.specs import small
from tests.sweeper.probing.probes import box, figures, probe_of

RESNET = {"model": "resnet50", "batch_size": 64, "image_px": 224, "num_classes": 1001}


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCALEMARK_DB", raising=False)
    monkeypatch.setenv("SCALEMARK_CACHE", str(tmp_path / "cache"))


def published(analysis, *arguments: str):
    return analysis(
        "predict", "--origin", "published", "--source", "tf-benchmarks-2017/k80x8", *arguments
    )


def test_a_published_source_is_predicted_from_its_few_gpus(analysis) -> None:
    reported = json.loads(
        published(
            analysis, "model=vgg16", "num_gpus<=4", "data=synthetic", "--to", "num_gpus=8", "--json"
        ).stdout
    )
    [one] = reported["predictions"]
    assert (one["num_gpus"], one["strategy"], one["is_measurement"], len(one["rests_on"])) == (
        8,
        "ps_cpu",
        False,
        3,
    )
    assert one["low"] < 234 < one["high"]
    assert one["parts"]["step_s"] == pytest.approx(8 * 32 / one["throughput"], rel=0.15)
    weights = {of["name"]: of["weight"] for of in one["candidates"]}
    assert {"physics", "linear", "ring"} < set(weights)
    assert sum(weights.values()) == pytest.approx(1)
    assert one["bottleneck"] in ("board", "switch", "host sum", "host memory")


def bert(analysis, *arguments: str):
    return analysis("predict", "--origin", "published", "--source", "BERT", *arguments)


def test_figures_that_judge_predictions_are_not_learned_from(analysis) -> None:
    """All of them stand beside what the profile and the physics say."""
    reported = json.loads(bert(analysis, "--to", "seq_len=128", "--json").stdout)
    of_source = [one for one in reported["predictions"] if one["figure"]]
    assert len(of_source) == 12
    assert {(one["item"], one["model"]) for one in of_source} == {("sequences", "bert_large")}
    for one in reported["predictions"]:
        assert one["rests_on"] == []
    furthest = {"mixed": 0.10, "tf32": 0.22, "fp32": 0.10}
    for one in of_source:
        assert abs(one["error"]) < furthest[one["precision"]]
    assert any("--fit-held-out learns from them" in note for note in reported["notes"])
    text = bert(analysis, "hardware~*dgx-2*", "--to", "num_gpus=8").stdout
    assert "from no row, by its profile and the physics alone" in text
    assert "accumulation 128, lamb" in text


def test_figures_that_judge_predictions_are_fitted_where_that_is_asked_for(analysis) -> None:
    asked = ("hardware~*dgx-2*", "seq_len=128", "precision=mixed+XLA", "num_gpus<=4")
    reported = json.loads(
        bert(analysis, *asked, "--fit-held-out", "--to", "num_gpus=16", "--json").stdout
    )
    [one] = reported["predictions"]
    assert (len(one["rests_on"]), one["gradient_accumulation"]) == (2, 64)
    assert one["low"] < 3077.99 < one["high"]
    assert one["throughput"] == pytest.approx(3077.99, rel=0.05)


def test_what_is_there_stands_beside_and_is_not_learned_from(analysis) -> None:
    reported = json.loads(
        published(analysis, "model=vgg16", "data=synthetic", "--to", "num_gpus=8", "--json").stdout
    )
    [one] = reported["predictions"]
    assert (one["origin"], one["figure"], len(one["rests_on"])) == ("published", 234, 3)
    assert one["error"] == pytest.approx(one["throughput"] / 234 - 1)


def test_what_else_is_asked_for_changes_no_prediction_of_what_nobody_tried(analysis) -> None:
    chosen = ("model=vgg16", "data=synthetic", "num_gpus<=4")
    [alone] = json.loads(published(analysis, *chosen, "--to", "num_gpus=8", "--json").stdout)[
        "predictions"
    ]
    there, beside = json.loads(
        published(analysis, *chosen, "--to", "num_gpus=4,8", "--json").stdout
    )["predictions"]
    assert beside == alone
    assert (there["num_gpus"], there["figure"], len(there["rests_on"]), len(alone["rests_on"])) == (
        4,
        120,
        2,
        3,
    )
    reported = published(analysis, *chosen, "--to", "num_gpus=4,8").stdout
    assert reported.startswith(
        "Predicted, not measured: GCE n1-standard-32-k80x8, from 3 rows, what is among them from the 2 others\n"
    )


def test_a_table_says_that_nothing_in_it_was_measured(analysis) -> None:
    reported = published(
        analysis,
        "model=vgg16",
        "data=synthetic",
        "num_gpus<=4",
        "--to",
        "num_gpus=8",
        "--to",
        "strategy=ps_cpu,ps_gpu",
    )
    assert reported.exit_code == 0
    assert "Predicted, not measured: GCE n1-standard-32-k80x8, from 3 rows" in reported.stdout
    assert "uncertain: no row has ps_gpu on more than one GPU" in reported.stdout
    assert "is like k80_8" in reported.stdout
    assert "communication that computing does not hide" in reported.stdout


def test_a_model_without_rows_is_refused_with_what_to_measure(analysis) -> None:
    reported = published(analysis, "model=vgg16", "num_gpus<=4", "--to", "model=alexnet")
    assert "of alexnet, batch 32, 1 GPU, ps_cpu" in reported.stdout
    assert (
        "first measure: python sweep.py model=alexnet num_gpus=1 batch_size=32 precision=fp32"
        in unfolded(reported.stdout)
    )
    assert "image_px=227 xla=off data=synthetic distortions=false" in unfolded(reported.stdout)


def test_faster_links_are_never_slower(analysis) -> None:
    asked = ("model=vgg16", "data=synthetic", "--to", "num_gpus=8", "--json")
    now, then = (
        json.loads(published(analysis, *asked, *link).stdout)
        for link in ((), ("--link", "pcie_gb_per_s=40"))
    )
    assert (
        then["predictions"][0]["parts"]["exposed_s"] <= now["predictions"][0]["parts"]["exposed_s"]
    )


def test_another_box_is_predicted_for(analysis) -> None:
    reported = published(
        analysis,
        "model=resnet50",
        "data=synthetic",
        "batch_size=64",
        "num_gpus=1",
        "--on",
        "dgx1_p100",
        "--json",
    )
    [one] = json.loads(reported.stdout)["predictions"]
    assert one["hardware"] == "dgx1_p100"
    assert one["throughput"] > 2 * 51.9


def test_a_heading_says_for_which_box_it_predicts(analysis) -> None:
    rows = ("model=resnet50", "data=synthetic", "batch_size=64", "num_gpus=1")
    other = published(analysis, *rows, "--on", "dgx1_p100", "--link", "pcie_gb_per_s=24")
    assert other.stdout.startswith(
        "Predicted for dgx1_p100 with pcie_gb_per_s=24, not measured: from 1 row of "
        "GCE n1-standard-32-k80x8\n"
    )


def test_our_own_trials_are_predicted_from(analysis) -> None:
    fill_gpus([*curve((200, 380, 740), **RESNET, **PS), *curve((205, 395, 770), **RESNET, **NCCL)])
    reported = json.loads(
        analysis("predict", "--hardware", "p100_pcie_8", "--to", "num_gpus=8", "--json").stdout
    )
    assert [one["strategy"] for one in reported["predictions"]] == ["ps_cpu", "replicated_nccl"]
    assert all(1300 < one["throughput"] < 1640 for one in reported["predictions"])


def test_the_gpus_of_a_machine_and_the_links_between_them_tell_its_box(analysis) -> None:
    gpus = tuple(replace(gpu, name="Tesla V100-SXM2-16GB") for gpu in GPU_BOX.gpus)
    uuids = [gpu.uuid for gpu in gpus]
    cliques = [
        *combinations(uuids[:4], 2),
        *combinations(uuids[4:], 2),
        *zip(uuids[:4], uuids[4:], strict=True),
    ]
    links = tuple(
        GpuLink(between=pair, num_nvlinks=1 if pair in cliques else 0)
        for pair in combinations(uuids, 2)
    )
    trials = curve((200, 380, 740), **RESNET, **NCCL)
    fill("results.db", trials, machine=replace(GPU_BOX, gpus=gpus, links=links))
    reported = json.loads(analysis("predict", "--to", "num_gpus=8", "--json").stdout)
    assert reported["predictions"][0]["hardware"] == "dgx1_v100"
    assert "'8 x Tesla V100-SXM2-16GB' is like dgx1_v100" in reported["notes"][0]


def test_rows_of_several_hosts_are_refused(analysis) -> None:
    """A bug: they were taken for one box of 32 GPUs."""
    asked = (
        "--origin",
        "published",
        "--source",
        "tf-benchmarks-2017",
        "variable_update~distributed*",
        "model=inception3",
    )
    reported = analysis("predict", *asked, "--to", "num_gpus=16")
    assert reported.exit_code == 2
    assert (
        "nothing to learn from: variable_update=distributed_replicated is of several hosts"
        in reported.stderr
    )
    assert "choose rows of one, as variable_update=replicated,parameter_server" in reported.stderr


def test_a_source_that_speaks_of_servers_is_refused(analysis) -> None:
    reported = analysis(
        "predict",
        "--origin",
        "published",
        "--source",
        "Horovod documentation",
        "--to",
        "num_gpus=8",
    )
    assert reported.exit_code == 2
    assert "with 16 GPUs is of 4 hosts (GPUs of each: 4)" in reported.stderr


def added(
    analysis,
    *arguments: str,
    num_gpus: tuple[int, ...] = (1, 2, 4),
    data: tuple[str, ...] = ("synthetic",),
    to: str = "num_gpus=8",
    **changes: object,
) -> Ended:
    """Figures of one source that were added to the database: of each sort of data on each number of GPUs."""
    figure = {
        "origin": "added", "source": "lab", "citation": "lab", "hardware": "8xV100", "model": "resnet50", "batch_size": 32,
        "variable_update": "replicated", "all_reduce": "nccl", "local_parameter_device": "gpu", "precision": "fp32",
        "evidence": "e", **changes,
    }  # fmt: skip
    writer = Writer("results.db")
    with writer.engine.begin() as connection:
        for per_gpu, one in zip((300, 400), data, strict=False):
            rows = [
                Reference(**figure, data=one, num_gpus=num, throughput=per_gpu * num)
                for num in num_gpus
            ]
            add_references(connection, rows)
    writer.close()
    return analysis("predict", "--origin", "published", "--source", "lab", "--to", to, *arguments)


def test_a_figure_of_a_card_per_node_is_no_box(analysis) -> None:
    """A bug: 64 nodes were one box, and were predicted 62 % too fast without a word."""
    reported = added(analysis, hardware="1xK80/node", num_gpus=(2, 4, 64))
    assert reported.exit_code == 2
    assert "'1xK80/node' with 64 GPUs is of 64 hosts (GPUs of each: 1)" in reported.stderr


def test_one_host_of_several_is_predicted_and_the_others_are_left_out(analysis) -> None:
    """A bug: the word nodes refused all rows."""
    reported = added(analysis, hardware="4 nodes x 8xV100", num_gpus=(1, 2, 4, 16))
    assert reported.exit_code == 0
    assert "from 3 rows" in reported.stdout
    assert (
        "left out: '4 nodes x 8xV100' with 16 GPUs is of 2 hosts (GPUs of each: 8)"
        in reported.stdout
    )


def test_strategies_in_other_words_are_marked_and_said(analysis) -> None:
    """A bug: `PS-based` became replicated_nccl without a word. The curve shows what it costs: no doubt."""
    reported = added(analysis, variable_update="PS-based", all_reduce="", local_parameter_device="")
    assert " ps_cpu? " in reported.stdout
    assert "replicated_nccl" not in reported.stdout
    assert "how variables are shared is assumed" not in reported.stdout
    assert (
        "assumed of 3 of 3 rows (?): how variables are shared is reported as 'PS-based', ps_cpu is assumed"
        in reported.stdout
    )


def test_a_strategy_that_is_asked_for_by_name_is_not_marked_as_assumed(analysis) -> None:
    """A bug: from `PS-based` rows `--to strategy=replicated_nccl` was `replicated_nccl?`. The doubt stays."""
    row = {"variable_update": "PS-based", "all_reduce": "", "local_parameter_device": ""}
    reported = added(analysis, "--to", "strategy=replicated_nccl", **row)
    assert " replicated_nccl " in reported.stdout
    assert "replicated_nccl?" not in reported.stdout
    assert "uncertain: how variables are shared is assumed" in reported.stdout
    [one] = json.loads(added(analysis, "--to", "strategy=replicated_nccl", "--json", **row).stdout)[
        "predictions"
    ]
    assert one["is_strategy_reported"]


@pytest.mark.parametrize(
    ("more", "strategies"), [((2, 4), ["replicated_nccl"]), ((), ["replicated_none?"])]
)
def test_a_row_on_one_gpu_without_a_reduction_adds_no_other_strategy(
    analysis, more, strategies
) -> None:
    """A bug: its `n/a` was called not reported, and made a second line, of `replicated_none?`."""
    writer = Writer("results.db")
    figure = {
        "origin": "added", "source": "lab", "citation": "lab", "hardware": "8xV100", "model": "resnet50", "batch_size": 32,
        "variable_update": "replicated", "local_parameter_device": "gpu", "precision": "fp32", "data": "synthetic", "evidence": "e",
    }  # fmt: skip
    rows = [Reference(**figure, num_gpus=1, all_reduce="n/a", throughput=300)]
    rows += [
        Reference(**figure, num_gpus=num, all_reduce="nccl", throughput=290 * num) for num in more
    ]
    with writer.engine.begin() as connection:
        add_references(connection, rows)
    writer.close()
    reported = analysis("predict", "--origin", "published", "--source", "lab", "--to", "num_gpus=8")
    lines = [line.split() for line in reported.stdout.splitlines() if line.startswith("resnet50 ")]
    assert [line[3] for line in lines] == strategies
    assert "not reported" not in reported.stdout


def test_strategies_that_are_not_known_are_left_out_by_name(analysis) -> None:
    reported = added(analysis, variable_update="gossip SGD")
    assert reported.exit_code == 2
    assert (
        "variable_update='gossip SGD' is no strategy that the cost model knows" in reported.stderr
    )


@pytest.mark.integration
def test_a_batch_that_nobody_reported_is_marked(analysis) -> None:
    """A bug: it was printed as a fact."""
    [one] = json.loads(added(analysis, "--json", batch_size=None).stdout)["predictions"]
    assert (one["batch_size"], one["is_batch_size_reported"], one["is_strategy_reported"]) == (
        128,
        False,
        True,
    )
    reported = added(analysis, batch_size=None)
    assert " 128? " in reported.stdout
    assert (
        "assumed of 3 of 3 rows (?): batch_size is not reported, 128 is assumed" in reported.stdout
    )
    assert " 64 " in added(analysis, "--to", "batch_size=64", batch_size=None).stdout


def test_two_input_pipelines_are_two_cells(analysis) -> None:
    """A bug: `real` and `real+DALI` were one cell with the figure of either."""
    reported = added(analysis, "--json", to="num_gpus=4", data=("real", "real+DALI"))
    found = {
        one["other_axes"]["data"]: one["figure"]
        for one in json.loads(reported.stdout)["predictions"]
    }
    assert found == {"real": 1200, "real+DALI": 1600}
    assert "data=real+DALI" in added(analysis, to="num_gpus=4", data=("real", "real+DALI")).stdout


def test_what_ran_is_not_refused_for_memory(analysis) -> None:
    """A bug: an estimate of the memory refused what a source had run."""
    reported = added(analysis, hardware="8xV100", batch_size=512)
    assert reported.exit_code == 0
    assert "refused" not in reported.stdout
    smaller = added(analysis, "--on", "titanx_pcie_8", hardware="8xV100", batch_size=512)
    assert "and GeForce GTX TITAN X has 12; choose a smaller batch" in smaller.stdout


def test_our_own_trials_that_differ_in_other_axes_are_cells_of_their_own(analysis) -> None:
    """A sibling: of two optimizers, the figure of either stood beside one prediction."""
    fill_gpus(
        [
            *curve((200, 380, 740), **RESNET, **PS),
            *curve((190, 360, 700), **RESNET, **PS, optimizer="adam", momentum=0.0),
        ]
    )
    reported = json.loads(
        analysis("predict", "--hardware", "p100_pcie_8", "--to", "num_gpus=4", "--json").stdout
    )["predictions"]
    assert {one["optimizer"]: one["figure"] for one in reported} == {
        "momentum": pytest.approx(740, rel=1e-4),
        "adam": pytest.approx(700, rel=1e-4),
    }


def probed_box(*, num_probed: int = 4, doubts: tuple[str, ...] = ()) -> None:
    """Trials on 1 and 2 of 4 GPUs, of which copies go by way of the host at 1 GB/s."""
    machine = box(4, "NVIDIA GeForce RTX 4090")
    fill("results.db", curve((400, 700), **RESNET, **NCCL), machine=machine)
    probe = probe_of(machine, figures(4, pair=1e9, bus=0.8e9), doubts)
    slow = [
        replace(one, value=2e9) if one.what in ("to_device", "to_host") else one
        for one in probe.figures
    ]
    probed = {"devices": probe.devices[:num_probed], "figures": tuple(slow)}
    kept_probes.prepare()
    kept_probes.write(replace(probe, **probed))


def to_four(analysis):
    reported = json.loads(analysis("predict", "--to", "num_gpus=4", "--json").stdout)
    (one,) = reported["predictions"]
    (note,) = (note for note in reported["notes"] if note.startswith("box: "))
    return one, note


@pytest.mark.parametrize(("num_probed", "doubts"), [(2, ()), (4, ("others computed",))])
def test_a_probe_of_a_part_or_with_doubts_tells_no_links(analysis, num_probed, doubts) -> None:
    probed_box(num_probed=num_probed, doubts=doubts)
    assert to_four(analysis)[1] == "box: '4 x NVIDIA GeForce RTX 4090' is like rtx4090_4"


def test_links_that_a_probe_measured_are_those_of_the_box(analysis) -> None:
    """A bug: the profile's were taken though the machine had a probe."""
    probed_box()
    probed, note = to_four(analysis)
    assert note == (
        "box: '4 x NVIDIA GeForce RTX 4090' is like rtx4090_4; links measured by scalemark probe, "
        "2026-11-25"
    )
    by_profile = analysis("predict", "--hardware", "rtx4090_4", "--to", "num_gpus=4", "--json")
    (other,) = json.loads(by_profile.stdout)["predictions"]
    assert probed["parts"]["communication_s"] > 3 * other["parts"]["communication_s"]


def test_a_lone_trial_is_said_to_be_one(analysis) -> None:
    fill_gpus(repeated(on_gpus(1, **RESNET, **NCCL), 200))
    reported = analysis("predict", "--to", "num_gpus=8")
    assert (
        "one trial only: nothing shows how fast GPUs exchange gradients; measure: python sweep.py from="
        in unfolded(reported.stdout)
    )


def test_what_to_measure_first_is_said_with_all_axes_of_our_own_trials(analysis) -> None:
    trial = on_gpus(2, **RESNET, **NCCL, optimizer="sgd")
    fill_gpus(repeated(trial, 390))
    reported = analysis("predict", "--to", "model=vgg16")
    assert (
        f"first measure: python sweep.py from={trial.trial_id[:8]} model=vgg16 num_gpus=1"
        in unfolded(reported.stdout)
    )


def test_a_missing_baseline_is_said(analysis) -> None:
    fill_gpus(
        [*repeated(on_gpus(2, **RESNET, **NCCL), 390), *repeated(on_gpus(4, **RESNET, **NCCL), 770)]
    )
    assert "no baseline: without a row of 1 GPU" in analysis("predict", "--to", "num_gpus=8").stdout


def test_a_baseline_that_filters_left_out_is_not_asked_to_be_measured(analysis) -> None:
    """A bug: it named the command that measures what the database has."""
    fill_gpus(curve((200, 390, 770), **RESNET, **NCCL))
    said = analysis("predict", "--to", "num_gpus=8", "num_gpus>1").stdout
    alone = on_gpus(1, **RESNET, **NCCL).trial_id[:8]
    assert f"apart; the filters left out 1 such trial, as {alone}: choose it, too" in said


def test_the_missing_baseline_of_shards_is_one_that_can_be_measured(analysis) -> None:
    shards = {"variable_update": "sharded"}
    fill_gpus(
        [
            *repeated(on_gpus(2, **RESNET, **shards), 390),
            *repeated(on_gpus(4, **RESNET, **shards), 770),
        ]
    )
    said = unfolded(analysis("predict", "--to", "num_gpus=8").stdout)
    assert re.search(r"apart; measure: .*from=\w+ num_gpus=1 strategy=replicated_none", said)


def test_contradictory_repeats_are_said(analysis) -> None:
    fill_gpus(
        [
            *repeated(on_gpus(1, **RESNET, **NCCL), 200, 150),
            *repeated(on_gpus(2, **RESNET, **NCCL), 390),
        ]
    )
    assert (
        "contradict each other: 150 against 200 images/s; see"
        in analysis("predict", "--to", "num_gpus=8").stdout
    )


def test_repeats_that_differ_step_by_step_do_not_contradict_each_other(analysis) -> None:
    """As in `compare`: the gap between neighbors counts, and not that between the ends."""
    fill_gpus(
        [
            *repeated(on_gpus(1, **RESNET, **NCCL), 176, 188, 200),
            *repeated(on_gpus(2, **RESNET, **NCCL), 390),
        ]
    )
    assert "contradict" not in analysis("predict", "--to", "num_gpus=8").stdout


def test_cpu_devices_are_refused(analysis) -> None:
    fill("results.db", [(small(device_kind=DeviceKind.CPU_DEVICE, **RESNET), 20.0)])
    reported = analysis("predict", "--to", "num_gpus=8")
    assert reported.exit_code == 2
    assert (
        "CPU devices share the cores of one machine, and the cost model is of GPUs"
        in reported.stderr
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "predict what? say it as --to num_gpus=8"),
        (("--to", "num_gpus"), "--to num_gpus: wanted an axis, once, and its values"),
        (("--to", "gpus=8"), "--to gpus=8: no such axis; there are num_gpus, batch_size, strategy"),
        (
            ("--to", "data_format=NHWC"),
            "a prediction keeps the data_format of its rows; choose rows by a filter, as data_format=NHWC",
        ),
        (("--to", "num_gpus=many"), "--to num_gpus=many: wanted a whole number, 1 or more"),
        (("--to", "strategy=magic"), "--to strategy=magic: wanted one of ps_cpu, ps_gpu"),
        (("--to", "xla=perhaps"), "--to xla=perhaps: wanted true or false"),
        (("--to", "num_gpus=2", "--to", "num_gpus=4"), "wanted an axis, once, and its values"),
        (("--to", "num_gpus=8", "--hardware", "dgx9"), "--hardware dgx9: no such profile"),
        (
            ("--to", "num_gpus=8", "--link", "speed=3"),
            "--link speed=3: wanted one of pcie_gb_per_s",
        ),
        (
            ("--to", "num_gpus=8", "--link", "pcie_gb_per_s=-1"),
            "pcie_gb_per_s=-1: wanted 0.001 to 1e+06",
        ),
        (
            ("--to", "num_gpus=8", "--link", "pcie_gb_per_s=null"),
            "wanted a number, as pcie_gb_per_s=24",
        ),
        (
            ("--to", "num_gpus=8", "--link", "socket_gb_per_s=much"),
            "wanted a number, as socket_gb_per_s=24",
        ),
        (
            ("--to", "num_gpus=8", "--link", "num_cores=1.5"),
            "wanted a whole number, as num_cores=8",
        ),
        (
            ("num_gpus=8", "--to", "num_gpus=8"),
            "choose others to learn from, as 'num_gpus<=4' --to num_gpus=8",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(
    analysis, arguments: tuple[str, ...], message: str
) -> None:
    reported = published(analysis, *arguments)
    assert reported.exit_code == 2
    assert message in reported.stderr


VGG = {"model": "vgg16", "batch_size": 64, "image_px": 224, "num_classes": 1001}


def fill_simulated(*rows: tuple[float, ...], **changes: object) -> None:
    box = replace(
        MACHINE, host="simulated-p100_pcie_8", hardware_profile=profile("p100_pcie_8").to_json()
    )
    ways = (NCCL, PS)[: len(rows)]
    simulated = {**VGG, "device_kind": DeviceKind.SIMULATED_GPU, **changes}
    filled = [
        pair
        for values, way in zip(rows, ways, strict=True)
        for pair in curve(values, **simulated, **way)
    ]
    fill("results.db", filled, machine=box)


def simulated(analysis, *arguments: str):
    return analysis("predict", "--origin", "simulated", *arguments)


def test_figures_are_headed_by_who_made_them(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9, 889.7))
    assert "simulated" in simulated(analysis, "--to", "num_gpus=8").stdout.splitlines()[1].split()
    reported = published(analysis, "model=vgg16", "data=synthetic", "--to", "num_gpus=8").stdout
    assert "published" in reported.splitlines()[1]
    assert "measured" not in reported.splitlines()[1]


def test_two_boxes_of_one_name_are_told_apart_by_their_source(analysis) -> None:
    rows = ("hardware=DGX-1P 8xP100", "model=resnet50")
    reported = analysis("predict", "--origin", "published", *rows, "--to", "num_gpus=4").stdout
    heads = [line for line in reported.splitlines() if line.startswith("Predicted")]
    assert len({head.partition(" (published: tensorflow/benchmarks@")[2] for head in heads}) == 2


def test_cpu_devices_beside_gpus_have_a_line(analysis) -> None:
    fill("results.db", [(small(device_kind=DeviceKind.CPU_DEVICE, **RESNET), 20.0)])
    fill_gpus(curve((200, 380, 740), **RESNET, **PS))
    reported = analysis("predict", "--hardware", "p100_pcie_8", "--to", "num_gpus=8")
    assert reported.exit_code == 0
    assert "not predicted: " in reported.stdout
    assert "CPU devices share the cores" in reported.stdout
    assert "from 3 rows" in reported.stdout


def test_what_to_simulate_first_names_profile_and_noise(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9))
    reported = unfolded(simulated(analysis, "--to", "model=trivial").stdout)
    assert re.search(r"first measure: python sweep.py from=\w+ model=trivial", reported)
    assert reported.count("first measure:") == 1


def test_a_batch_that_cannot_fit_is_not_asked_to_be_measured(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9))
    reported = simulated(analysis, "--to", "batch_size=4096")
    assert reported.exit_code == 2
    assert "choose a smaller batch" in reported.stdout
    assert "first measure" not in reported.stdout


def test_more_gpus_than_the_box_has_are_refused_once_with_the_way_out(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9), (129.6, 230.0, 440.0))
    reported = simulated(analysis, "--to", "num_gpus=16")
    assert reported.exit_code == 2
    assert "nothing could be predicted: all 2 cells were refused" in reported.stderr
    reason = (
        "refused, 2 cells: num_gpus=16: p100_pcie_8 has 8, and a prediction is of one host; "
        "--link num_gpus=16 asks what if the box had more"
    )
    assert reported.stdout.count(reason) == 1
    assert simulated(analysis, "--to", "num_gpus=16", "--link", "num_gpus=16").exit_code == 0


def test_a_larger_box_is_suggested_only_with_gpus_of_the_same_generation(analysis) -> None:
    """A bug: for 16 H200 it suggested a box of 16 V100."""
    fill_simulated((129.6, 247.4, 482.9))
    of_h200 = simulated(analysis, "--to", "num_gpus=16", "--on", "h200_8")
    of_v100 = simulated(analysis, "--to", "num_gpus=16", "--on", "dgx1_v100")
    larger = simulated(analysis, "--to", "num_gpus=16", "--on", "dgx2_v100")
    assert "h200_8 has 8" in of_h200.stdout
    assert "dgx2_v100" not in of_h200.stdout
    assert "or --on dgx2_v100 for a larger one" in of_v100.stdout
    assert larger.exit_code == 0


def test_refusals_are_counted_by_reason_and_the_first_are_shown(analysis) -> None:
    """A bug: where all cells were refused, hundreds of lines named each."""
    asked = ("predict", "--origin", "published", "model=vgg16", "--to", "batch_size=100000")
    reported = analysis(*asked)
    scripted = json.loads(analysis(*asked, "--json").stdout)
    records = scripted["predictions"]
    assert scripted["error"] == f"nothing could be predicted: all {len(records)} cells were refused"
    count = Counter(record["refused"] for record in records)
    reason, most = count.most_common(1)[0]
    lines = reported.stdout.splitlines()
    assert reported.exit_code == 2
    assert lines[0] == f"refused, {most} cells: {reason}"
    assert sum(line.startswith("refused, ") for line in lines) == 5 < len(count)
    assert f"and {len(count) - 5} more reasons, of " in reported.stdout
    assert "each is predicted" not in reported.stdout
    assert re.search(r"^and \d+ more notes: --json has them$", reported.stdout, re.MULTILINE)


def test_what_can_be_predicted_is_beside_rows_that_leave_no_others(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9))
    reported = simulated(analysis, "--to", "precision=fp32,fp16")
    assert reported.exit_code == 0
    assert "refused, 3 cells: it is a row itself, and no other is left" in reported.stdout
    assert "nccl, fp16" in reported.stdout


def test_a_link_may_be_unknown(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9))
    reported = simulated(analysis, "--to", "num_gpus=8", "--link", "socket_gb_per_s=null")
    assert reported.exit_code == 2
    assert "socket_gb_per_s is not known" in reported.stdout


def test_strong_scaling_keeps_the_batch_in_all(analysis) -> None:
    box = replace(
        MACHINE, host="simulated-p100_pcie_8", hardware_profile=profile("p100_pcie_8").to_json()
    )
    strong = {**VGG, **NCCL, "device_kind": DeviceKind.SIMULATED_GPU, "scaling": "strong"}
    reported = [
        (small(**{**strong, "num_gpus": num, "batch_size": 64 // num}), value)
        for num, value in ((1, 130.0), (2, 230.0))
    ]
    fill("results.db", reported, machine=box)
    found = json.loads(simulated(analysis, "--to", "num_gpus=6,8", "--json").stdout)["predictions"]
    assert {(one["num_gpus"], one["batch_size"]) for one in found} == {(6, None), (8, 8)}
    [no] = [one for one in found if one["num_gpus"] == 6]
    assert no["refused"].startswith(
        "num_gpus=6: 64 images in all (scaling=strong) do not divide among 6 GPUs"
    )
    [chosen] = json.loads(
        simulated(analysis, "--to", "num_gpus=8", "--to", "batch_size=32", "--json").stdout
    )["predictions"]
    assert chosen["batch_size"] == 32


def test_the_fastest_stands_first_and_precisions_are_told_apart(analysis) -> None:
    half = {"precision": "bf16"}
    fill_gpus([*curve((205, 395, 770), **RESNET, **NCCL), *curve((200, 380, 740), **RESNET, **PS)])
    fill_gpus(curve((400, 770, 1500), **RESNET, **NCCL, **half), name="half")
    said = analysis("predict", "--hardware", "dgx_a100", "--to", "num_gpus=8").stdout.splitlines()
    rows = [line.split() for line in said if line.startswith("resnet50 ")]
    assert [" ".join(row[3:5]) for row in rows] == [
        "replicated_nccl, bf16",
        "replicated_nccl, fp32",
        "ps_cpu, fp32",
    ]


def test_rows_are_in_order_of_their_names_and_numbers(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9), (129.6, 230.0, 440.0))
    found = json.loads(
        simulated(analysis, "--to", "num_gpus=8,2,4", "--to", "batch_size=128,32", "--json").stdout
    )["predictions"]
    read = [(one["strategy"], one["batch_size"], one["num_gpus"]) for one in found]
    assert read == sorted(read)
    assert len(read) == 12


def test_advice_and_prediction_agree(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9, 889.7), (129.6, 235.0, 470.0, 820.0))
    advised = json.loads(analysis("advise", "--all", "--origin", "simulated", "--json").stdout)[0][
        "next_trials"
    ]
    [larger] = [one["why"] for one in advised if "a larger batch" in one["why"]]
    reported = json.loads(simulated(analysis, "--to", "batch_size=128", "--json").stdout)[
        "predictions"
    ]
    [one] = [
        one for one in reported if (one["num_gpus"], one["strategy"]) == (8, "replicated_nccl")
    ]
    assert f"{one['throughput']:.0f} [{one['low']:.0f}, {one['high']:.0f}] images/s" in larger


ROWS = ((200, 380, 740), (400, 790, 1570))
"""Of 1, 2 and 4 GPUs, twice as fast the second time."""


def test_two_values_of_a_free_axis_are_two_curves(analysis) -> None:
    """A bug: rows of both were one curve, in the middle of the two."""
    asked = ("predict", "--hardware", "p100_pcie_8", "--to", "num_gpus=8", "--json")
    alone = []
    for zero, values in enumerate(ROWS):
        trials = curve(values, **RESNET, **NCCL, free={"zero": zero}.items())
        fill("alone.db", trials, machine=GPU_BOX)
        fill_gpus(trials)
        alone += json.loads(analysis(*asked, f"zero={zero}", "--db", "alone.db").stdout)[
            "predictions"
        ]
    reported = json.loads(analysis(*asked).stdout)
    assert [one["axes.zero"] for one in reported["predictions"]] == [0, 1]
    assert [one["throughput"] for one in reported["predictions"]] == [
        one["throughput"] for one in alone
    ]
    assert [len(one["rests_on"]) for one in reported["predictions"]] == [3, 3]
    assert reported["notes"][0] == (
        "2 settings of axes.zero: each is predicted from its own rows alone"
    )
    shown = analysis(*asked[:-1]).stdout
    assert "8 x Testla, driver 535.1 with axes.zero=1, from 3 rows\n" in shown


def test_rows_that_count_another_item_are_never_learned_from(analysis) -> None:
    """A bug: they were pooled, and everything was called images/s."""
    of_items = {"images": ROWS[0], "samples": ROWS[1], "tokens": (9e5, 17e5)}
    for seed, (item, values) in enumerate(of_items.items()):
        rows = curve(values, **RESNET, **NCCL, seed=seed)
        fill_gpus(rows, details=[{"item": item}] * len(rows), name=item)
    asked = ("predict", "--hardware", "p100_pcie_8", "--to", "num_gpus=8")
    reported = json.loads(analysis(*asked, "--json").stdout)
    images, samples = reported["predictions"]
    assert (images["item"], samples["item"]) == ("images", "samples")
    assert images["throughput"] < 1640 < 2600 < samples["throughput"]
    assert [len(one["rests_on"]) for one in (images, samples)] == [3, 3]
    (left_out,) = [note for note in reported["notes"] if note.startswith("not predicted: ")]
    assert "counts tokens, and batch_size counts examples" in left_out
    assert "that count images, samples, sequences, or tokens of a known seq_len" in left_out
    shown = analysis(*asked).stdout
    assert "  images/s [95 %]" in shown
    assert "  samples/s [95 %]" in shown
