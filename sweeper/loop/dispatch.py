"""Chooses what starts next: takes devices and the repeat, and hands them to the starter."""

from __future__ import annotations

from datetime import UTC, datetime

from scalemark.records.attempt import HOST_LOST
from store.errors import StoreError
from store.ledger import ClaimResult
from sweeper.devices.gpu_users import GpuUsers
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError
from sweeper.loop.backlog import Backlog, Repeat
from sweeper.loop.heartbeat import Heartbeat
from sweeper.loop.recording import Recorder
from sweeper.loop.room import Room, Rooms
from sweeper.loop.starting import Starter
from sweeper.loop.stopping import Stopping
from sweeper.loop.supervision import Given, Over, Supervision
from sweeper.loop.tools import Policy, Tools
from sweeper.loop.waiting import Backoff, Patience

# Each claim is a transaction: what has ended meanwhile shall not wait for hundreds of them.
MOST_CLAIMS_AT_ONCE = 20


class Dispatcher:
    """Begins what fits."""

    def __init__(
        self,
        tools: Tools,
        policy: Policy,
        inventory: Inventory,
        backlog: Backlog,
        heartbeat: Heartbeat,
        stopping: Stopping,
        supervision: Supervision,
        recorder: Recorder,
    ) -> None:
        self._tools, self._backlog, self._heartbeat = tools, backlog, heartbeat
        self._stopping, self._supervision, self._recorder = stopping, supervision, recorder
        self._rooms = Rooms(
            tools.slots,
            tools.host_lock,
            inventory,
            tools.tell,
            shares_host=policy.launcher.share_host,
            gpu_users=GpuUsers(inventory, policy.launcher.in_use_from_mib),
        )
        self._patience = Patience(policy.launcher.wait_for_gpus_s, tools, stopping)
        self._backoff = Backoff(tools.clock, tools.tell)
        self._starter = Starter(tools, policy, heartbeat, stopping, supervision)
        self._has_more = False  # that could be tried at once

    @property
    def starting(self) -> Given | None:
        """Return the attempt that waits until its fork server is loaded."""
        return self._starter.given

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
        if self._backoff.is_due:
            self.ask_others_again()
        for _ in range(MOST_CLAIMS_AT_ONCE):
            if self._starter.given or self._stopping.is_stopping:
                return
            task = self._backlog.queue.pop(
                self._rooms.slots.fits, self._supervision.running(), self._tools.clock()
            )
            if task is None:
                self._wait_idly()
                return
            repeat = self._backlog[task.key]
            if self._recorder.observer.wants(task):
                self._begin(repeat)
            else:
                self._backlog.queue.put_back(task)
                self._recorder.steer(repeat)
        self._has_more = self._starter.given is None

    def ask_others_again(self) -> None:
        self._backoff.clear()
        self._rooms.slots.clear_taken()
        if self._backlog.put_off:
            recovered = self._tools.recover()  # whoever ran them may have been killed
            if recovered:
                self._tools.tell(str(recovered))
            self._backlog.ask_for_put_off()

    def go_on_starting(self) -> None:
        """Start what waits for that, and record what cannot be."""
        over = self._starter.go_on()
        if over:
            self.record(over)

    def record(self, over: Over) -> None:
        """Record an end, which leaves room for more."""
        self._rooms.leave(over.given.room, is_lost=over.exit_code == HOST_LOST)
        self._recorder.record(over)

    @property
    def _is_idle(self) -> bool:
        return not self._supervision.runs

    def _begin(self, repeat: Repeat) -> None:
        """Take the host and the repeat; then start it, or put it back."""
        room = self._rooms.take(repeat.trial.spec)
        if room is None:
            self._backlog.queue.put_back(repeat.task)
            # said once it is known that nothing narrower starts
            self._backoff.wait(self._rooms.held_by, is_idle=False)
            return
        self._patience.renew()
        if self._claim(repeat, room):
            self.go_on_starting()
        else:
            self._rooms.leave(room)

    def _wait_idly(self) -> None:
        """Say what is waited for when nothing runs meanwhile, and give up in the end."""
        if self._is_idle and self._backoff.text and self._backlog:
            self._backoff.say()
            self._patience.wait(self._rooms.others)

    def _claim(self, repeat: Repeat, room: Room) -> bool:
        """Say whether it is ours, and was written down."""
        ledger = self._tools.ledger
        try:
            claim = self._heartbeat.write(lambda: ledger.claim(repeat.open, datetime.now(UTC)))
            if claim is ClaimResult.TAKEN:
                self._starter.begin(repeat, room)
                self._recorder.observer.begun(repeat.task.key)
                return True
        except (StoreError, SweepRefusedError) as error:
            if isinstance(error, SweepRefusedError):  # there is no room for its folder
                self._give_back(repeat)
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

    def _give_back(self, repeat: Repeat) -> None:
        """Open a claimed repeat again; what cannot be written is recovered once this one ended."""
        try:
            self._tools.ledger.give_back(repeat.open.repeat_id, datetime.now(UTC))
        except StoreError as error:
            self._tools.tell(str(error))
