"""A sweep without processes, database or waiting: a fake ledger, start and clock around the real loop.

What an attempt does is scripted by the seed of its trial. `Loop.run` takes milliseconds, whatever time passes on its clock.
"""

import json
import math
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa

from conf.schema import LauncherConfig, SweepConfig
from scalemark.records.attempt import SweepRecord, sweep_uid
from scalemark.records.measurement import EXIT_CODES, AttemptResult, GpuTelemetry, Outcome, State
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from store.ledger import ClaimResult, OpenRepeat
from store.reading.earlier import CompletedRepeat
from store.rows import FinishedAttempt
from sweeper.devices.host_lock import Lock
from sweeper.devices.machine import Inventory
from sweeper.devices.slots import DeviceSlots
from sweeper.early_stopping.budget import read_budget
from sweeper.early_stopping.contests import Race, make_races
from sweeper.early_stopping.fastest import make_searches
from sweeper.grid.plan import PlannedTrial
from sweeper.loop.orchestrator import Orchestrator
from sweeper.loop.run_folders import RunFolders
from sweeper.loop.supervision import Policy, Stop, Tools
from tests.filled import ENVIRONMENT, MACHINE, NOON, STEPS, measurement
from tests.sweeper.world import EIGHT

WATCHED = GpuTelemetry(
    uuid="GPU-0",
    num_samples=9,
    sm_clock_mhz=None,
    max_sm_clock_mhz=None,
    power_w=None,
    power_limit_w=None,
    temperature_c=None,
    utilization=None,
    memory_used_bytes=None,
    throttle_reasons=(),
    num_foreign_processes=None,
)
NO_PROCESS = 4194305  # more than Linux gives

SWEEP = SweepRecord(
    uid=sweep_uid("s", NOON, "sweep.py"),
    name="s",
    reason="",
    command="sweep.py",
    started_at=NOON,
    trials=(),
    left_out=(),
)


class FakeClock:
    """Seconds that pass only when somebody waits."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True, kw_only=True)
class Script:
    """What an attempt does."""

    takes_s: float = 10.0
    outcome: Outcome = Outcome.COMPLETED
    crashes: int = (
        0  # attempts of each repeat that end by SIGSEGV before one does as it is reported
    )
    deaf: bool = False  # hears SIGKILL only
    throughput: float = 100.0
    disturbed: int = 0  # attempts of each repeat that other programs compute beside


class FakeProcess:
    """Ends when the clock says so, or by a signal; then it has written what its script says."""

    pid, start = NO_PROCESS, "fake"

    def __init__(self, script: Script, folder: RunFolder, clock: FakeClock) -> None:
        self.descriptor = os.eventfd(0)
        self.signals: list[signal.Signals] = []
        self.ends_s = clock.now_s + script.takes_s
        self._script, self._folder, self._exit_code = script, folder, 0
        attempt = int(folder.path.name.rpartition("-a")[2])
        if attempt <= script.crashes:
            self._exit_code = -signal.SIGSEGV
        self._num_others = int(attempt <= script.disturbed)

    def end_if_due(self, now_s: float) -> None:
        if now_s >= self.ends_s and not self.has_ended:
            if self._exit_code == 0:
                self._exit_code = _leave(self._folder, self._script, self._num_others)
            self._end()

    @property
    def has_ended(self) -> bool:
        return self.ends_s == float("inf")

    def signal_group(self, which: signal.Signals) -> None:
        self.signals.append(which)
        if not self.has_ended and (which is signal.SIGKILL or not self._script.deaf):
            self._exit_code = -which
            self._end()

    def reap(self) -> int:
        os.close(self.descriptor)
        return self._exit_code

    def _end(self) -> None:
        self.ends_s = float("inf")
        os.eventfd_write(self.descriptor, 1)


def _leave(folder: RunFolder, script: Script, num_others: int) -> int:
    folder.write(folder.environment, json.dumps(ENVIRONMENT))
    measured = None
    if script.outcome is Outcome.COMPLETED:
        measured = measurement(script.throughput)
        reported = ("phase", "start_s", "duration_s", "data_wait_s", "loss")
        steps = [
            {name: getattr(STEPS[1], name) for name in reported} | {"step": number}
            for number in range(3)
        ]
        folder.steps.write_text("".join(f"{json.dumps(step)}\n" for step in steps))
    seen = replace(WATCHED, num_foreign_processes=num_others)
    result = AttemptResult(
        outcome=script.outcome,
        message="",
        measurement=measured,
        op_placement={},
        gpu_telemetry=(seen,) if num_others else (),
    )
    folder.write(folder.result, result.to_json())
    return EXIT_CODES[script.outcome]


class FakeStart:
    """Starts what `scripts` have for a trial's seed."""

    name, problem = "fake", None

    def __init__(self, scripts: dict[int, Script], clock: FakeClock) -> None:
        self.processes: list[FakeProcess] = []
        self.order: list[int] = []  # seeds
        self.loads_until_s = 0.0  # what starts attempts is loaded then
        self._scripts, self._clock, self._loading = scripts, clock, os.eventfd(0)

    def prepare(self, folder: RunFolder, environment: object) -> int | None:
        return None if self._clock.now_s >= self.loads_until_s else self._loading

    def start(self, folder: RunFolder, environment: object) -> FakeProcess:
        seed = folder.read_trial().seed
        self.order.append(seed)
        self.processes.append(FakeProcess(self._scripts.get(seed, Script()), folder, self._clock))
        return self.processes[-1]

    def next_end_s(self) -> float:
        return min((process.ends_s for process in self.processes), default=float("inf"))

    def close(self) -> None:
        os.close(self._loading)


@dataclass
class FakeLedger:
    """A ledger in memory that refuses what the real one would refuse."""

    trials: dict[int, PlannedTrial]  # by repeat
    engine: sa.Engine = field(  # never opened, only named
        default_factory=lambda: sa.create_engine("sqlite:///results.db")
    )
    ended: bool | None = None  # finished or not; None: not ended
    num_beats: int = 0
    states: dict[int, State] = field(default_factory=dict)
    attempts: Counter[int] = field(default_factory=Counter)  # begun, by repeat
    story: dict[int, list[str]] = field(default_factory=dict)
    finished: list[FinishedAttempt] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)  # repeats that another sweep runs
    fails: Callable[[str], Exception | None] = lambda _: None  # before a method of that name

    def __post_init__(self) -> None:
        self.states = dict.fromkeys(self.trials, State.PENDING)
        self.story = {key: [] for key in self.trials}

    def open_repeats(self) -> Sequence[OpenRepeat]:
        return [self._open(key) for key in self.trials]

    def recover(self) -> None:
        self.busy.clear()

    def claim(self, repeat: OpenRepeat) -> ClaimResult:
        self._may_fail("claim")
        if repeat.repeat_id in self.busy:
            return ClaimResult.BUSY
        self._change(repeat.repeat_id, State.PENDING, State.CLAIMED)
        return ClaimResult.TAKEN

    def give_back(self, repeat_id: int) -> None:
        self._change(repeat_id, State.CLAIMED, State.PENDING)

    def run(self, repeat: OpenRepeat, run_dir: str, placement: object, at: datetime) -> int:
        self._may_fail("run")
        self._change(repeat.repeat_id, State.CLAIMED, State.RUNNING)
        self.attempts[repeat.repeat_id] += 1
        assert self.attempts[repeat.repeat_id] == repeat.num_attempts + 1
        return self.attempts[repeat.repeat_id]

    def started(self, repeat_id: int, pid: int, start_ticks: int) -> None:
        self._may_fail("started")
        assert self.states[repeat_id] is State.RUNNING

    def finish(self, repeat_id: int, attempt: FinishedAttempt, *, again: bool = False) -> None:
        self._may_fail("finish")
        assert attempt.attempt == self.attempts[repeat_id]
        self._change(repeat_id, State.RUNNING, State(attempt.result.outcome))
        self.finished.append(attempt)
        if again:
            self._change(repeat_id, State(attempt.result.outcome), State.PENDING)

    def skip(self, repeat_ids: Sequence[int], reason: str) -> None:
        self._may_fail("skip")
        for key in repeat_ids:
            self._change(key, State.PENDING, State.SKIPPED)

    def beat(self, at: datetime) -> None:
        self.num_beats += 1
        self._may_fail("beat")

    def end(self, at: datetime, *, finished: bool) -> None:
        self.ended = finished

    def _open(self, key: int) -> OpenRepeat:
        spec = self.trials[key].spec
        earlier = [one for one in self.trials if one < key and self.trials[one].spec == spec]
        return OpenRepeat(
            repeat_id=key,
            trial_id=spec.trial_id,
            repeat=len(earlier) + 1,
            num_attempts=self.attempts[key],
        )

    def _change(self, key: int, before: State, after: State) -> None:
        assert self.states[key] is before, f"repeat {key} is {self.states[key]}, not {before}"
        self.states[key] = after
        self.story[key].append(after.value)

    def _may_fail(self, what: str) -> None:
        if error := self.fails(what):
            raise error


class Notes:
    """A listener that keeps what people were reported."""

    is_live = False

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasons: list[str] = []  # why repeats were tried again
        self.settled_states: Counter[State] = Counter()

    def note(self, text: str) -> None:
        self.texts.append(text)

    def show(self, *_: object) -> None:
        raise AssertionError("nobody looks")

    def attempt_ended(self, *_: object, again: str | None, eta_s: float | None) -> None:
        if again is not None:
            self.reasons.append(again)

    def settled(self, state: State) -> None:
        self.settled_states[state] += 1


class Loop:
    """One sweep. `at` has things happen at seconds of its clock."""

    def __init__(
        self,
        stack: ExitStack,
        specs: list[TrialSpec],
        scripts: dict[int, Script] | None = None,
        *,
        repeats: int = 1,
        heartbeat_timeout_s: float = 120.0,
        sweep: dict[str, object] | None = None,
        launcher: dict[str, object] | None = None,
        inventory: Inventory = EIGHT,
        finished: Sequence[TrialSpec] = (),
    ) -> None:
        self.clock, self.stop, self.notes = FakeClock(), Stop(), Notes()
        self.scripts = scripts or {}
        self.at: dict[float, Callable[[], object]] = {}
        settings = SweepConfig(repeats=repeats, **(sweep or {}))
        chosen = LauncherConfig(name="local", **{"grace_s": 5.0} | (launcher or {}))
        planned = [PlannedTrial(spec=spec, num_repeats=repeats) for spec in specs]
        in_rounds = [trial for trial in planned for _ in range(repeats)]
        self.ledger = FakeLedger(dict(enumerate(in_rounds, start=1)))
        self.start = FakeStart(self.scripts, self.clock)
        stack.callback(self.start.close)
        tools = Tools(
            ledger=self.ledger,
            recover=self.ledger.recover,
            slots=DeviceSlots(inventory, share_host=chosen.share_host, cores=tuple(range(9))),
            host_lock=Lock(),
            start=self.start,
            folders=RunFolders(Path("runs").resolve(), SWEEP, MACHINE, "key"),
            progress=self.notes,
            stop=self.stop,
            clock=self.clock,
            wait=self._wait,
        )
        self.budget = read_budget(settings.budget, self.clock)
        self.contests = self._races(specs, settings)
        policy = Policy(
            launcher=chosen,
            heartbeat_timeout_s=heartbeat_timeout_s,
        )
        self.orchestrator = Orchestrator(
            tools,
            policy,
            inventory,
            [*planned, *(PlannedTrial(spec=spec, num_repeats=0) for spec in finished)],
            contests=self.contests,
            most_left_s=self.budget.left if self.budget else lambda: math.inf,
        )

    def run(self) -> Counter[State]:
        self.orchestrator.run()
        return self.orchestrator.ran.states

    def _races(self, specs: Sequence[TrialSpec], sweep: SweepConfig) -> list[Race]:
        if self.budget is None:
            return []
        if not self.budget.is_endless:
            return make_searches(
                specs, sweep.repeats, self._completed, self.budget, lambda spec: None
            )
        return make_races(specs, sweep.repeats, self._completed)

    def _completed(self, trial_ids: Sequence[str]):
        found = [one for one in self.ledger.finished if one.result.measurement]
        return {
            trial_id: tuple(
                CompletedRepeat(throughput=one.result.measurement.throughput)
                for one in found
                if one.trial_id == trial_id
            )
            for trial_id in trial_ids
        }

    def _wait(self, descriptors: Iterable[int], timeout_s: float) -> None:
        """Until the next thing happens on the clock."""
        due_s = [self.clock.now_s + timeout_s, self.start.next_end_s(), *self.at]
        self.clock.now_s = max(self.clock.now_s, min(due_s))
        for at_s in [at_s for at_s in self.at if at_s <= self.clock.now_s]:
            self.at.pop(at_s)()
        for process in self.start.processes:
            process.end_if_due(self.clock.now_s)
