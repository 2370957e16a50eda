"""Without --origin every reading command is about the origin of the newest sweep that matches, and names the others; numbers of two origins are never mixed."""

import json
from contextlib import closing
from functools import partial

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.trial import STRATEGY_AXES
from store.writer import Writer
from tests.app import Ended, run_app
from tests.filled import TWO_GPUS, begin, fill
from tests.plots.charts.charting import resnet

PS = dict(zip(STRATEGY_AXES, ("parameter_server", "cpu", "none"), strict=True))
QUICK = [
    "table --json",
    "scaling --json",
    "conclusions --json",
    "advise --json",
    "list --json",
]
SLOWER = [
    "predict --to num_gpus=2 --json",
    "explain --json",
    "compare strategy=ps_cpu strategy=replicated_none --json",
]
DRAWING = ["chart --chart throughput", "report"]
OF_ALL = pytest.mark.parametrize(
    "command", [*QUICK, *(pytest.param(one, marks=pytest.mark.integration) for one in SLOWER)]
)


@pytest.fixture
def run(capsys, monkeypatch):
    def run(command: str, *further: str) -> Ended:
        return run_app(capsys, monkeypatch, *command.split(), *further)

    return run


def fill_with(kind: DeviceKind, model: str = "resnet50", word: str = "") -> None:
    """A sweep of two strategies on 1 and 2, named like its origin; simulated ones are ten times as fast."""
    is_simulated = kind is DeviceKind.SIMULATED_GPU
    of = partial(
        resnet,
        model=model,
        device_kind=kind,
        image_px=224,
        batch_size=64,
        engine="simulated" if is_simulated else "tensorflow",
    )
    speeds = zip((100.0, 190.0, 90.0, 150.0), (1, 2, 1, 2), ({}, {}, PS, PS), strict=True)
    factor = 10 if is_simulated else 1
    fill(
        "results.db",
        [(of(num_gpus=num, **axes), factor * speed) for speed, num, axes in speeds],
        name=word or f"{'simulated' if is_simulated else 'measured'} {model}",
        machine=None if is_simulated else TWO_GPUS,
    )


def origin_of(ended: Ended) -> str:
    """The one origin of what a command printed."""
    assert ended.exit_code == 0, ended.stderr
    is_simulated = "simulated" in json.dumps(json.loads(ended.stdout))
    return "simulated" if is_simulated else "measured"


@pytest.mark.integration
@pytest.mark.parametrize("command", [*QUICK, *SLOWER, *DRAWING])
@pytest.mark.parametrize("kind", [DeviceKind.GPU, DeviceKind.SIMULATED_GPU])
def test_a_database_of_one_origin_is_read_without_a_word_about_it(run, command, kind):
    fill_with(kind)
    ended = run(command)
    assert ended.exit_code == 0, ended.stderr
    assert "origin" not in ended.stderr


@OF_ALL
def test_the_newest_sweep_decides_and_the_other_origin_is_named(run, command):
    fill_with(DeviceKind.GPU)
    fill_with(DeviceKind.SIMULATED_GPU)
    ended = run(command)
    assert origin_of(ended) == "simulated"
    fill_with(DeviceKind.GPU, word="later")
    again = run(command)
    assert origin_of(again) == "measured"
    assert origin_of(run(command, "--origin", "simulated")) == "simulated"
    if command.split()[0] not in ("advise", "explain"):  # their first line says it
        note = "origin: simulated, as the newest sweep that matches (simulated resnet50); "
        assert ended.stderr == f"{note}--origin measured has the others\n"


@OF_ALL
def test_filters_and_sweeps_choose_the_origin_of_what_matches(run, command):
    fill_with(DeviceKind.GPU)
    fill_with(DeviceKind.SIMULATED_GPU, model="vgg16")
    for asked, origin in (
        ("model=resnet50", "measured"),
        ("model=vgg16", "simulated"),
        ("--sweep=measured resnet50", "measured"),
    ):
        ended = run(command, asked)
        assert origin_of(ended) == origin
        assert "origin" not in ended.stderr
    assert "origin: simulated" in run(command, "num_gpus>=1").stderr


def test_the_first_line_of_advice_names_the_other_origin(run):
    fill_with(DeviceKind.SIMULATED_GPU)
    fill_with(DeviceKind.GPU)
    (first, *_) = run("advise").stdout.splitlines()
    assert first == (
        "Newest sweep: measured resnet50 (measured); there is --origin simulated, too."
    )


def test_a_trial_is_explained_whatever_the_newest_sweep_is(run):
    fill_with(DeviceKind.GPU)
    (row, *_) = json.loads(run("list --json num_gpus=2").stdout)
    fill_with(DeviceKind.SIMULATED_GPU)
    (found,) = json.loads(run("explain --json --trial", row["trial"]).stdout)
    assert found["target"]["origin"] == "measured"


def test_a_sweep_that_found_its_trials_finished_is_the_newest_that_matches(run):
    """It has no attempt of its own."""
    fill_with(DeviceKind.GPU)
    fill_with(DeviceKind.SIMULATED_GPU)
    spec = resnet(device_kind=DeviceKind.GPU, image_px=224, batch_size=64)
    with closing(Writer("results.db")) as writer:
        begin(writer, {spec: 1}, name="again", machine=TWO_GPUS)
    ended = run("list --json")
    assert origin_of(ended) == "measured"
    assert "(again); --origin simulated" in ended.stderr


def test_deleted_attempts_have_an_origin_too(run):
    fill_with(DeviceKind.GPU)
    fill_with(DeviceKind.SIMULATED_GPU)
    run("db mark 1 --delete")
    (row,) = json.loads(run("list --json --deleted").stdout)
    assert row["attempt"] == 1
