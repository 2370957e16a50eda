"""`python -m analysis predict` at a shell."""

import json
from dataclasses import replace
from itertools import combinations

import pytest

from costs.profiles import profile
from store.records import DeviceKind, GpuLink
from tests.analysis.gpu_box import GPU_BOX, NCCL, PS, curve, fill_gpus, on_gpus, repeated
from tests.filled import MACHINE, fill
from tests.specs import small

RESNET = {"model": "resnet50", "batch_size": 64, "image_px": 224, "num_classes": 1001}


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCALEMARK_DB", raising=False)


def published(analysis, *arguments: str):
    return analysis("predict", "--origin", "published", "--source", "tf-benchmarks-2017/k80x8", *arguments)


def test_a_published_source_is_predicted_from_its_few_gpus(analysis) -> None:
    told = json.loads(published(analysis, "model=vgg16", "num_gpus<=4", "data=synthetic", "--to", "num_gpus=8", "--json").stdout)
    [one] = told["predictions"]
    assert (one["num_gpus"], one["strategy"], one["is_measurement"], len(one["rests_on"])) == (8, "ps_cpu", False, 3)
    assert one["low"] < 234 < one["high"]
    assert one["parts"]["step_s"] == pytest.approx(8 * 32 / one["images_per_second"], rel=0.1)
    assert one["bottleneck"] in ("board", "switch", "host sum", "host memory")


def test_what_is_there_stands_beside_and_is_not_learned_from(analysis) -> None:
    told = json.loads(published(analysis, "model=vgg16", "data=synthetic", "--to", "num_gpus=8", "--json").stdout)
    [one] = told["predictions"]
    assert (one["origin"], one["figure"], len(one["rests_on"])) == ("published", 234, 3)
    assert one["error"] == pytest.approx(one["images_per_second"] / 234 - 1)


def test_what_else_is_asked_for_changes_no_prediction_of_what_nobody_tried(analysis) -> None:
    chosen = ("model=vgg16", "data=synthetic", "num_gpus<=4")
    [alone] = json.loads(published(analysis, *chosen, "--to", "num_gpus=8", "--json").stdout)["predictions"]
    there, beside = json.loads(published(analysis, *chosen, "--to", "num_gpus=4,8", "--json").stdout)["predictions"]
    assert beside == alone
    assert (there["num_gpus"], there["figure"], len(there["rests_on"]), len(alone["rests_on"])) == (4, 120, 2, 3)
    told = published(analysis, *chosen, "--to", "num_gpus=4,8").stdout
    assert told.startswith(
        "Predicted, not measured: GCE n1-standard-32-k80x8, from 3 rows, what is among them from the 2 others\n"
    )


def test_a_table_says_that_nothing_in_it_was_measured(analysis) -> None:
    told = published(
        analysis, "model=vgg16", "data=synthetic", "num_gpus<=4", "--to", "num_gpus=8", "--to", "strategy=ps_cpu,ps_gpu"
    )
    assert told.exit_code == 0
    assert "Predicted, not measured: GCE n1-standard-32-k80x8, from 3 rows" in told.stdout
    assert "uncertain: no row has parameter_server gpu none on more than one GPU" in told.stdout
    assert "is like k80_8" in told.stdout
    assert "communication that nothing hides" in told.stdout


def test_a_model_without_rows_is_refused_with_what_to_measure(analysis) -> None:
    told = published(analysis, "model=vgg16", "num_gpus<=4", "--to", "model=alexnet")
    assert "of alexnet, batch 32, 1 GPU, ps_cpu" in told.stdout
    assert "first measure: python sweep.py model=alexnet num_gpus=1 batch_size=32 precision=fp32" in told.stdout
    assert "image_px=227 xla=off data=synthetic distortions=false" in told.stdout


def test_faster_links_are_never_slower(analysis) -> None:
    asked = ("model=vgg16", "data=synthetic", "--to", "num_gpus=8", "--json")
    now, then = (json.loads(published(analysis, *asked, *link).stdout) for link in ((), ("--link", "pcie_gb_per_s=40")))
    assert then["predictions"][0]["parts"]["exposed_s"] <= now["predictions"][0]["parts"]["exposed_s"]


def test_another_box_is_predicted_for(analysis) -> None:
    told = published(analysis, "model=resnet50", "data=synthetic", "batch_size=64", "num_gpus=1", "--on", "dgx1_p100", "--json")
    [one] = json.loads(told.stdout)["predictions"]
    assert one["hardware"] == "dgx1_p100"
    assert one["images_per_second"] > 2 * 51.9


def test_our_own_trials_are_predicted_from(analysis) -> None:
    fill_gpus([*curve((200, 380, 740), **RESNET, **PS), *curve((205, 395, 770), **RESNET, **NCCL)])
    told = json.loads(analysis("predict", "--hardware", "p100_pcie_8", "--to", "num_gpus=8", "--json").stdout)
    assert [one["strategy"] for one in told["predictions"]] == ["ps_cpu", "replicated_nccl"]
    assert all(1300 < one["images_per_second"] < 1640 for one in told["predictions"])


def test_the_gpus_of_a_machine_and_the_links_between_them_tell_its_box(analysis) -> None:
    gpus = tuple(replace(gpu, name="Tesla V100-SXM2-16GB") for gpu in GPU_BOX.gpus)
    uuids = [gpu.uuid for gpu in gpus]
    cliques = [*combinations(uuids[:4], 2), *combinations(uuids[4:], 2), *zip(uuids[:4], uuids[4:], strict=True)]
    links = tuple(GpuLink(between=pair, num_nvlinks=1 if pair in cliques else 0) for pair in combinations(uuids, 2))
    trials = curve((200, 380, 740), **RESNET, **NCCL)
    fill("results.db", trials, machine=replace(GPU_BOX, gpus=gpus, links=links))
    told = json.loads(analysis("predict", "--to", "num_gpus=8", "--json").stdout)
    assert told["predictions"][0]["hardware"] == "dgx1_v100"
    assert "'8 x Tesla V100-SXM2-16GB', 16 pairs with NVLink, is like dgx1_v100" in told["notes"][0]


def test_rows_of_several_hosts_are_refused(analysis) -> None:
    """A bug: they were taken for one box of 32 GPUs."""
    asked = ("--origin", "published", "--source", "tf-benchmarks-2017", "variable_update~distributed*", "model=inception3")
    told = analysis("predict", *asked, "--to", "num_gpus=16")
    assert told.exit_code == 2
    assert "nothing to learn from: variable_update=distributed_replicated is of several hosts" in told.stderr
    assert "choose rows of one, as variable_update=replicated,parameter_server" in told.stderr


def test_a_source_that_speaks_of_servers_is_refused(analysis) -> None:
    told = analysis("predict", "--origin", "published", "--source", "Horovod documentation", "--to", "num_gpus=8")
    assert told.exit_code == 2
    assert "with its servers is of several hosts" in told.stderr


def test_a_lone_trial_is_said_to_be_one(analysis) -> None:
    fill_gpus(repeated(on_gpus(1, **RESNET, **NCCL), 200))
    told = analysis("predict", "--to", "num_gpus=8")
    assert (
        "one trial only: nothing tells how fast GPUs exchange gradients; measure: python sweep.py model=resnet50 num_gpus=2"
        in told.stdout
    )


def test_what_to_measure_first_is_said_with_all_axes_of_our_own_trials(analysis) -> None:
    fill_gpus(repeated(on_gpus(2, **RESNET, **NCCL, optimizer="sgd"), 390))
    told = analysis("predict", "--to", "model=vgg16")
    assert "first measure: python sweep.py model=vgg16 num_gpus=1 strategy=replicated_nccl hardware=gpu" in told.stdout
    assert "optimizer=sgd" in told.stdout


def test_a_missing_baseline_is_said(analysis) -> None:
    fill_gpus([*repeated(on_gpus(2, **RESNET, **NCCL), 390), *repeated(on_gpus(4, **RESNET, **NCCL), 770)])
    assert "no baseline: no row is of 1 GPU" in analysis("predict", "--to", "num_gpus=8").stdout


def test_contradictory_repeats_are_said(analysis) -> None:
    fill_gpus([*repeated(on_gpus(1, **RESNET, **NCCL), 200, 150), *repeated(on_gpus(2, **RESNET, **NCCL), 390)])
    assert "contradict each other: 150 against 200 images/s; see" in analysis("predict", "--to", "num_gpus=8").stdout


def test_repeats_that_differ_step_by_step_do_not_contradict_each_other(analysis) -> None:
    """As in `compare`: the gap between neighbors counts, and not that between the ends."""
    fill_gpus([*repeated(on_gpus(1, **RESNET, **NCCL), 176, 188, 200), *repeated(on_gpus(2, **RESNET, **NCCL), 390)])
    assert "contradict" not in analysis("predict", "--to", "num_gpus=8").stdout


def test_stand_ins_are_refused(analysis) -> None:
    fill("results.db", [(small(device_kind=DeviceKind.CPU_STAND_IN, **RESNET), 20.0)])
    told = analysis("predict", "--to", "num_gpus=8")
    assert told.exit_code == 2
    assert "CPU stand-ins share the cores of one machine, and the cost model is of GPUs" in told.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "predict what? say it as --to num_gpus=8"),
        (("--to", "num_gpus"), "--to num_gpus: wanted an axis and its values, as num_gpus=8,16"),
        (("--to", "gpus=8"), "--to gpus=8: no such axis; there are num_gpus, batch_size, strategy"),
        (("--to", "num_gpus=many"), "--to num_gpus=many: wanted a whole number, 1 or more"),
        (("--to", "strategy=magic"), "--to strategy=magic: wanted one of ps_cpu, ps_gpu"),
        (("--to", "xla=perhaps"), "--to xla=perhaps: wanted true or false"),
        (("--to", "num_gpus=2", "--to", "num_gpus=4"), "num_gpus is told twice"),
        (("--to", "num_gpus=8", "--hardware", "dgx9"), "hardware=dgx9: no such profile"),
        (("--to", "num_gpus=8", "--link", "speed=3"), "--link speed=3: wanted one of pcie_gb_per_s"),
        (("--to", "num_gpus=8", "--link", "pcie_gb_per_s=-1"), "wanted a number above 0, as pcie_gb_per_s=24"),
        (("--to", "num_gpus=8", "--link", "pcie_gb_per_s=null"), "wanted a number above 0, as pcie_gb_per_s=24"),
        (("--to", "num_gpus=8", "--link", "socket_gb_per_s=much"), "as socket_gb_per_s=24, or null where there is none"),
        (("--to", "num_gpus=8", "--link", "num_cores=1.5"), "wanted a whole number, as num_cores=8"),
        (("num_gpus=8", "--to", "num_gpus=8"), "choose others to learn from, as 'num_gpus<=4' --to num_gpus=8"),
    ],
)
def test_what_cannot_be_asked_is_refused(analysis, arguments: tuple[str, ...], message: str) -> None:
    told = published(analysis, *arguments)
    assert told.exit_code == 2
    assert message in told.stderr


VGG = {"model": "vgg16", "batch_size": 64, "image_px": 224, "num_classes": 1001}


def fill_simulated(*rows: tuple[float, ...], **changes: object) -> None:
    box = replace(MACHINE, host="simulated-p100_pcie_8", hardware_profile=profile("p100_pcie_8").to_json())
    ways = (NCCL, PS)[: len(rows)]
    simulated = {**VGG, "device_kind": DeviceKind.SIMULATED_GPU, **changes}
    filled = [pair for values, way in zip(rows, ways, strict=True) for pair in curve(values, **simulated, **way)]
    fill("results.db", filled, machine=box)


def simulated(analysis, *arguments: str):
    return analysis("predict", "--origin", "simulated", *arguments)


def test_figures_are_headed_by_who_made_them(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9, 889.7))
    assert "simulated" in simulated(analysis, "--to", "num_gpus=8").stdout.splitlines()[1].split()
    told = published(analysis, "model=vgg16", "data=synthetic", "--to", "num_gpus=8").stdout
    assert "published" in told.splitlines()[1]
    assert "measured" not in told.splitlines()[1]


def test_stand_ins_beside_gpus_have_a_line(analysis) -> None:
    fill("results.db", [(small(device_kind=DeviceKind.CPU_STAND_IN, **RESNET), 20.0)])
    fill_gpus(curve((200, 380, 740), **RESNET, **PS))
    told = analysis("predict", "--hardware", "p100_pcie_8", "--to", "num_gpus=8")
    assert told.exit_code == 0
    assert "not predicted: " in told.stdout
    assert "CPU stand-ins share the cores" in told.stdout
    assert "from 3 rows" in told.stdout


def test_what_to_simulate_first_names_profile_and_noise(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9))
    told = simulated(analysis, "--to", "model=trivial").stdout
    assert "first measure: python sweep.py model=trivial num_gpus=1" in told
    assert "engine=simulated hardware=p100_pcie_8 planted.noise=0" in told
    assert told.count("first measure:") == 1


def test_a_batch_that_cannot_fit_is_not_asked_to_be_measured(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9))
    told = simulated(analysis, "--to", "batch_size=4096")
    assert told.exit_code == 2
    assert "choose a smaller batch" in told.stdout
    assert "first measure" not in told.stdout


def test_more_gpus_than_the_box_has_are_refused_once_with_the_way_out(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9), (129.6, 230.0, 440.0))
    told = simulated(analysis, "--to", "num_gpus=16")
    assert told.exit_code == 2
    assert "nothing could be predicted: all 2 cells were refused" in told.stderr
    reason = "refused, 2 cells: num_gpus=16: p100_pcie_8 has 8; ask what a larger one of its kind would give: --link num_gpus=16"
    assert told.stdout.count(reason) == 1
    assert "--on dgx2_v100" in told.stdout
    for way in (("--link", "num_gpus=16"), ("--on", "dgx2_v100")):
        assert simulated(analysis, "--to", "num_gpus=16", *way).exit_code == 0


def test_a_link_may_be_unknown(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9))
    told = simulated(analysis, "--to", "num_gpus=8", "--link", "socket_gb_per_s=null")
    assert told.exit_code == 2
    assert "socket_gb_per_s is not known" in told.stdout


def test_strong_scaling_keeps_the_batch_in_all(analysis) -> None:
    box = replace(MACHINE, host="simulated-p100_pcie_8", hardware_profile=profile("p100_pcie_8").to_json())
    strong = {**VGG, **NCCL, "device_kind": DeviceKind.SIMULATED_GPU, "scaling": "strong"}
    told = [(small(**{**strong, "num_gpus": num, "batch_size": 64 // num}), value) for num, value in ((1, 130.0), (2, 230.0))]
    fill("results.db", told, machine=box)
    found = json.loads(simulated(analysis, "--to", "num_gpus=6,8", "--json").stdout)["predictions"]
    assert {(one["num_gpus"], one["batch_size"]) for one in found} == {(6, None), (8, 8)}
    [no] = [one for one in found if one["num_gpus"] == 6]
    assert no["refused"].startswith("num_gpus=6: 64 images in all (scaling=strong) do not divide among 6 GPUs")
    [chosen] = json.loads(simulated(analysis, "--to", "num_gpus=8", "--to", "batch_size=32", "--json").stdout)["predictions"]
    assert chosen["batch_size"] == 32


def test_rows_are_in_order_of_their_names_and_numbers(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9), (129.6, 230.0, 440.0))
    found = json.loads(simulated(analysis, "--to", "num_gpus=8,2,4", "--to", "batch_size=128,32", "--json").stdout)["predictions"]
    read = [(one["strategy"], one["batch_size"], one["num_gpus"]) for one in found]
    assert read == sorted(read)
    assert len(read) == 12


def test_advice_and_prediction_agree(analysis) -> None:
    fill_simulated((129.6, 247.4, 482.9, 889.7), (129.6, 235.0, 470.0, 820.0))
    advised = json.loads(analysis("advise", "--origin", "simulated", "--json").stdout)[0]["next_trials"]
    [larger] = [one["why"] for one in advised if "a larger batch" in one["why"]]
    told = json.loads(simulated(analysis, "--to", "batch_size=128", "--json").stdout)["predictions"]
    [one] = [one for one in told if (one["num_gpus"], one["strategy"]) == (8, "replicated_nccl")]
    assert f"{one['images_per_second']:.0f} images/s [{one['low']:.0f}..{one['high']:.0f}]" in larger
