"""`advise` and `explain` of 100 trials fit one screen of 80 columns, and are about the newest sweep."""

import json
import math
import re
from dataclasses import replace

import pytest

from analysis.text.badges import MEANINGS
from scalemark.records.devices import DeviceKind
from scalemark.records.strategies import STRATEGY_AXES, STRATEGY_COLUMNS
from tests.analysis.gpu_box import NCCL, PS, around, curve, fill_gpus, on_gpus
from tests.conftest import PROJECT
from tests.filled import fill
from tests.specs import small

MODELS = ("resnet50", "vgg16", "alexnet", "inception3", "resnet152")
SIMULATED = {
    "engine": "simulated",
    "device_kind": DeviceKind.SIMULATED_GPU,
    "image_px": 224,
    "num_classes": 1001,
}


def hundred(**changes):
    """Trials of 5 models, 5 strategies and 4 numbers of GPUs, each with a number of its own."""
    found = []
    for place, model in enumerate(MODELS):
        for loss, strategy in enumerate(STRATEGY_COLUMNS):
            axes = dict(zip(STRATEGY_AXES, strategy, strict=True))
            for num_gpus in (1, 2, 4, 8):
                spec = replace(on_gpus(num_gpus, model=model, **axes), **changes)
                efficiency = 1 - (0.02 + 0.03 * loss) * math.log2(num_gpus)
                found.append((spec, 100.0 * (place + 1) * num_gpus * efficiency))
    return found


def shown(ended) -> list[str]:
    """Rows of a terminal of 80 columns."""
    assert ended.exit_code == 0, ended.stderr
    rows = []
    for line in ended.stdout.splitlines():
        rows += [line[start : start + 80] for start in range(0, max(1, len(line)), 80)]
    return rows


def commands(ended) -> list[str]:
    return re.findall(r"python (?:sweep\.py|-m) [^;`\n]*", ended.stdout)


@pytest.mark.parametrize("origin", ["measured", "simulated"])
def test_a_hundred_trials_fit_one_screen(analysis, origin):
    if origin == "measured":
        fill_gpus(hundred())
    else:
        fill("results.db", hundred(**SIMULATED))
    advice, explained = analysis("advise", "--no-predict"), analysis("explain")
    assert len(shown(advice)) <= 25, advice.stdout
    assert len(shown(explained)) <= 40, explained.stdout
    for ended in (advice, explained):
        assert ended.stdout.startswith(f"Newest sweep: first ({origin})")
        assert all(len(command) < 80 for command in commands(ended))


def test_advice_on_one_model_fits_one_screen(analysis, snapshot):
    fill_gpus([*curve([100.0, 190.0, 340.0, 400.0], **PS), *curve([98.0, 190, 380, 750], **NCCL)])
    ended = analysis("advise", "--no-predict")
    assert len(shown(ended)) <= 25
    assert ended.stdout == snapshot


def test_brief_is_the_headline_alone(analysis):
    fill_gpus(curve([100.0, 190.0], **PS))
    whole, brief = analysis("advise"), analysis("advise", "--brief")
    assert len(brief.stdout.splitlines()) == 1
    assert brief.stdout in whole.stdout


def test_the_newest_sweep_is_taken_with_what_others_know_of_its_work(analysis):
    fill_gpus([*curve([100.0, 190.0], **PS), *around(on_gpus(1, image_px=64), 50.0)])
    fill_gpus(curve([98.0, 195.0], **NCCL), name="second")
    (found,) = json.loads(analysis("advise", "--json").stdout)
    assert found["work"]["image_px"] == 32
    assert found["pick"]["strategy"] == "replicated_nccl"
    assert "ps_cpu" in analysis("advise").stdout
    assert analysis("advise").stdout.startswith("Newest sweep: second (measured)")


def test_a_sweep_without_a_number_is_passed_over(analysis):
    fill_gpus(curve([100.0, 190.0], **PS))
    fill_gpus([(on_gpus(4, **PS), None)], name="failed")
    assert analysis("advise").stdout.startswith("Newest sweep: first (measured)")


def test_measured_and_simulated_sweeps_are_not_mixed(analysis):
    fill_gpus(curve([100.0, 190.0], **PS))
    fill(
        "results.db",
        [(replace(spec, **SIMULATED), 9e9) for spec, _ in curve([1.0], **PS)],
        name="b",
    )
    assert "(simulated)" in analysis("advise").stdout.splitlines()[0]
    assert "190" not in analysis("advise").stdout
    assert "190" in analysis("advise", "--sweep", "first").stdout


def test_shards_are_compared_with_a_replica_of_any_variable_update(analysis):
    sharded = {"variable_update": "sharded", "local_parameter_device": "gpu", "all_reduce": "none"}
    cell = {"model": "resnet18_cifar"}
    on_one = [(on_gpus(1, **cell), 100.0), (on_gpus(1, **cell, **PS), 60.0)]
    measured = [*on_one, (on_gpus(4, **cell, **sharded), 320.0)]
    fill_gpus([row for one in measured for row in around(*one)])
    (found,) = json.loads(analysis("explain", "--json", "variable_update=sharded").stdout)
    assert found["efficiency"] == pytest.approx(0.8, abs=0.01)


def test_every_badge_is_in_the_glossary():
    glossary = (PROJECT / "docs" / "glossary.md").read_text()
    for badge, meaning in MEANINGS.items():
        assert f"| {badge} | {meaning} |" in glossary


def test_a_single_run_on_cpu_devices_has_its_badges(analysis):
    fill("results.db", [(small(num_gpus=1), 100.0), (small(num_gpus=2), 110.0)])
    ended = analysis("advise")
    assert "(CPU devices, single run)" in ended.stdout
    assert f"single run: {MEANINGS['single run']}" in ended.stdout
