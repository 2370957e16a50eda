"""Runs the repeats of one sweep: an event loop that starts what fits, watches it, and records how
it ended.

```
  queue ──pop──► slots ──► host lock ──► claim ──► run folder ──► running ──► process
    ▲                                                                            │ ends, or is ended
    └──────── tried again ◄──── database: outcome, measurement, steps ◄──────────┘
```

One thread sleeps until a process ends, a signal comes or something is due. Every state is in the
database before it is acted upon, so that killing this process loses at most the attempts that run.
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
from functools import partial
from typing import TypeVar

from conf.schema import LauncherConfig, OnFailure, OnInterrupt, RetryConfig, SweepConfig
from scalemark.host.host_memory import is_lack_of_host_memory
from scalemark.host.process_identity import SILENT_FOR, start_ticks
from scalemark.records.cluster import RANK_JOBS, RankLimits
from scalemark.records.measurement import Result
from scalemark.records.outcomes import Outcome, State
from scalemark.records.placement import Placement
from scalemark.records.trial import TrialSpec
from scalemark.text.redact import without_secrets
from store.errors import AwayError, LockedError, LostDatabaseError, StoreError
from store.finished_attempt import FinishedAttempt
from store.sweeps.ledger import Claim, Ledger, LostError, OpenRepeat
from sweeper.agents.dead_man import DeadMan
from sweeper.devices.host_lock import Held, Lock
from sweeper.devices.machine import Inventory
from sweeper.devices.slots import Grant, Slots
from sweeper.errors import SweepRefusedError
from sweeper.planning.eta import Eta
from sweeper.planning.plan import PlannedTrial
from sweeper.planning.simulate import remaining_s
from sweeper.progress import Listener, Started
from sweeper.race.steward import End, Steward
from sweeper.race.tally import Saved, Tally
from sweeper.running import retry
from sweeper.running.attempt import Attempt, Limits, environment, judge
from sweeper.running.interruption import why_interrupted
from sweeper.running.recover import recover
from sweeper.running.run_folders import RunFolders, read_end, recorded_left, write_end
from sweeper.running.schedule import Queue, Running, Task
from sweeper.running.supply import Supply, Wish
from sweeper.starts import Start
from sweeper.stop import Stop

Value = TypeVar("Value")

BEAT_EVERY_S = 10.0
ENDED_ANYWAY = 5 / 6  # of that time: what runs is killed, whatever this one is waiting for
# of the time after which others may take what it runs: who cannot write for so long gives up
SILENCE_IS_DEATH = 2 / 3
ASK_AGAIN_AT_LEAST_EVERY_S = 5.0  # while there is nothing for us, again and again
ASK_AGAIN_EVERY_S = 1.0  # while another sweep has the devices, or runs what would do for us
SHOW_EVERY_S = 1.0
LOCKED_TRIES = 10  # each waits for store.engine.BUSY_TIMEOUT_S
LOCKED_FOR_S = 300.0  # the same for agents, each of whose tries waits for a part of their lease
MOST_CLAIMS_AT_ONCE = 20  # between two looks at what runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """What the orchestrator works with."""

    ledger: Ledger
    slots: Slots
    host_lock: Lock
    start: Start
    folders: RunFolders
    progress: Listener
    stop: Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """Where the ranks of distributed trials run."""

    hosts: tuple[str, ...] = ()  # their names, this one's first; empty = all on this one
    start: str = ""  # as `scalemark.records.placement.Placement.rank_start`


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the user chose."""

    sweep: SweepConfig
    launcher: LauncherConfig
    retry: RetryConfig
    # who gives no sign for so long is taken for dead
    silent_for_s: float = SILENT_FOR.total_seconds()
    # whose supply gave nothing for so long ends; none: when nothing is left
    idle_timeout_s: float | None = None
    ranks: Ranks = Ranks()

    @property
    def beat_every_s(self) -> float:
        return min(BEAT_EVERY_S, self.silent_for_s / 6)

    @property
    def limits(self) -> Limits:
        launcher = self.launcher
        return Limits(
            timeout_s=launcher.timeout_s,
            start_timeout_s=launcher.start_timeout_s,
            step_timeout_s=launcher.step_timeout_s,
            grace_s=launcher.grace_s,
        )

    @property
    def rank_limits(self) -> RankLimits:
        return RankLimits(
            start_timeout_s=self.launcher.rank_start_timeout_s,
            timeout_s=self.launcher.rank_timeout_s,
        )


@dataclass(slots=True)
class _Repeat:
    """A repeat of the sweep, and the attempts made of it here."""

    open: OpenRepeat
    trial: PlannedTrial
    task: Task
    # attempts, by what sweeper.running.retry calls their ends
    num_ended: Counter[str] = field(default_factory=Counter)
    is_drawn: bool = False  # from the supply, and not begun yet: others may begin it, if we cannot


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
    """Runs what the ledger has open, or what the `supply` gives, if there is one.

    `expected_s` of a trial is None where it is not known; a sweep that races has a `tally`.
    """

    def __init__(
        self,
        tools: Tools,
        policy: Policy,
        inventory: Inventory,
        trials: Sequence[PlannedTrial],
        expected_s: Callable[[TrialSpec], float | None],
        clock: Callable[[], float] = time.monotonic,
        tally: Tally | None = None,
        supply: Supply | None = None,
    ) -> None:
        self._tools, self._policy, self._inventory, self._clock = tools, policy, inventory, clock
        self._supply = supply
        sizes = (
            retry.size_ranks([trial.spec for trial in trials])
            if policy.sweep.skip_larger_after_oom
            else {}
        )
        waiting = [] if supply else tools.ledger.open_repeats()
        self._repeats = _repeats(
            waiting, trials, expected_s, sizes, tally.num_completed if tally else {}
        )
        self._of_trial: dict[str, list[int]] = {}
        for key, repeat in self._repeats.items():
            self._of_trial.setdefault(repeat.open.trial_id, []).append(key)
        blocks, seed, packs = tools.slots.blocks, policy.sweep.seed, policy.launcher.share_host
        self._queue = Queue(
            (repeat.task for repeat in self._repeats.values()),
            blocks=blocks,
            seed=seed,
            packs=packs,
        )
        trial_of = {key: repeat.open.trial_id for key, repeat in self._repeats.items()}
        self._steward = (
            Steward(tally, self._queue, trial_of, inventory.kind.singular) if tally else None
        )
        self._eta = Eta(
            lambda tasks, running, now_s: remaining_s(
                tasks, blocks=blocks, seed=seed, packs=packs, running=running, now_s=now_s
            ),
            clock,
        )
        self._starting: _Given | None = None  # waits for what starts it to be loaded
        self._starting_descriptor = -1
        self._runs: list[_Run] = []
        # another sweep runs a repeat that would do: asked again later
        self._put_off: list[Task] = []
        self._ask_again_s = clock()
        self._waits_for = ""  # which other sweep has the devices, or runs what we would, for people
        self._told_waiting = ""
        self._has_more_to_start = False  # that could be tried at once
        # with sweep.on_failure=stop, or by the wish of who planned the sweep
        self._starts_no_more = False
        self._may_get_more = supply is not None  # from the supply
        self._told_problem = False
        self._is_away = False  # the database, and that was told
        self._dead_man = DeadMan(self._kill_all)
        self._num_orphans = 0  # ended here, and told
        self._num_misses = 0  # of the supply, one after another
        self._num_obeyed = 0  # how often we were asked to stop, and did
        self._next_beat_s = self._next_show_s = clock()
        self._beat_s = self._idle_since_s = clock()
        # results cannot be written: nothing more is started
        self.failure: StoreError | SweepRefusedError | None = None
        self.states: Counter[State] = Counter()  # of repeats that need no more attempts
        self.num_finished_elsewhere = 0  # repeats that other sweeps completed meanwhile
        self.num_retries = 0
        self.failures: list[str] = []  # of repeats that did not complete, a line each

    @property
    def num_left(self) -> int:
        """Repeats that were not begun, or are to be tried again."""
        return self._num_waiting + (len(self._steward.held_back) if self._steward else 0)

    @property
    def saved(self) -> Saved:
        """By races that are over."""
        return self._steward.saved if self._steward else Saved()

    @property
    def _num_waiting(self) -> int:
        return len(self._queue) + len(self._put_off)

    @property
    def was_interrupted(self) -> bool:
        return self._tools.stop.times_asked > 0

    def run(self) -> None:
        """Until nothing is left, or what stops it; `failure` then says why results could no longer
        be written, if so.
        """
        with self._tools.stop.listening() as woken, self._dead_man.watching():
            try:
                self._steer_all()
                while self._go_on():
                    self._sleep(woken)
                if self.failure is None:
                    self._end()
            except LostError:
                told = f"gave no sign for {self._policy.silent_for_s:g} s"
                self.failure = StoreError(
                    (
                        f"this agent {told}, so that others run what it ran: it is ended here; "
                        "start an agent anew"
                    )
                    if self._supply
                    else f"this sweep {told}, and another took it for dead; repeat the command"
                )
            finally:
                for run in self._runs:
                    run.attempt.stop(at_once=True)

    def _end(self) -> None:
        finished = self.num_left == 0 and not self._may_get_more and not self.was_interrupted
        self._patiently(lambda: self._tools.ledger.end(datetime.now(UTC), finished=finished))

    def _go_on(self) -> bool:
        """All that is due now; False when the sweep is over."""
        # first: who stood still for long learns here that others run what it ran
        self._beat_if_due()
        self._obey()
        self._look()
        if self._starting:
            self._go_on_starting(self._starting)
        if not self._is_stopping and not self._starting:
            self._start_what_fits()
        if self._tools.progress.is_live and self._clock() >= self._next_show_s:
            started = [run.given.started for run in self._runs]
            self._tools.progress.show(started, self._clock(), self._eta.left_s(), self._waits_for)
            self._next_show_s = self._clock() + SHOW_EVERY_S
        if self.num_left and not self._num_waiting and not self._runs and not self._starting:
            # whom they waited for will not run: larger than one that ran out of memory
            self._steer_all()
        is_open = self._num_waiting > 0 or self._may_get_more
        return bool(self._runs or self._starting) or (is_open and not self._is_stopping)

    @property
    def _is_stopping(self) -> bool:
        return self.was_interrupted or self._starts_no_more or self.failure is not None

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
            what = (
                "the running attempt"
                if len(self._runs) == 1
                else f"{len(self._runs)} running attempts"
            )
            self._tools.progress.note(f"{doing} {what}{self._tools.stop.hint}")

    def _look(self) -> None:
        for run in list(self._runs):
            self._beat_if_due()  # recording the one before may have taken long
            run.attempt.look()
            if (ended := run.attempt.ended()) is not None:
                self._check_not_lost()
                self._runs.remove(run)
                why = why_interrupted(self._tools.stop, self._supply)
                judged = judge(run.given.started.folder, ended, self._policy.limits, why)
                self._record(
                    run.given,
                    judged.result,
                    ended.exit_code,
                    ended.duration_s,
                    crashed=judged.crashed,
                )

    def _kill_all(self) -> None:
        for run in list(self._runs):
            run.attempt.kill()
        self._tools.progress.note(
            "no sign could be given for nearly as long as the lease: what ran here is killed"
        )

    def _check_not_lost(self) -> None:
        """Before what was killed is taken for an outcome, and before anything more is started.
        Raises LostError.
        """
        if self._dead_man.has_acted:
            raise LostError("this agent")

    def _beat_if_due(self) -> None:
        self._check_not_lost()
        if self._clock() >= self._next_beat_s:
            self._beat()

    def _beat(self) -> None:
        """A database that is locked for a while ends nothing."""
        now_s = self._clock()
        try:
            self._tools.ledger.beat(datetime.now(UTC))
            self._beat_s, self._is_away = now_s, False
            if self._supply:
                self._dead_man.renew(
                    ENDED_ANYWAY * self._policy.silent_for_s - (self._clock() - now_s)
                )
            if self._supply:
                self._heed(self._supply.wish())
        except StoreError as error:
            if self._clock() < self._gives_up_s and not isinstance(error, LostDatabaseError):
                self._note_away(error)
                self._next_beat_s = min(self._clock() + self._policy.beat_every_s, self._gives_up_s)
                return
            if self._supply:  # which others take from: they will not wait for what runs here
                self._tools.progress.note(str(error))
                raise LostError("this agent") from error
            self._give_up(error)
        self._next_beat_s = self._clock() + self._policy.beat_every_s

    @property
    def _gives_up_s(self) -> float:
        """When it can have been silent for too long: counted from before its last sign was
        given.
        """
        return self._beat_s + SILENCE_IS_DEATH * self._policy.silent_for_s

    def _heed(self, wish: Wish) -> None:
        if wish is Wish.FINISH:
            self._starts_no_more = True
        elif wish > Wish.FINISH:
            self._tools.stop.ask(2 if wish is Wish.KILL else 1)

    def _patiently(self, write: Callable[[], Value]) -> Value:
        """What another program keeps locked, a backup perhaps, is tried again for minutes. Raises
        StoreError after that.

        Agents wait for a server that is away, too, as long as their lease allows. Raises LostError
        after that.
        """
        num_tries, gives_up_s = 0, self._clock() + LOCKED_FOR_S
        while True:
            try:
                return write()
            except LockedError as error:
                num_tries += 1
                if self._clock() >= gives_up_s if self._supply else num_tries == LOCKED_TRIES:
                    raise
                self._tools.progress.note(f"{error}; trying again")
            except AwayError as error:
                if not self._supply or self._tools.stop.times_asked > 1:
                    raise
                self._note_away(error)
            if self._supply:
                self._obey()
                self._beat_if_due()

    def _note_away(self, error: StoreError) -> None:
        """Once, until a sign could be given."""
        if not self._is_away:
            self._is_away = True
            self._tools.progress.note(f"{error}; trying again")

    def _give_up(self, error: StoreError | SweepRefusedError) -> None:
        """Start nothing more; what runs may end, and is found in its run folder by the next
        command.
        """
        if self.failure is None:
            self.failure = error
            self._tools.progress.note(
                f"{error}{'; waiting for what still runs' if self._runs else ''}"
            )

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
        wait_s = min(
            [min(due_s) - self._clock(), *(run.attempt.next_look_s() for run in self._runs)]
        )
        poll = select.poll()
        descriptors = [woken.fileno(), *(run.attempt.descriptor for run in self._runs)]
        for descriptor in (
            [*descriptors, self._starting_descriptor] if self._starting else descriptors
        ):
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
            if self._starting or self._is_stopping:
                return
            if self._supply and not self._queue:
                self._draw(self._supply)
            task = self._queue.pop(self._tools.slots.fits, self._running(), self._clock())
            if task is None:
                return
            if self._steward and not self._steward.wants(task):
                self._queue.put_back(task)
                self._steer(task.key)
                continue
            self._begin(self._repeats[task.key])
        self._has_more_to_start = not self._starting

    def _draw(self, supply: Supply) -> None:
        """One more repeat, if there is one that there is room for now."""
        if self._waits_for:
            return  # asked a moment ago
        try:
            self._heed(supply.wish())
            if self._is_stopping:
                return
            supplied = supply.take(most) if (most := self._ask_for_room()) else None
            if supplied is None and (most or not self._runs):
                self._may_get_more = not supply.is_over() and not self._is_idle_for_long()
        except StoreError as error:
            self._wait_for(str(error))
            return
        if supplied is None:
            if most:
                self._wait_longer("what is left is run by other agents, or needs more free devices")
            return
        self._num_misses = 0
        open_, trial = supplied.repeat, supplied.trial
        task = Task(key=open_.repeat_id, num_gpus=self._width(trial.spec), expected_s=None, round=0)
        self._repeats[task.key] = _Repeat(open=open_, trial=trial, task=task, is_drawn=True)
        if task.key not in self._of_trial.setdefault(open_.trial_id, []):
            self._of_trial[open_.trial_id].append(task.key)
        self._queue.add(task)

    def _is_idle_for_long(self) -> bool:
        """With nothing that runs, or could, as long as it may be."""
        if self._runs:
            self._idle_since_s = self._clock()
        timeout_s = self._policy.idle_timeout_s
        return timeout_s is not None and self._clock() - self._idle_since_s >= timeout_s

    def _ask_for_room(self) -> int:
        """How many devices a trial could have now, as far as others of this host leave some: asked
        before anything is taken.
        """
        slots, shares = self._tools.slots, self._policy.launcher.share_host
        if not slots.most_that_fits():
            return 0
        for names in (
            [(name,) for name in self._inventory.uuids(slots.free_devices())] if shares else [()]
        ):
            held = self._tools.host_lock.try_hold(names, shares_host=shares)
            if held is None:
                self._mark_taken()
            else:
                held.close()
        if not (most := slots.most_that_fits()):
            self._wait_for(self._tools.host_lock.held_by)
        return most

    def _mark_taken(self) -> None:
        """What was in the way of the last try; without a device to blame the whole host is taken:
        then none is free.
        """
        taken, slots = self._tools.host_lock.taken, self._tools.slots
        slots.mark_taken([taken] if taken else self._inventory.uuids(range(slots.num_devices)))

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
        grant = tools.slots.take(self._width(spec), spec.visibility)
        assert grant is not None  # the queue asked whether it fits
        names = self._inventory.uuids(grant.devices)
        held = tools.host_lock.try_hold(names, shares_host=self._policy.launcher.share_host)
        self._tell_of_orphans(tools.host_lock.num_orphans)
        if held is None:
            tools.slots.free(grant)
            self._put_back(repeat)
            self._mark_taken()
            self._wait_for(tools.host_lock.held_by)
            return
        try:
            claim = self._patiently(lambda: tools.ledger.claim(repeat.open, datetime.now(UTC)))
            repeat.is_drawn = False
            if claim is Claim.TAKEN:
                self._prepare(repeat, grant, held)
                return
        except StoreError as error:
            self._queue.put_back(repeat.task)
            self._give_up(error)
        except SweepRefusedError as error:  # there is no room for its folder
            self._give_back(repeat)
            self._queue.put_back(repeat.task)
            self._give_up(error)
        else:
            if claim is Claim.BUSY:
                self._put_off.append(repeat.task)
                self._wait_for("another sweep runs repeats that this one would run")
            else:
                self.num_finished_elsewhere += 1
                tools.progress.settled(State.SKIPPED)
                self._steer(repeat.task.key)
        held.close()
        tools.slots.free(grant)

    def _tell_of_orphans(self, num_ended: int) -> None:
        if num_new := num_ended - self._num_orphans:
            self._num_orphans = num_ended
            self._tools.progress.note(
                f"killed what an earlier sweep left running on this host: {num_new} processes"
            )

    def _put_back(self, repeat: _Repeat) -> None:
        """What could not be started after all: for us later, or for whoever has room first."""
        if repeat.is_drawn:
            self._give_back(repeat)
        else:
            self._queue.put_back(repeat.task)

    def _give_back(self, repeat: _Repeat) -> None:
        """What cannot be written now is written later, or when the lease is over."""
        try:
            self._tools.ledger.give_back(repeat.open.repeat_id, datetime.now(UTC))
        except StoreError as error:
            self._tools.progress.note(str(error))

    def _width(self, spec: TrialSpec) -> int:
        """Devices that it takes of those handed out here."""
        return spec.gpus_per_host if self._inventory.is_per_host else spec.num_gpus

    def _wait_for(self, what: str) -> None:
        if self._told_waiting != what and not self._runs:
            self._tools.progress.note(f"waiting: {what}")
            self._told_waiting = what
        self._waits_for = f"waiting: {what}"
        self._ask_again_s = self._clock() + ASK_AGAIN_EVERY_S

    def _wait_longer(self, what: str) -> None:
        """Each time that there was nothing: agents may be many, and what is left for none of them,
        too.
        """
        self._wait_for(what)
        self._num_misses += 1
        wait_s = min(
            ASK_AGAIN_EVERY_S * 2 ** min(self._num_misses - 1, 10), ASK_AGAIN_AT_LEAST_EVERY_S
        )
        self._ask_again_s = self._clock() + wait_s

    def _prepare(self, repeat: _Repeat, grant: Grant, held: Held) -> None:
        """Write down that it runs, and start it as soon as it can be. Raises StoreError."""
        tools, launcher = self._tools, self._policy.launcher
        placement = Placement(
            start=tools.start.name,
            devices=grant.devices,
            visible_devices=self._visible_devices(grant),
            cores=grant.cores,
            spare_core=grant.spare_core,
            shares_host=launcher.share_host,
            host_memory_bytes=round(launcher.host_memory_gib * 2**30)
            if launcher.host_memory_gib
            else None,
            hosts=self._policy.ranks.hosts,
            rank_start=self._policy.ranks.start,
        )
        number = repeat.open.num_attempts + 1
        started_at = datetime.now(UTC)
        limits = (
            self._policy.rank_limits if repeat.trial.spec.variable_update in RANK_JOBS else None
        )
        folder = tools.folders.make(
            repeat.trial, repeat.open.repeat, number, placement, started_at, limits
        )
        self._patiently(
            lambda: tools.ledger.run(repeat.open, str(folder.path), placement, started_at)
        )
        repeat.open = replace(repeat.open, num_attempts=number)
        if self._steward:
            self._steward.begun(repeat.task.key)
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

    def _visible_devices(self, grant: Grant) -> str:
        """Of several hosts each has GPUs with names of their own: there numbers tell which."""
        return (
            ",".join(map(str, grant.devices))
            if grant.visible_devices and self._policy.ranks.hosts
            else grant.visible_devices
        )

    def _go_on_starting(self, given: _Given) -> None:
        """Start it, or wait for what starts it to be loaded."""
        self._starting = None
        if self.was_interrupted:
            why = f"{why_interrupted(self._tools.stop, self._supply)}, before it was started"
            return self._record_not_started(given, Outcome.INTERRUPTED, why)
        try:
            descriptor = self._tools.start.prepare(given.started.folder, given.environment)
            if descriptor is None:
                return self._start(given)
        except OSError as error:
            outcome = Outcome.OUT_OF_MEMORY if is_lack_of_host_memory(error) else Outcome.FAILED
            return self._record_not_started(
                given, outcome, f"could not be started: {error.strerror or error}"
            )
        self._starting, self._starting_descriptor = given, descriptor

    def _start(self, given: _Given) -> None:
        """Raises OSError."""
        self._check_not_lost()
        tools, folder = self._tools, given.started.folder
        process = tools.start.start(folder, given.environment)
        attempt = Attempt(
            folder, process, self._policy.limits, shares_host=given.placement.shares_host
        )
        placement = replace(given.placement, start=process.start)
        started = replace(given.started, started_s=self._clock())
        self._runs.append(
            _Run(given=replace(given, placement=placement, started=started), attempt=attempt)
        )
        tools.progress.attempt_started(started)
        if tools.start.problem and not self._told_problem:
            self._told_problem = True
            tools.progress.note(tools.start.problem)
        try:
            ticks = start_ticks(process.pid) or 0
            self._patiently(
                lambda: tools.ledger.started(given.repeat.open.repeat_id, process.pid, ticks)
            )
        except StoreError as error:
            self._give_up(error)

    def _running(self) -> list[Running]:
        given = [run.given.started for run in self._runs]
        return [
            Running(
                devices=started.devices,
                started_s=started.started_s,
                expected_end_s=None
                if started.expected_s is None
                else started.started_s + started.expected_s,
            )
            for started in given
        ]

    # Ending

    def _record_not_started(self, given: _Given, outcome: Outcome, message: str) -> None:
        result = Result(outcome=outcome, message=message, measurement=None, op_placement={})
        self._record(given, result, None, 0.0, crashed=outcome is Outcome.FAILED)

    def _record(
        self,
        given: _Given,
        result: Result,
        exit_code: int | None,
        duration_s: float,
        *,
        crashed: bool,
    ) -> None:
        left = recorded_left(given.started.folder, result)
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
            # else another took this one for dead, and has told how it ended
            if read_end(given.started.folder) is None:
                write_end(given.started.folder, finished, ended_at)
            self._patiently(
                lambda: self._tools.ledger.finish(
                    repeat.open.repeat_id, finished, ended_at, again=again
                )
            )
        except (StoreError, SweepRefusedError) as error:
            return self._give_up(error)
        if again is None:
            self._settle(repeat, State(outcome))
        else:
            self.num_retries += 1
            self._queue.push(repeat.task)
            if self._supply and self._is_stopping:
                self._leave_to_others(self._supply, repeat)
        if self._supply:
            self._ask_others_again()  # there is more room now
            self._num_misses = 0
            self._idle_since_s = self._clock()
        if outcome is Outcome.COMPLETED:
            self._learn(repeat, duration_s)
        if self._steward:
            self._steward.ended(repeat.task.key, outcome if again is None else None, duration_s)
        self._eta.update([*self._queue.tasks(), *self._put_off], self._running())
        self._tools.progress.attempt_ended(
            repeat.trial, result, duration_s, again=again, eta_s=self._eta.left_s()
        )
        self._steer(repeat.task.key)
        if again is None:
            self._follow(repeat, outcome)
            if outcome is not Outcome.COMPLETED:
                self.failures.append(
                    f"{repeat.trial.label} {outcome}: {result.message} ({finished.run_dir}/log.txt)"
                )
        return None

    def _leave_to_others(self, supply: Supply, repeat: _Repeat) -> None:
        """Now, while others here may run on; what cannot be written is theirs once this agent has
        ended.
        """
        self._queue.remove(repeat.task.key)
        try:
            supply.leave_to_others(repeat.open.repeat_id)
        except StoreError as error:
            self._tools.progress.note(str(error))

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
            self._starts_no_more = True
            self._tools.progress.note("sweep.on_failure=stop: nothing more is started")

    def _why_again(self, repeat: _Repeat, outcome: Outcome, *, crashed: bool) -> str | None:
        """Why a repeat is tried again here, or None. What a stop interrupts is left to the next
        command, or to other agents.
        """
        if outcome is Outcome.COMPLETED:
            return None
        ended_so = retry.ended_so(outcome, crashed=crashed)
        repeat.num_ended[ended_so] += 1
        decided = retry.next_of(
            self._policy.retry, outcome, crashed=crashed, num_ended=repeat.num_ended
        )
        left = self._is_stopping and (self._supply is None or ended_so == Outcome.INTERRUPTED)
        return None if left or decided is retry.Next.FINAL else f"tried again after {ended_so}"

    def _skip_larger(self, failed: _Repeat) -> None:
        spec = failed.trial.spec
        held_back = self._steward.held_back if self._steward else {}
        waiting = [
            self._repeats[task.key]
            for task in (*self._queue.tasks(), *self._put_off, *held_back.values())
        ]
        larger = {
            repeat.task.key: repeat
            for repeat in waiting
            if retry.larger_than(repeat.trial.spec, spec)
        }
        if not larger:
            return
        reason = f"out_of_memory at batch_size={spec.batch_size} image_px={spec.image_px}"
        self._tools.ledger.skip(list(larger), reason, datetime.now(UTC))
        self._put_off = [task for task in self._put_off if task.key not in larger]
        for key, repeat in larger.items():
            if key in self._queue:
                self._queue.remove(key)
            held_back.pop(key, None)
            self._settle(repeat, State.SKIPPED)
        self._tools.progress.note(f"{reason}: {len(larger)} repeats of larger trials are skipped")

    # Racing

    def _steer_all(self) -> None:
        for race in self._steward.open_races() if self._steward else ():
            self._steer_race(race)

    def _steer(self, key: int) -> None:
        """The race that this repeat is in, if it is in one."""
        race = self._steward.race_of(key) if self._steward else None
        if race is not None:
            self._steer_race(race)

    def _steer_race(self, race: int) -> None:
        """Hold back what is not worth running now; when the race is over, write down what is not
        run.
        """
        if self._steward is None or self._is_stopping:
            return  # the next command judges by what was completed
        try:
            self._steward.learn(race)
            if end := self._steward.steer(race, self._put_off):
                self._end_race(end)
        except StoreError as error:
            self._give_up(error)

    def _end_race(self, end: End) -> None:
        """Raises StoreError."""
        for reason, keys in end.given_up.items():
            self._patiently(partial(self._tools.ledger.skip, keys, reason, datetime.now(UTC)))
            for key in keys:
                self._settle(self._repeats[key], State.SKIPPED)
        self._tools.progress.note(end.text)

    def _settle(self, repeat: _Repeat, state: State) -> None:
        self.states[state] += 1
        self._tools.progress.settled(state)


def _repeats(
    waiting: Sequence[OpenRepeat],
    trials: Sequence[PlannedTrial],
    expected_s: Callable[[TrialSpec], float | None],
    sizes: Mapping[str, int],
    num_completed: Mapping[str, int],
) -> dict[int, _Repeat]:
    """By their keys. A repeat's round is its place among those of its trial, after `num_completed`
    that count as run.

    `sizes`, by trial id, part each round further.
    """
    num_sizes = 1 + max(sizes.values(), default=0)
    by_id = {trial.spec.trial_id: trial for trial in trials}
    expected = {trial_id: expected_s(trial.spec) for trial_id, trial in by_id.items()}
    rounds: Counter[str] = Counter(num_completed)
    found = {}
    for repeat in waiting:
        trial = by_id[repeat.trial_id]
        round_ = rounds[repeat.trial_id] * num_sizes + sizes.get(repeat.trial_id, 0)
        rounds[repeat.trial_id] += 1
        task = Task(
            key=repeat.repeat_id,
            num_gpus=trial.spec.num_gpus,
            expected_s=expected[repeat.trial_id],
            round=round_,
        )
        found[task.key] = _Repeat(open=repeat, trial=trial, task=task)
    return found
