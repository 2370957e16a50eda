"""Real processes on one database, killed at random moments: every repeat is completed exactly once."""

import multiprocessing
import random
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from scalemark.records.trial import TrialSpec
from store.database import open_for_reading
from store.ledger import unended
from store.reading import queries
from tests.specs import small
from tests.store import orchestrator_process
from tests.store.reported_steps import ReportedSteps, go_on, is_known

pytestmark = pytest.mark.integration

NUM_SWEEPS, NUM_TRIALS, NUM_REPEATS, NUM_KILLS = 6, 12, 2, 24
SPECS = [small(seed=seed) for seed in range(1, NUM_TRIALS + 1)]


def _orchestrate(name: str, specs: list[TrialSpec], steps: Connection) -> None:
    orchestrator_process.orchestrate("r.db", name, specs, NUM_REPEATS, ReportedSteps(steps))


@dataclass(slots=True)
class _Sweep:
    name: str
    process: ForkServerProcess
    steps: Connection
    num_steps_left: int | None  # until it is killed; None: never

    @classmethod
    def start(cls, name: str, num_steps_left: int | None) -> "_Sweep":
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["tests.store.test_orchestrators_at_once"])
        steps, theirs = context.Pipe()
        process = context.Process(target=_orchestrate, args=(name, SPECS, theirs))
        process.start()
        theirs.close()
        return cls(name=name, process=process, steps=steps, num_steps_left=num_steps_left)

    def step(self) -> bool:
        """False when it has ended."""
        if not is_known(self.steps):
            return False
        if self.num_steps_left is not None:
            self.num_steps_left -= 1
            if self.num_steps_left <= 0:
                self.process.kill()
                return True
        go_on(self.steps)
        return True

    def exit_code(self) -> int | None:
        self.process.join()
        self.steps.close()
        return self.process.exitcode


def _run_all(chance: random.Random) -> Counter[int | None]:
    """Six sweeps of the same trials at once; who is killed has its command repeated. Returns how processes ended."""

    def moment() -> int | None:
        return chance.randint(1, 16) if exit_codes[-9] + len(running) < NUM_KILLS else None

    exit_codes: Counter[int | None] = Counter()
    running: list[_Sweep] = []
    for number in range(NUM_SWEEPS):
        running.append(_Sweep.start(f"sweep{number}", moment()))
    while running:
        ready = wait([sweep.steps for sweep in running])
        for sweep in [sweep for sweep in running if sweep.steps in ready]:
            if sweep.step():
                continue
            running.remove(sweep)
            exit_code = sweep.exit_code()
            exit_codes[exit_code] += 1
            if exit_code == -9:
                running.append(_Sweep.start(sweep.name, moment()))
    return exit_codes


def test_killed_orchestrators_complete_every_repeat_exactly_once():
    exit_codes = _run_all(random.Random(1))
    assert set(exit_codes) == {0, -9}  # nobody met a locked database, or lost what was its own
    assert exit_codes[0] == NUM_SWEEPS
    assert exit_codes[-9] >= 1  # about 20; who is fast ends before its moment
    engine = open_for_reading("r.db")
    completed = queries.rows(
        engine,
        "SELECT trial_id, count(*) AS num FROM attempts WHERE outcome = 'completed' GROUP BY trial_id",
    )
    assert {row["trial_id"]: row["num"] for row in completed} == {
        spec.trial_id: NUM_REPEATS for spec in SPECS
    }
    results = {str(path.parent) for path in Path("runs").glob("*/result")}
    assert (
        len(results) == NUM_TRIALS * NUM_REPEATS
    )  # whatever had completed is recorded: none was run again for it
    states = {
        row["state"]: row["num"]
        for row in queries.rows(engine, "SELECT state, count(*) AS num FROM repeats GROUP BY state")
    }
    assert (states.pop("completed"), set(states)) == (NUM_TRIALS * NUM_REPEATS, {"skipped"})
    assert unended(engine) == []
    assert queries.rows(engine, "SELECT name FROM sweeps WHERE finished_at IS NULL") == []
    unrecorded = "SELECT id FROM repeats WHERE num_attempts <> (SELECT count(*) FROM attempts WHERE attempts.sweep_id = repeats.sweep_id AND attempts.trial_id = repeats.trial_id AND attempts.repeat = repeats.repeat)"
    assert queries.rows(engine, unrecorded) == []
