"""Runs the repeats of one sweep: an event loop that starts what fits, watches it, and records how it ended.

```
  queue ──pop──► slots ──► host lock ──► claim ──► run folder ──► running ──► process
    ▲                                                                            │ ends, or is ended
    └──────── tried again ◄──── database: outcome, measurement, steps ◄──────────┘
```

One thread sleeps until a process ends, a signal comes or something is due. Every state is in the database before it is
acted upon, so that killing this process loses at most the attempts that run.
"""

from __future__ import annotations

import os
import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from conf.schema import LauncherConfig, OnFailure, OnInterrupt, RetryConfig, SweepConfig
from store.errors import LockedError, StoreError
from store.finished_attempt import FinishedAttempt
from store.ledger import Claim, Ledger, LostError, OpenRepeat
from store.records import Outcome, Placement, Result, State, TrialSpec
from store.redact import without_secrets
from sweeper import retry
from sweeper.attempt import Attempt, Limits, environment, judge
from sweeper.errors import SweepRefusedError
from sweeper.eta import Eta
from sweeper.host_lock import Held, HostLock
from sweeper.machine import Inventory
from sweeper.plan import PlannedTrial
from sweeper.process_identity import SILENT_FOR, start_ticks
from sweeper.progress import Progress, Started
from sweeper.recover import recover
from sweeper.run_folders import RunFolders, read_end, read_left, write_end
from sweeper.schedule import Queue, Running, Task
from sweeper.simulate import remaining_s
from sweeper.slots import Grant, Slots
from sweeper.starts import Start
from sweeper.stop import Stop

Value = TypeVar("Value")

BEAT_EVERY_S = 10.0
SILENCE_IS_DEATH = SILENT_FOR / 2  # who cannot write for so long gives up, before others may take what it runs
ASK_AGAIN_EVERY_S = 1.0  # while another sweep has the devices, or runs what would do for us
SHOW_EVERY_S = 1.0
LOCKED_TRIES = 10  # each waits for store.database.BUSY_TIMEOUT_S
MOST_CLAIMS_AT_ONCE = 20  # between two looks at what runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the orchestrator works with."""

    ledger: Ledger
    slots: Slots
    host_lock: HostLock
    start: Start
    folders: RunFolders
    progress: Progress
    stop: Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the user chose."""

    sweep: SweepConfig
    launcher: LauncherConfig
    retry: RetryConfig

    @property
    def limits(self) -> Limits:
        launcher = self.launcher
        return Limits(
            timeout_s=launcher.timeout_s,
            start_timeout_s=launcher.start_timeout_s,
            step_timeout_s=launcher.step_timeout_s,
            grace_s=launcher.grace_s,
        )


@dataclass(slots=True)
class _Repeat:
    """A repeat of the sweep, and the attempts made of it here."""

    open: OpenRepeat
    trial: PlannedTrial
    task: Task
    num_ended: Counter[str] = field(default_factory=Counter)  # attempts, by what sweeper.retry calls their ends


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What an attempt was given, before it is started and while it runs."""

    repeat: _Repeat
    placement: Placement
    grant: Grant
    held: Held
    environment: dict[str, str]
    started_at: datetime
    started: Started


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """An attempt that runs."""

    given: _Given
    attempt: Attempt


class Orchestrator:
    """Runs what the ledger has open. `expected_s` of a trial is None where it is not known."""

    def __init__(
        self,
        tools: Tools,
        policy: Policy,
        inventory: Inventory,
        trials: Sequence[PlannedTrial],
        expected_s: Callable[[TrialSpec], float | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tools, self._policy, self._inventory, self._clock = tools, policy, inventory, clock
        sizes = retry.size_ranks([trial.spec for trial in trials]) if policy.sweep.skip_larger_after_oom else {}
        self._repeats = _repeats(tools.ledger.open_repeats(), trials, expected_s, sizes)
        self._of_trial: dict[str, list[int]] = {}
        for key, repeat in self._repeats.items():
            self._of_trial.setdefault(repeat.open.trial_id, []).append(key)
        blocks, seed, packs = tools.slots.blocks, policy.sweep.seed, policy.launcher.share_host
        self._queue = Queue((repeat.task for repeat in self._repeats.values()), blocks=blocks, seed=seed, packs=packs)
        self._eta = Eta(
            lambda tasks, running, now_s: remaining_s(tasks, blocks=blocks, seed=seed, packs=packs, running=running, now_s=now_s),
            clock,
        )
        self._starting: _Given | None = None  # waits for what starts it to be loaded
        self._starting_descriptor = -1
        self._runs: list[_Run] = []
        self._put_off: list[Task] = []  # another sweep runs a repeat that would do: asked again later
        self._ask_again_s = clock()
        self._waits_for = ""  # which other sweep has the devices, or runs what we would, for people
        self._told_waiting = ""
        self._has_more_to_start = False  # that could be tried at once
        self._failed = False  # with sweep.on_failure=stop: start nothing more
        self._told_problem = False
        self._num_obeyed = 0  # how often we were asked to stop, and did
        self._next_beat_s = self._next_show_s = clock()
        self._beat_at = datetime.now(UTC)
        self.failure: StoreError | SweepRefusedError | None = None  # results cannot be written: nothing more is started
        self.states: Counter[State] = Counter()  # of repeats that need no more attempts
        self.num_finished_elsewhere = 0  # repeats that other sweeps completed meanwhile
        self.num_retries = 0
        self.failures: list[str] = []  # of repeats that did not complete, a line each

    @property
    def num_left(self) -> int:
        """Repeats that were not begun, or are to be tried again."""
        return len(self._queue) + len(self._put_off)

    @property
    def was_interrupted(self) -> bool:
        return self._tools.stop.times_asked > 0

    def run(self) -> None:
        """Until nothing is left, or what stops it; `failure` then says why results could no longer be written, if so."""
        with self._tools.stop.listening() as woken:
            try:
                while self._go_on():
                    self._sleep(woken)
            except LostError:
                self.failure = StoreError(
                    f"this sweep gave no sign for {SILENT_FOR.seconds} s, and another took it for dead; repeat the command"
                )
            finally:
                for run in self._runs:
                    run.attempt.stop(at_once=True)
        if self.failure is None:
            self._tools.ledger.end(datetime.now(UTC), finished=self.num_left == 0 and not self.was_interrupted)

    def _go_on(self) -> bool:
        """All that is due now; False when the sweep is over."""
        self._obey()
        self._look()
        if self._starting:
            self._go_on_starting(self._starting)
        if not self._is_stopping and not self._starting:
            self._start_what_fits()
        if self._clock() >= self._next_beat_s:
            self._beat()
        if self._tools.progress.is_live and self._clock() >= self._next_show_s:
            started = [run.given.started for run in self._runs]
            self._tools.progress.show(started, self._clock(), self._eta.left_s(), self._waits_for)
            self._next_show_s = self._clock() + SHOW_EVERY_S
        return bool(self._runs or self._starting) or (self.num_left > 0 and not self._is_stopping)

    @property
    def _is_stopping(self) -> bool:
        return self.was_interrupted or self._failed or self.failure is not None

    def _obey(self) -> None:
        """What signals asked for since we looked last."""
        asked = self._tools.stop.times_asked
        if asked == self._num_obeyed:
            return
        self._num_obeyed = asked
        at_once = asked > 1
        ends = at_once or self._policy.sweep.on_interrupt is OnInterrupt.stop
        if ends:
            for run in self._runs:
                run.attempt.stop(at_once=at_once)
        if self._runs and not at_once:
            doing = "ending" if ends else "waiting for"
            what = "the running attempt" if len(self._runs) == 1 else f"{len(self._runs)} running attempts"
            self._tools.progress.note(f"{doing} {what}; Ctrl-C once more kills")

    def _look(self) -> None:
        for run in list(self._runs):
            run.attempt.look()
            if (ended := run.attempt.ended()) is not None:
                self._runs.remove(run)
                judged = judge(run.given.started.folder, ended, self._policy.limits)
                self._record(run.given, judged.result, ended.exit_code, ended.duration_s, crashed=judged.crashed)

    def _beat(self) -> None:
        """A database that is locked for a while ends nothing."""
        now = datetime.now(UTC)
        try:
            self._tools.ledger.beat(now)
            self._beat_at = now
        except StoreError as error:
            if now - self._beat_at > SILENCE_IS_DEATH:
                self._give_up(error)
            else:
                self._tools.progress.note(f"{error}; trying again")
        self._next_beat_s = self._clock() + BEAT_EVERY_S

    def _patiently(self, write: Callable[[], Value]) -> Value:
        """What another program keeps locked, a backup perhaps, is tried again for minutes. Raises StoreError after that."""
        for _ in range(LOCKED_TRIES - 1):
            try:
                return write()
            except LockedError as error:
                self._tools.progress.note(f"{error}; trying again")
        return write()

    def _give_up(self, error: StoreError | SweepRefusedError) -> None:
        """Start nothing more; what runs may end, and is found in its run folder by the next command."""
        if self.failure is None:
            self.failure = error
            self._tools.progress.note(f"{error}{'; waiting for what still runs' if self._runs else ''}")

    def _sleep(self, woken: socket.socket) -> None:
        """Until a process ends, a signal comes, or something is due."""
        due_s = [self._next_beat_s]
        if self._tools.progress.is_live:
            due_s.append(self._next_show_s)
        if not self._is_stopping:
            if self._waits_for and not self._starting:
                due_s.append(self._ask_again_s)
            if self._has_more_to_start:
                due_s.append(self._clock())
        wait_s = min([min(due_s) - self._clock(), *(run.attempt.next_look_s() for run in self._runs)])
        poll = select.poll()
        descriptors = [woken.fileno(), *(run.attempt.descriptor for run in self._runs)]
        for descriptor in [*descriptors, self._starting_descriptor] if self._starting else descriptors:
            poll.register(descriptor, select.POLLIN)
        ready = dict(poll.poll(max(0.0, wait_s) * 1000))
        if woken.fileno() in ready:
            woken.recv(4096)

    # Starting

    def _start_what_fits(self) -> None:
        self._has_more_to_start = False
        if self._waits_for and self._clock() >= self._ask_again_s:
            self._ask_others_again()
        for _ in range(MOST_CLAIMS_AT_ONCE):
            task = self._queue.pop(self._tools.slots.fits, self._running(), self._clock())
            if task is None:
                return
            self._begin(self._repeats[task.key])
            if self._starting or self._is_stopping:
                return
        self._has_more_to_start = True

    def _ask_others_again(self) -> None:
        self._waits_for = ""
        self._tools.slots.clear_taken()
        if self._put_off:
            if found := recover(self._tools.ledger.engine):  # whoever ran them may have been killed
                self._tools.progress.note(str(found))
            for task in self._put_off:
                self._queue.put_back(task)
            self._put_off.clear()

    def _begin(self, repeat: _Repeat) -> None:
        """Take devices, the host and the repeat; then start it, or put it back."""
        tools, spec = self._tools, repeat.trial.spec
        grant = tools.slots.take(spec.num_gpus, spec.visibility)
        assert grant is not None  # the queue asked whether it fits
        names = self._inventory.uuids(grant.devices)
        held = tools.host_lock.try_hold(names, shares_host=self._policy.launcher.share_host)
        if held is None:
            tools.slots.free(grant)
            self._queue.put_back(repeat.task)
            # Without a device to blame the whole host is taken: then none is free.
            taken = tools.host_lock.taken
            tools.slots.mark_taken([taken] if taken else self._inventory.uuids(range(tools.slots.num_devices)))
            self._wait_for(tools.host_lock.held_by)
            return
        try:
            claim = self._patiently(lambda: tools.ledger.claim(repeat.open, datetime.now(UTC)))
            if claim is Claim.TAKEN:
                self._prepare(repeat, grant, held)
                return
        except StoreError as error:
            self._queue.put_back(repeat.task)
            self._give_up(error)
        except SweepRefusedError as error:  # there is no room for its folder
            tools.ledger.give_back(repeat.open.repeat_id, datetime.now(UTC))
            self._queue.put_back(repeat.task)
            self._give_up(error)
        else:
            if claim is Claim.BUSY:
                self._put_off.append(repeat.task)
                self._wait_for("another sweep runs repeats that this one would run")
            else:
                self.num_finished_elsewhere += 1
                tools.progress.settled(State.SKIPPED)
        held.close()
        tools.slots.free(grant)

    def _wait_for(self, what: str) -> None:
        if self._told_waiting != what and not self._runs:
            self._tools.progress.note(f"waiting: {what}")
            self._told_waiting = what
        self._waits_for = f"waiting: {what}"
        self._ask_again_s = self._clock() + ASK_AGAIN_EVERY_S

    def _prepare(self, repeat: _Repeat, grant: Grant, held: Held) -> None:
        """Write down that it runs, and start it as soon as it can be. Raises StoreError."""
        tools, launcher = self._tools, self._policy.launcher
        placement = Placement(
            start=tools.start.name,
            devices=grant.devices,
            visible_devices=grant.visible_devices,
            cores=grant.cores,
            spare_core=grant.spare_core,
            shares_host=launcher.share_host,
            host_memory_bytes=round(launcher.host_memory_gib * 2**30) if launcher.host_memory_gib else None,
        )
        number = repeat.open.num_attempts + 1
        started_at = datetime.now(UTC)
        folder = tools.folders.make(repeat.trial, repeat.open.repeat, number, placement, started_at)
        tools.ledger.run(repeat.open, str(folder.path), placement, started_at)
        repeat.open = replace(repeat.open, num_attempts=number)
        started = Started(
            trial=repeat.trial,
            repeat=repeat.open.repeat,
            attempt=number,
            devices=grant.devices,
            folder=folder,
            started_s=self._clock(),
            expected_s=repeat.task.expected_s,
        )
        given = _Given(
            repeat=repeat,
            placement=placement,
            grant=grant,
            held=held,
            environment=environment(os.environ, placement.visible_devices),
            started_at=started_at,
            started=started,
        )
        self._go_on_starting(given)

    def _go_on_starting(self, given: _Given) -> None:
        """Start it, or wait for what starts it to be loaded."""
        self._starting = None
        if self.was_interrupted:
            return self._record_not_started(given, Outcome.INTERRUPTED, "the sweep was interrupted before it was started")
        try:
            descriptor = self._tools.start.prepare(given.started.folder, given.environment)
            if descriptor is None:
                return self._start(given)
        except OSError as error:
            message = f"could not be started: {error.strerror or error}"
            return self._record_not_started(given, Outcome.FAILED, message)
        self._starting, self._starting_descriptor = given, descriptor

    def _start(self, given: _Given) -> None:
        """Raises OSError."""
        tools, folder = self._tools, given.started.folder
        process = tools.start.start(folder, given.environment)
        attempt = Attempt(folder, process, self._policy.limits, shares_host=given.placement.shares_host)
        placement = replace(given.placement, start=process.start)
        started = replace(given.started, started_s=self._clock())
        self._runs.append(_Run(given=replace(given, placement=placement, started=started), attempt=attempt))
        if tools.start.problem and not self._told_problem:
            self._told_problem = True
            tools.progress.note(tools.start.problem)
        try:
            tools.ledger.started(given.repeat.open.repeat_id, process.pid, start_ticks(process.pid) or 0)
        except StoreError as error:
            self._give_up(error)

    def _running(self) -> list[Running]:
        given = [run.given.started for run in self._runs]
        return [
            Running(
                devices=started.devices,
                started_s=started.started_s,
                expected_end_s=None if started.expected_s is None else started.started_s + started.expected_s,
            )
            for started in given
        ]

    # Ending

    def _record_not_started(self, given: _Given, outcome: Outcome, message: str) -> None:
        result = Result(outcome=outcome, message=message, measurement=None, op_placement={})
        self._record(given, result, None, 0.0, crashed=outcome is Outcome.FAILED)

    def _record(self, given: _Given, result: Result, exit_code: int | None, duration_s: float, *, crashed: bool) -> None:
        left = read_left(given.started.folder, result)
        result = replace(left.result, message=without_secrets(left.result.message))
        repeat, outcome = given.repeat, Outcome(result.outcome)
        again = self._why_again(repeat, outcome, crashed=crashed)
        given.held.close()
        self._tools.slots.free(given.grant)
        finished = FinishedAttempt(
            trial_id=repeat.open.trial_id,
            repeat=repeat.open.repeat,
            attempt=repeat.open.num_attempts,
            exit_code=exit_code,
            placement=given.placement,
            run_dir=str(given.started.folder.path),
            started_at=given.started_at,
            duration_s=duration_s,
            result=result,
            steps=left.steps,
            environment=left.environment,
        )
        ended_at = datetime.now(UTC)
        try:
            if read_end(given.started.folder) is None:  # else another took this one for dead, and has told how it ended
                write_end(given.started.folder, finished, ended_at)
            self._patiently(lambda: self._tools.ledger.finish(repeat.open.repeat_id, finished, ended_at, again=again))
        except (StoreError, SweepRefusedError) as error:
            return self._give_up(error)
        if again is None:
            self._settle(repeat, State(outcome))
        else:
            self.num_retries += 1
            self._queue.push(repeat.task)
        if outcome is Outcome.COMPLETED:
            self._learn(repeat, duration_s)
        self._eta.update([*self._queue.tasks(), *self._put_off], self._running())
        self._tools.progress.attempt_ended(repeat.trial, result, duration_s, again=again, eta_s=self._eta.left_s())
        if again is None:
            self._follow(repeat, outcome)
            if outcome is not Outcome.COMPLETED:
                self.failures.append(f"{repeat.trial.label} {outcome}: {result.message} ({finished.run_dir}/log.txt)")
        return None

    def _learn(self, repeat: _Repeat, duration_s: float) -> None:
        """What a trial took, its other repeats will take."""
        self._eta.completed(duration_s)
        if repeat.task.expected_s is None:
            for key in (keys := self._of_trial[repeat.open.trial_id]):
                other = self._repeats[key]
                other.task = replace(other.task, expected_s=duration_s)
            self._queue.expect(keys, duration_s)

    def _follow(self, repeat: _Repeat, outcome: Outcome) -> None:
        """What the last outcome of a repeat means for others."""
        if outcome is Outcome.OUT_OF_MEMORY and self._policy.sweep.skip_larger_after_oom:
            self._skip_larger(repeat)
        stops = self._policy.sweep.on_failure is OnFailure.stop
        if stops and outcome is not Outcome.COMPLETED and not self._is_stopping:
            self._failed = True
            self._tools.progress.note("sweep.on_failure=stop: nothing more is started")

    def _why_again(self, repeat: _Repeat, outcome: Outcome, *, crashed: bool) -> str | None:
        """Why a repeat is tried again now, or None. What a stop interrupts is left to the next command."""
        if outcome is Outcome.COMPLETED:
            return None
        ended_so = retry.ended_so(outcome, crashed=crashed)
        repeat.num_ended[ended_so] += 1
        decided = retry.next_of(self._policy.retry, outcome, crashed=crashed, num_ended=repeat.num_ended)
        return None if self._is_stopping or decided is retry.Next.FINAL else f"tried again after {ended_so}"

    def _skip_larger(self, failed: _Repeat) -> None:
        spec = failed.trial.spec
        waiting = [self._repeats[task.key] for task in (*self._queue.tasks(), *self._put_off)]
        larger = {repeat.task.key: repeat for repeat in waiting if retry.larger_than(repeat.trial.spec, spec)}
        if not larger:
            return
        reason = f"out_of_memory at batch_size={spec.batch_size} image_px={spec.image_px}"
        self._tools.ledger.skip(list(larger), reason, datetime.now(UTC))
        put_off = {task.key for task in self._put_off}
        self._put_off = [task for task in self._put_off if task.key not in larger]
        for key, repeat in larger.items():
            if key not in put_off:
                self._queue.remove(key)
            self._settle(repeat, State.SKIPPED)
        self._tools.progress.note(f"{reason}: {len(larger)} repeats of larger trials are skipped")

    def _settle(self, repeat: _Repeat, state: State) -> None:
        self.states[state] += 1
        self._tools.progress.settled(state)


def _repeats(
    waiting: Sequence[OpenRepeat],
    trials: Sequence[PlannedTrial],
    expected_s: Callable[[TrialSpec], float | None],
    sizes: Mapping[str, int],
) -> dict[int, _Repeat]:
    """By their keys. A repeat's round is its place among those of its trial; `sizes`, by trial id, part each round further."""
    num_sizes = 1 + max(sizes.values(), default=0)
    by_id = {trial.spec.trial_id: trial for trial in trials}
    expected = {trial_id: expected_s(trial.spec) for trial_id, trial in by_id.items()}
    rounds: Counter[str] = Counter()
    found = {}
    for repeat in waiting:
        trial = by_id[repeat.trial_id]
        round_ = rounds[repeat.trial_id] * num_sizes + sizes.get(repeat.trial_id, 0)
        rounds[repeat.trial_id] += 1
        task = Task(key=repeat.repeat_id, num_gpus=trial.spec.num_gpus, expected_s=expected[repeat.trial_id], round=round_)
        found[task.key] = _Repeat(open=repeat, trial=trial, task=task)
    return found
