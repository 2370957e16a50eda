"""A sweep that races: what could hardly lead is not run, why stands beside it, and what happens on the way changes the race."""

import os
import signal
import sys
from collections import Counter

import pytest

from scalemark.records.measurement import State
from store.errors import StoreError
from sweeper.early_stopping import contests
from sweeper.loop.backlog import Task
from tests.conftest import PROJECT
from tests.ran import ran
from tests.specs import small
from tests.sweeper.world import World, rows

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("seeds_race")]

RACE = {"budget": "inf"}


@pytest.fixture
def seeds_race(monkeypatch):
    """tests.tiny_trainer is as fast as its seed says."""
    monkeypatch.setattr(contests, "RACING", ("seed",))


def specs(*seeds: int, **axes):
    return [small(seed=seed, **axes) for seed in seeds]


def completed() -> dict[int, int]:
    """Seed -> completed attempts."""
    return dict(
        rows(
            "SELECT seed, count(*) FROM attempts JOIN trials ON trials.id = trial_id WHERE outcome = 'completed' GROUP BY seed"
        )
    )


def skipped() -> set[tuple[int, str]]:
    return set(
        rows(
            "SELECT seed, reason FROM repeats JOIN trials ON trials.id = trial_id WHERE state = 'skipped'"
        )
    )


def test_the_clearly_slower_run_once_and_the_fastest_twice(stack, capsys):
    world = World(stack, specs(1000, 2000, 4000), repeats=5, sweep=RACE)
    assert world.run() == {State.COMPLETED: 4, State.SKIPPED: 11}
    assert completed() == {1000: 1, 2000: 1, 4000: 2}
    reasons = dict(skipped())
    assert reasons.keys() == {1000, 2000, 4000}
    assert reasons[1000].startswith("race: 75")
    assert " % behind replicated_none seed=4000 after 1 repeat" in reasons[1000]
    assert reasons[4000] == "race: decided, enough repeats of it are completed"
    assert (world.orchestrator.ran.saved.num_run, world.orchestrator.ran.saved.num_spared) == (
        4,
        11,
    )
    assert rows("SELECT finished_at IS NULL FROM sweeps") == [(0,)]


def test_failures_leave_a_race_once_their_retries_are_used_up(stack):
    """Seed 906 is fast once, and fails ever after: those that only it has beaten stay beaten. Seed 900 crashes first."""
    world = World(stack, specs(906, 900), repeats=3, sweep=RACE)
    assert world.run() == {State.COMPLETED: 2, State.FAILED: 2, State.SKIPPED: 2}
    assert completed() == {906: 1, 900: 1}
    assert len(world.orchestrator.ran.failures) == 2


def test_interrupted_it_goes_on_where_it_stood(stack):
    race = specs(903, 1000, 4000)  # seed 903 takes steps until it is ended
    world = World(stack, race, repeats=2, sweep=RACE)
    _when_two_are_completed_or_it_steps(world)
    states = world.run()
    assert world.orchestrator.ran.was_interrupted
    assert states[State.SKIPPED] == 0
    before = completed()
    again = World(stack, specs(1000, 4000), name="s", repeats=2, sweep=RACE)
    again.run()
    assert Counter(completed()) - Counter(before) == Counter({1000: 1, 4000: 2}) - Counter(before)
    assert again.orchestrator.num_left == 0


def _when_two_are_completed_or_it_steps(world: World) -> None:
    """Ask it to stop as soon as seed 903 runs: the others have run before, or will in the next command."""
    started = world.tools.ledger.started

    def stop(repeat_id: int, pid: int, start_ticks: int) -> None:
        started(repeat_id, pid, start_ticks)
        ((seed,),) = rows(
            f"SELECT seed FROM trials JOIN repeats ON trials.id = trial_id WHERE repeats.id = {repeat_id}"
        )
        if seed == 903:
            os.kill(os.getpid(), signal.SIGINT)

    world.tools.ledger.started = stop  # type: ignore[method-assign]


def test_a_race_that_was_not_over_can_be_run_to_the_end_without_racing(stack):
    World(stack, specs(1000, 4000), repeats=3, sweep=RACE).run()
    World(stack, specs(1000, 4000), name="s", repeats=3).run()
    assert completed() == {1000: 3, 4000: 3}
    assert skipped() == set()


def test_nothing_more_begins_once_a_race_cannot_be_judged(stack):
    """The database fails between two looks at the queue: what comes next in it is not begun any more."""
    world = World(stack, specs(1000, 4000), repeats=2, sweep=RACE)
    observer = world.orchestrator._recorder.observer
    answers = iter([False])

    def unreadable() -> None:
        raise StoreError("results.db: disk I/O error")

    def wants(task: Task) -> bool:
        next(iter(observer._contest_of.values())).learn = unreadable
        return next(answers, True)

    observer.wants = wants
    assert world.run().total() == 0
    assert str(world.orchestrator.failure) == "results.db: disk I/O error"
    assert rows("SELECT count(*) FROM repeats WHERE state <> 'pending'") == [(0,)]


def test_side_by_side_it_races_too(stack):
    world = World(
        stack,
        specs(1000, 2000, 4000),
        repeats=5,
        sweep=RACE,
        launcher={"share_host": True},
    )
    states = world.run()
    assert states.total() == 15
    assert completed()[1000] < 5
    assert world.orchestrator.num_left == 0


def test_the_whole_command_races_and_repeated_finds_all_decided(tmp_path):
    command = [
        sys.executable,
        "-m",
        "tests.tiny_sweep",
        *["-m", "model=trivial", "hardware=cpu", "num_gpus=1", "seed=4000"],
    ]
    command += [
        "sweep.budget=inf",
        "strategy=ps_cpu,replicated_none",
        "sweep.repeats=4",
        f"store.url={tmp_path}/r.db",
        f"store.runs_dir={tmp_path}/runs",
    ]
    first, again = (ran([*command, *more], cwd=PROJECT) for more in ([], ["sweep.dry_run=true"]))
    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    assert "sweep.budget=inf: 1 race, 0 decided earlier" in " ".join(first.stderr.split())
    assert ": 3 completed, 5 skipped; racing saved 5 of 8 repeats; " in first.stderr
    assert "decided earlier" in again.stdout
