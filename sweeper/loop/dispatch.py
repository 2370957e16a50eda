"""Chooses what starts next, takes devices for it, writes it down and starts it."""

import math
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from scalemark.abilities import jobs_of
from scalemark.host.processes import is_lack_of_host_memory, start_ticks
from scalemark.records.attempt import HOST_LOST, RankLimits
from scalemark.records.measurement import Outcome, ended
from scalemark.records.trial import TrialSpec
from store.errors import StoreError
from store.ledger import ClaimResult
from sweeper import SweepRefusedError
from sweeper.devices.host_lock import Lock
from sweeper.devices.machine import Inventory
from sweeper.devices.nvml import GpuUsers, said_in_use
from sweeper.devices.slots import Slots
from sweeper.loop.attempt import Attempt, Judged
from sweeper.loop.backlog import Given, Repeat, Room
from sweeper.loop.recording import Recorder
from sweeper.loop.supervision import Shared
from sweeper.starts import environment

RANK_START_S = 300.0
"""Until each process of a distributed trial must be reachable; or until the first step must be."""


def _not_started(outcome: Outcome, message: str) -> Judged:
    return Judged(result=ended(outcome, message), crashed=outcome is Outcome.FAILED)


# Each claim is a transaction: what has ended meanwhile shall not wait for hundreds of them.
MOST_CLAIMS_AT_ONCE = 20
_SAY_AGAIN_AFTER_S = 600.0  # what is waited for
ASK_AGAIN_EVERY_S = 1.0  # while another sweep has the devices, or runs what would do for us


class Rooms:
    """Gives trials what they run on: devices that are free here, and that no other sweep and nobody
    else has. `held_by` says who had what the last try lacked.
    """

    def __init__(
        self,
        slots: Slots,
        host_lock: Lock,
        inventory: Inventory,
        tell: Callable[[str], object],
        *,
        shares_host: bool,
    ) -> None:
        self.slots = slots
        self.held_by = ""
        self._gpu_users = GpuUsers(inventory.gpu_uuids)
        self._host_lock, self._inventory, self._shares_host = host_lock, inventory, shares_host
        self._tell = tell

    def take(self, spec: TrialSpec) -> Room | None:
        """None: others have the devices. Call when the slots have room."""
        self.held_by = ""
        while grant := self.slots.take_for(spec):
            names = self._inventory.uuids(grant.devices)
            held = self._host_lock.try_hold(names, shares_host=self._shares_host)
            if num_orphans := self._host_lock.num_orphans:
                processes = f"{num_orphans} process{'es' if num_orphans > 1 else ''}"
                self._tell(f"killed what an earlier sweep left running on this host: {processes}")
            if held is None:
                self.slots.free(grant)
                self.held_by = self._host_lock.held_by
                # without a device to blame, another sweep has the whole host
                taken = self._inventory.uuids(range(self.slots.num_devices))
                if self._host_lock.taken:
                    taken = (self._host_lock.taken,)
                self.slots.mark_taken(taken)
                return None
            # only now: where we have the locks, no other sweep runs anything
            in_use = self._gpu_users.look()
            if in_use and not self.held_by:
                self.held_by = said_in_use(in_use)
            of_others = {gpu.uuid for gpu in in_use}
            self.slots.mark_taken(of_others)
            if of_others.isdisjoint(names):
                return Room(grant=grant, held=held)
            held.close()
            self.slots.free(grant)
        return None

    def leave(self, room: Room, *, is_lost: bool = False) -> None:
        """Take it back; what others had may be free. `is_lost`: its host was out of reach."""
        room.held.close()
        self.slots.free(room.grant, is_lost=is_lost)
        self.slots.clear_taken()


class Backoff:
    """Waits for others: `text` says for what, and is empty when there is nothing to wait for."""

    def __init__(self, clock: Callable[[], float], tell: Callable[[str], object]) -> None:
        self.text = ""
        self.ask_again_s = clock()
        self._clock, self._tell = clock, tell
        self._said_s: dict[str, float] = {}  # when each was said last

    def end_if_due(self) -> bool:
        """Wait no more if it is time to ask again; return whether it is."""
        is_due = bool(self.text) and self._clock() >= self.ask_again_s
        if is_due:
            self.text = ""
        return is_due

    def wait(self, what: str, *, is_idle: bool) -> None:
        """Ask again then. Say so once, if nothing runs meanwhile."""
        self.text = f"waiting: {what}"
        if is_idle:
            self.say()
        self.ask_again_s = self._clock() + ASK_AGAIN_EVERY_S

    def say(self) -> None:
        """Say what is waited for, if anything, but not again after every attempt."""
        last_s, now_s = self._said_s.get(self.text, -math.inf), self._clock()
        if self.text and now_s - last_s >= _SAY_AGAIN_AFTER_S:
            self._tell(self.text)
            self._said_s[self.text] = now_s


class Dispatcher:
    """Begins what fits, one attempt at a time: `starting` waits until its fork server is loaded."""

    def __init__(self, shared: Shared, inventory: Inventory, recorder: Recorder) -> None:
        tools, shares_host = shared.tools, shared.policy.launcher.share_host
        self._shared, self._recorder = shared, recorder
        self._tools, self._backlog, self._stopping = tools, shared.backlog, shared.stopping
        self._rooms = Rooms(
            tools.slots, tools.host_lock, inventory, tools.tell, shares_host=shares_host
        )
        self._backoff = Backoff(tools.clock, tools.tell)
        self._start = tools.start
        self._reported_problem = False
        self.starting: Given | None = None
        self._has_more = False  # that could be tried at once

    @property
    def waits_for(self) -> str:
        """Say it to people; empty when it does not wait for others."""
        return self._backoff.text

    @property
    def due_s(self) -> float:
        """Return the time at which `start_what_fits` may find something."""
        if self._has_more:
            return self._tools.clock()
        if self._backoff.text and not self.starting:
            return self._backoff.ask_again_s
        return float("inf")

    def start_what_fits(self) -> None:
        self._has_more = False
        if self._backoff.end_if_due():
            self._rooms.slots.clear_taken()
            if self._backlog.put_off:
                recovered = self._tools.recover()  # whoever ran them may have been killed
                if recovered:
                    self._tools.tell(str(recovered))
                self._backlog.ask_for_put_off()
        for _ in range(MOST_CLAIMS_AT_ONCE):
            if self.starting or self._stopping.is_stopping:
                return
            task = self._backlog.queue.pop(self._rooms.slots.fits, is_idle=self._is_idle)
            if task is None:
                if self._is_idle and self._backlog:
                    self._backoff.say()
                return
            repeat = self._backlog[task.key]
            if self._recorder.observer.wants(task):
                self._begin(repeat)
            else:
                self._backlog.queue.put_back(task)
                self._recorder.steer(repeat)
        self._has_more = self.starting is None

    def go_on_starting(self) -> None:
        """Start what waits for that, and record what cannot be."""
        given, self.starting = self.starting, None
        if given is None:
            return
        if self._stopping.was_interrupted:
            why = "the sweep was interrupted, before it was started"
            self.record(given, _not_started(Outcome.INTERRUPTED, why))
            return
        try:
            descriptor = self._start.prepare(given.folder, given.environment)
            if descriptor is None:
                self._run(given)
            else:
                self.starting = replace(given, loading=descriptor)
        except OSError as error:
            outcome = Outcome.FAILED
            if is_lack_of_host_memory(error):
                outcome = Outcome.OUT_OF_MEMORY
            why = f"could not be started: {error.strerror or error}"
            self.record(given, _not_started(outcome, why))

    def record(self, given: Given, judged: Judged) -> None:
        """Record an end, which leaves room for more."""
        self._rooms.leave(given.room, is_lost=judged.exit_code == HOST_LOST)
        self._recorder.record(given, judged)

    @property
    def _is_idle(self) -> bool:
        return not self._shared.runs

    def _begin(self, repeat: Repeat) -> None:
        """Take the host and the repeat; then start it, or put it back."""
        room = self._rooms.take(repeat.trial.spec)
        if room is None:
            self._backlog.queue.put_back(repeat.task)
            # said once it is known that nothing narrower starts
            self._backoff.wait(self._rooms.held_by, is_idle=False)
            return
        if self._claim(repeat, room):
            self.go_on_starting()
        else:
            self._rooms.leave(room)

    def _claim(self, repeat: Repeat, room: Room) -> bool:
        """Say whether it is ours, and was written down."""
        ledger = self._tools.ledger
        try:
            claim = self._shared.heartbeat.write(lambda: ledger.claim(repeat.open))
            if claim is ClaimResult.TAKEN:
                self._write_down(repeat, room)
                self._recorder.observer.begun(repeat.task.key)
                return True
        except (StoreError, SweepRefusedError) as error:
            if isinstance(error, SweepRefusedError):  # there is no room for its folder
                try:
                    ledger.give_back(repeat.open.repeat_id)
                except StoreError as problem:  # it is recovered once this one has ended
                    self._tools.tell(str(problem))
            self._backlog.queue.put_back(repeat.task)
            self._stopping.give_up(error)
            return False
        if claim is ClaimResult.BUSY:
            self._backlog.put_off.append(repeat.task)
            others = "another sweep runs repeats that this one would run"
            self._backoff.wait(others, is_idle=self._is_idle)
        else:
            self._recorder.finished_elsewhere(repeat)
        return False

    def _write_down(self, repeat: Repeat, room: Room) -> None:
        """Write down that it runs, before it does. Raises StoreError and SweepRefusedError."""
        launcher = self._shared.policy.launcher
        memory_gib = launcher.host_memory_gib
        placement = replace(
            room.grant,
            start=self._start.name,
            shares_host=launcher.share_host,
            host_memory_bytes=round(memory_gib * 2**30) if memory_gib else None,
        )
        number = repeat.open.num_attempts + 1
        started_at = datetime.now(UTC)
        limits = None
        if jobs_of(repeat.trial.spec):
            limits = RankLimits(
                start_timeout_s=min(RANK_START_S, launcher.start_timeout_s),
                timeout_s=launcher.rank_timeout_s,
            )
        folder = self._tools.folders.make(
            repeat.trial, repeat.open.repeat, number, placement, started_at, limits
        )
        self._shared.heartbeat.write(
            lambda: self._tools.ledger.run(repeat.open, str(folder.path), placement, started_at)
        )
        repeat.open = replace(repeat.open, num_attempts=number)
        self.starting = Given(
            repeat=repeat,
            placement=placement,
            room=room,
            environment=environment(os.environ, placement.visible_devices),
            folder=folder,
            started_at=started_at,
            started_s=self._tools.clock(),
        )

    def _run(self, given: Given) -> None:
        """Raises OSError."""
        folder = given.folder
        process = self._start.start(folder, given.environment)
        attempt = Attempt(
            folder,
            process,
            self._shared.policy.launcher,
            shares_host=given.placement.shares_host,
            clock=self._tools.clock,
        )
        placement = replace(given.placement, start=process.start)
        given = replace(given, placement=placement, started_s=self._tools.clock())
        self._shared.runs[attempt] = given
        if self._start.problem and not self._reported_problem:
            self._reported_problem = True
            self._tools.progress.note(self._start.problem)
        try:
            ticks = start_ticks(process.pid) or 0
            repeat_id = given.repeat.open.repeat_id
            self._shared.heartbeat.write(
                lambda: self._tools.ledger.started(repeat_id, process.pid, ticks)
            )
        except StoreError as error:
            self._stopping.give_up(error)
