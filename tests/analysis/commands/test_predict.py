"""`scalemark predict` at a shell."""

import json
from dataclasses import replace

import pytest

from scalemark.records.machine import DeviceKind
from simulator.costs.box import profile
from tests.analysis.gpu_box import NCCL, PS, curve, fill_gpus, on_gpus, repeated
from tests.filled import MACHINE, fill
from tests.specs import small

RESNET = {"model": "resnet50", "batch_size": 64, "image_px": 224, "num_classes": 1001}


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCALEMARK_DB", raising=False)


def predictions(analysis, *arguments: str):
    return json.loads(analysis("predict", *arguments, "--json").stdout)["predictions"]


def published(analysis, *arguments: str):
    source = ("--origin", "published", "--source", "tf-benchmarks-2017/k80x8")
    return predictions(analysis, *source, "model=vgg16", "data=synthetic", *arguments)


def test_a_published_source_is_predicted_from_its_few_gpus(analysis):
    [one] = published(analysis, "num_gpus<=4", "--to", "num_gpus=8")
    assert (one["num_gpus"], one["strategy"]) == (8, "ps_cpu")
    assert (len(one["rests_on"]), one["num_counts"], one["basis"]) == (3, 3, "curve")
    assert one["low"] < 234 < one["high"]


def test_what_is_there_stands_beside_and_is_not_learned_from(analysis):
    [one] = published(analysis, "--to", "num_gpus=8")
    [without] = published(analysis, "num_gpus<=4", "--to", "num_gpus=8")
    assert (one["figure"], len(one["rests_on"])) == (234, 3)
    assert one["throughput"] == without["throughput"]
    shown = analysis(
        *("predict", "--origin", "published", "--source", "tf-benchmarks-2017/k80x8"),
        *("model=vgg16", "data=synthetic", "--to", "num_gpus=8"),
    ).stdout
    error = one["throughput"] / 234 - 1
    assert f"234 {error:+.1%}" in shown


def test_each_curve_is_carried_on_by_itself_to_twice_its_gpus(analysis):
    fill_gpus([*curve((200, 380, 740), **RESNET, **PS), *curve((205, 395), **RESNET, **NCCL)])
    found = {one["strategy"]: one for one in predictions(analysis)}
    assert {name: one["num_gpus"] for name, one in found.items()} == {
        "ps_cpu": 8,
        "replicated_nccl": 4,
    }
    assert 1300 < found["ps_cpu"]["throughput"] < 1480


def test_the_answer_is_one_table_and_a_sentence_for_each_doubt(analysis, snapshot):
    fill_gpus(
        [
            *curve((200, 380, 740), **RESNET, **PS),
            *curve((205, 395, 770), **RESNET, **NCCL),
            *curve((390, 760, 1500), **RESNET, **NCCL, precision="fp16"),
            *repeated(on_gpus(1, **{**RESNET, "model": "vgg16"}, **PS), 90),
        ]
    )
    assert analysis("predict", "--to", "num_gpus=8").stdout == snapshot


def test_two_values_of_a_free_axis_are_two_curves(analysis):
    """A bug: rows of both were one curve, in the middle of the two."""
    for zero, values in enumerate(((200, 380, 740), (400, 790, 1570))):
        fill_gpus(curve(values, **RESNET, **NCCL, free={"zero": zero}.items()))
    found = predictions(analysis, "--to", "num_gpus=8")
    assert [one["setting"]["axes.zero"] for one in found] == [0, 1]
    assert found[0]["throughput"] < 1500 < 3000 < found[1]["throughput"]
    assert "axes.zero" in analysis("predict", "--to", "num_gpus=8").stdout


def test_rows_that_count_another_item_are_never_mixed(analysis):
    for seed, (item, values) in enumerate({"images": (200, 380), "samples": (400, 790)}.items()):
        rows = curve(values, **RESNET, **NCCL, seed=seed)
        fill_gpus(rows, details=[{"item": item}] * len(rows), name=item)
    found = predictions(analysis, "--to", "num_gpus=4")
    assert {one["unit"]: len(one["rests_on"]) for one in found} == {"images/s": 2, "samples/s": 2}


def simulated(values: tuple[float, ...], **changes: object) -> None:
    box = replace(
        MACHINE, host="simulated-p100_pcie_8", hardware_profile=profile("p100_pcie_8").to_json()
    )
    trials = {**RESNET, **NCCL, "device_kind": DeviceKind.SIMULATED_GPU, **changes}
    fill("results.db", curve(values, **trials), machine=box)


def test_loss_grows_beyond_a_socket(analysis):
    simulated((130, 240, 440))
    [within] = predictions(analysis, "num_gpus<4", "--origin", "simulated", "--to", "num_gpus=4")
    [beyond] = predictions(analysis, "--origin", "simulated", "--to", "num_gpus=8")
    assert (within["basis"], beyond["basis"]) == ("curve", "slower links")
    shown = analysis("predict", "--origin", "simulated", "--to", "num_gpus=8").stdout
    assert "slower links begin beyond" in shown


def test_strong_scaling_is_one_curve(analysis):
    box = replace(
        MACHINE, host="simulated-p100_pcie_8", hardware_profile=profile("p100_pcie_8").to_json()
    )
    strong = {**RESNET, **NCCL, "device_kind": DeviceKind.SIMULATED_GPU, "scaling": "strong"}
    trials = [
        (small(**{**strong, "num_gpus": num, "batch_size": 64 // num}), value)
        for num, value in ((1, 130.0), (2, 230.0))
    ]
    fill("results.db", trials, machine=box)
    [one] = predictions(analysis, "--origin", "simulated", "--to", "num_gpus=4")
    assert one["num_counts"] == 2


@pytest.mark.parametrize(
    ("num_gpus", "reason"),
    [
        ("16", "p100_pcie_8 has 8 GPUs"),
        ("1", "no trial of this curve has fewer than 1 GPUs"),
    ],
)
def test_what_is_declined_says_why(analysis, num_gpus, reason):
    simulated((130, 240, 440))
    ended = analysis("predict", "--origin", "simulated", "--to", f"num_gpus={num_gpus}")
    assert ended.exit_code == 2
    assert f"{reason}" in ended.stdout
    assert "nothing could be predicted" in ended.stderr


def test_a_box_that_was_used_whole_gets_a_check_to_run(analysis):
    """A bug: nothing could be predicted, and no next step was named."""
    simulated((130, 240, 440, 800))
    ended = analysis("predict", "model=resnet50")
    assert ended.exit_code == 2
    assert ended.stderr.endswith("by what was measured, say --to num_gpus=8\n")
    checked = analysis("predict", "model=resnet50", "--to", "num_gpus=8")
    assert checked.exit_code == 0
    assert "3 counts  800" in checked.stdout


def test_more_than_eight_times_the_gpus_are_declined(analysis):
    """Nobody says how many GPUs the boxes of this source have."""
    fill_gpus(repeated(on_gpus(1, **RESNET, **NCCL), 200))
    [one] = predictions(analysis, "--to", "num_gpus=9")
    assert one["declined"] == "9 GPUs are over 8 times the 1 that were tried: measure on 2 first"
    assert one["throughput"] is None


def test_cpu_devices_are_declined_and_gpus_beside_them_are_not(analysis):
    fill("results.db", [(small(device_kind=DeviceKind.CPU_DEVICE, **RESNET), 20.0)])
    alone = analysis("predict", "--to", "num_gpus=8")
    assert alone.exit_code == 2
    assert "on 8 CPU devices: CPU devices share the cores of one machine: measure" in alone.stdout
    fill_gpus(curve((200, 380, 740), **RESNET, **PS))
    assert analysis("predict", "--to", "num_gpus=8").exit_code == 0


def test_counted_steps_are_declined(analysis):
    rows = curve((200, 380, 740), **RESNET, **NCCL)
    fill_gpus(rows, details=[{"item": "steps"}] * len(rows))
    [one] = predictions(analysis, "--to", "num_gpus=8")
    assert one["declined"].startswith("steps are counted")


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("8,16", "did you mean --to num_gpus=8,16?"),
        ("num_gpus", "wanted whole numbers of GPUs of up to 7 digits, as num_gpus=8,16"),
        ("num_gpus=" + "9" * 5000, "wanted whole numbers of GPUs"),
        ("num_gpus=" + "9" * 400, "wanted whole numbers of GPUs"),
        ("num_gpus=many", "wanted whole numbers of GPUs"),
        ("num_gpus=0", "wanted whole numbers of GPUs"),
        ("strategy=ps_cpu", "measure another strategy, or simulate it with engine=simulated"),
    ],
)
def test_what_cannot_be_asked_is_refused(analysis, to, message):
    ended = analysis("predict", "--origin", "published", "--to", to)
    assert ended.exit_code == 2
    assert message in ended.stderr
