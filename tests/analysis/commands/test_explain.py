"""`explain` says where the time goes, how sure that is, what to try and what is missing."""

import json
import shlex

import pytest

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import ReplicaTimes
from tests.filled import ENVIRONMENT, MACHINE, SIMULATED_MACHINE, fill
from tests.specs import small

INDEPENDENT = {"variable_update": "independent"}
EVEN = (0.99, 1.0, 1.01)
MODEL = {"model": "resnet18_cifar", "batch_size": 16}


def repeated(milliseconds, factors=EVEN, make=small, **changes):
    """One attempt per factor, each step so long."""
    spec = make(**MODEL | changes)
    return [
        (spec, 1e3 * spec.num_gpus * spec.batch_size / (milliseconds * factor))
        for factor in factors
    ]


ABLATION_ORDER = [
    *repeated(60, **INDEPENDENT),
    *repeated(100, num_gpus=2, **INDEPENDENT),
    *repeated(150, num_gpus=2),
    *repeated(149, num_gpus=2, steps_per_execution=10),
]
FLOOR = repeated(0.5, num_gpus=2, **INDEPENDENT | {"model": "trivial"})


def explained(analysis, *arguments):
    ended = analysis("explain", "--origin", "measured", *arguments, "--json")
    assert ended.exit_code == 0, ended.stderr
    return json.loads(ended.stdout)


SLOW = ReplicaTimes(
    at_once=False,
    seconds={
        f"CPU:{number}": tuple(factor * (0.1 + 0.001 * ((number + turn) % 4)) for turn in range(16))
        for number, factor in enumerate((1.0, 1.0, 1.2, 1.0), 1)
    },
)


def test_the_slow_replica_is_named_by_what_the_ablation_timed(analysis):
    independent = repeated(100, num_gpus=4, **INDEPENDENT)
    rows = [*repeated(60, **INDEPENDENT), *repeated(150, num_gpus=4), *independent]
    details = [{}] * 6 + [{"replica_times": SLOW}] * 3
    fill("results.db", rows, details=details)
    (found,) = explained(analysis)
    slow = found["slow_replicas"]
    assert [one["replica"] for one in slow["slow"]] == ["CPU:3"]
    assert slow["slow"][0]["value"] == pytest.approx(0.2, abs=0.02)
    timed_in = independent[0][0].trial_id
    assert (slow["unknown"], slow["timed_in"]) == ("", timed_in)
    ended = analysis("explain", "--origin", "measured")
    assert "CPU:3 is slow: its own compute takes 20% [" in ended.stdout.replace("\n", " ")


def test_what_was_not_timed_cannot_be_told(analysis):
    fill("results.db", ABLATION_ORDER)
    (found,) = explained(analysis)
    assert found["slow_replicas"] == {
        "slow": [],
        "slowest": None,
        "unknown": "the compute of each replica was not timed",
        "since": 0.0,
        "timed_in": "",
    }


def test_stored_ablations_are_explained_in_rows_and_sentences(analysis):
    fill("results.db", [*ABLATION_ORDER, *FLOOR])
    ended = analysis("explain", "--origin", "measured")
    assert ended.exit_code == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert (
        lines[0]
        == "resnet18_cifar, replicated_none on 2 CPU devices, batch_size 16, fp32 is communication-bound: "
        "communication takes 33% of the step, 50 ms. It reaches 67% of 2 independent replicas."
    )
    names = [line.split("  ")[0] for line in lines]
    assert names[3:7] == [
        "1 CPU device alone: compute",
        "shared cores",
        "communication",
        "= the step",
    ]
    assert any(line.startswith("Next: try batch_size=32, ") for line in lines)


def test_the_json_holds_all_of_it(analysis):
    fill("results.db", [*ABLATION_ORDER, *FLOOR])
    (one,) = explained(analysis)
    assert (one["diagnosis"]["bound"], one["diagnosis"]["confidence"]) == (
        "communication-bound",
        "sure",
    )
    base, *parts = one["steps"]["parts"]
    assert [base["what"], *(part["what"] for part in parts)] == [
        "alone",
        "shared cores",
        "communication",
    ]
    assert parts[1]["share"] == pytest.approx(1 / 3, rel=1e-3)
    assert parts[1]["seconds"]["low"] < 0.05 < parts[1]["seconds"]["high"]
    assert [*one["missing"]] == ["larger batch"]
    assert all(
        shlex.split(command)[:2] == ["scalemark", "sweep"] for command in one["missing"].values()
    )
    named = f"scalemark sweep from={one['target']['trial_id'][:8]} "
    assert one["remedies"][0]["command"].startswith(named)


def test_filters_choose_what_is_explained_and_not_what_it_is_compared_with(analysis):
    fill("results.db", [*ABLATION_ORDER, *repeated(300, model="trivial")])
    (one,) = explained(analysis, "model=resnet18_cifar", "num_gpus=2", "variable_update=replicated")
    assert len(one["steps"]["parts"]) == 3
    trial = small(num_gpus=2, **MODEL, **INDEPENDENT).trial_id
    (other,) = explained(analysis, "--trial", trial[:8])
    assert (other["target"]["trial_id"], other["diagnosis"]["bound"]) == (trial, "healthy")


def test_one_trial_only_cannot_be_reported_and_says_what_is_missing(analysis):
    fill("results.db", repeated(150, num_gpus=2))
    ended = analysis("explain", "--origin", "measured")
    said = "cannot tell what holds it back. Nothing to compare it with; independent replicas would tell."
    assert said in ended.stdout
    (found,) = explained(analysis)
    assert [*found["missing"]][:2] == ["alone", "independent"]


def test_what_ran_with_other_software_does_not_count(analysis):
    fill("results.db", repeated(150, num_gpus=2))
    newer = ENVIRONMENT | {"packages": ENVIRONMENT["packages"] | {"tensorflow": "2.99.0"}}
    fill("results.db", repeated(100, num_gpus=2, **INDEPENDENT), name="second", environment=newer)
    found = explained(analysis, "variable_update=replicated")
    assert found[0]["diagnosis"]["bound"] is None


def test_a_trial_that_brought_no_number_cannot_be_explained(analysis):
    fill("results.db", [(small(num_gpus=2), None)])
    ended = analysis("explain", "--origin", "measured")
    assert ended.exit_code == 2
    assert "nothing to explain: none of 1 trial brought a number (1 failed)" in ended.stderr


def test_simulated_trials_of_a_model_that_is_not_known_are_explained(analysis):
    """A bug: one attempt of it, as of an import, ended the command with a traceback."""
    simulated = {"device_kind": DeviceKind.SIMULATED_GPU, "batch_size": 32}
    trials = [
        *repeated(100, **simulated, model="mystery", **INDEPENDENT),
        *repeated(101, **simulated, model="mystery", num_gpus=2, **INDEPENDENT),
        *repeated(150, **simulated, model="mystery", num_gpus=2),
        *repeated(60, **simulated, model="resnet50", image_px=224),
    ]
    fill("results.db", trials, machine=SIMULATED_MACHINE)
    found = explained(analysis, "--origin", "simulated")
    bounds = [one["diagnosis"]["bound"] for one in found if one["target"]["model"] == "mystery"]
    assert bounds
    assert all(bounds)


def test_filters_like_nothing_are_told_apart_from_another_origin(analysis):
    """A bug: in a database of simulated trials a typo was answered with `--origin simulated`."""
    fill("results.db", [(small(device_kind="simulated_gpu"), 9.0)], machine=SIMULATED_MACHINE)
    ended = analysis("explain", "model=nosuch")
    assert ended.exit_code == 2
    assert "no attempt is like model=nosuch; model is trivial there; see" in ended.stderr


@pytest.mark.parametrize("trial", ["", "3", "3fa", "xyzw", "ffff"])
def test_what_begins_the_id_of_no_trial_is_refused(analysis, trial):
    fill("results.db", ABLATION_ORDER)
    ended = analysis("explain", "--origin", "measured", "--trial", trial)
    assert ended.exit_code == 2
    wanted = "wanted the beginning of a trial's id (4 hexadecimal digits or more); scalemark list names them"
    assert f"--trial {trial}: no such trial in what was chosen; {wanted}" in ended.stderr


def test_published_figures_without_a_batch_are_no_steps(analysis):
    ended = analysis(
        "explain",
        "--origin",
        "published",
        "--source",
        "MLPerf Training v2.0",
    )
    assert ended.exit_code == 2
    assert "the chosen figures have no batch size" in ended.stderr


def test_a_published_loss_is_printed(analysis):
    asked = (
        "--origin",
        "published",
        "--source",
        "tf-benchmarks-2017/dgx-1",
        "model=vgg16",
        "batch_size=32",
        "data=synthetic",
    )
    ended = analysis("explain", "--origin", "measured", *asked)
    assert (
        "29% of the step is lost to contention or communication (90 ms); independent replicas would tell."
        in ended.stdout
    )
    assert MACHINE.host not in ended.stdout
