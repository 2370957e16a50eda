"""What the orchestrator's benchmark compares is equal work, and its trainer without a trial leaves what a real one does."""

import json
from pathlib import Path

import pytest

from benchmarks import noop_sweep, noop_trainer, orchestrator
from benchmarks.cost import BrokenError
from scalemark.records.measurement import AttemptResult, Outcome
from scalemark.run_folder import RunFolder
from tests.specs import small


def test_a_noop_trainer_leaves_a_completed_result(tmp_path: Path):
    folder = RunFolder(tmp_path)
    assert noop_trainer.main(small(), folder) == 0
    result = folder.read_result()
    assert result
    assert result.outcome == Outcome.COMPLETED
    assert {"python", "kernel", "packages", "variables", "commit", "set_by_trial"} <= set(
        json.loads(folder.environment.read_text())
    )


def test_trials_of_peers_differ_in_their_seeds_alone(tmp_path: Path):
    folders = noop_sweep.prepare(tmp_path, 3)
    specs = [json.loads(RunFolder(folder).trial.read_text()) for folder in folders]
    assert [spec.pop("seed") for spec in specs] == [1, 2, 3]
    assert specs[0] == specs[1] == specs[2]
    assert (specs[0]["model"], specs[0]["num_steps"], specs[0]["device_kind"]) == (
        "trivial",
        3,
        "cpu_device",
    )


def test_a_peer_that_leaves_a_trial_out_is_found(tmp_path: Path):
    folders = noop_sweep.prepare(tmp_path, 2)
    done = AttemptResult(outcome=Outcome.COMPLETED, message="")
    RunFolder(folders[0]).result.write_text(done.to_json())
    with pytest.raises(BrokenError, match=r"1 of 2 trials: \['no result'\]"):
        noop_sweep.check_completed(folders, "")


def test_the_grid_that_is_planned_has_as_many_trials_as_asked():
    counts = [len(sweep.split("=", 1)[1].split(",")) for sweep in orchestrator.grid(10_000)[:-1]]
    assert counts == [5, 4, 4]
    assert orchestrator.grid(10_000)[-1] == "seed=range(1,126)"


def test_every_side_has_one_turn_in_each_round_and_the_order_changes():
    orders = list(orchestrator.rounds(20, ["a", "b"]))
    assert all(sorted(order) == ["a", "b"] for order in orders)
    assert ["a", "b"] in orders
    assert ["b", "a"] in orders
