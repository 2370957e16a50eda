"""Looks after a sweep that runs on other hosts: has agents started, and shows what they do, until
nothing is left. `Controller.run` is called by `sweeper.sweep`; each part has one job.

```
  plan ──► database: repeats that nobody has ──take──► agents ──► results, in the database
             ▲ expired leases, wishes (stop)              ▲ replaced while there is work
             └─────────────── controller ─────────────────┘
```

Killing it ends no agent: the same command joins in again.
"""

from __future__ import annotations

import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from conf.schema import SweepConfig
from scalemark.records.outcomes import State
from scalemark.text.untrusted import without_secrets
from store.errors import StoreError
from store.sweeps.agents import (
    come_back,
    ended_since,
    give_up,
    had_repeats,
    last_attempt,
    left_after_an_attempt,
    num_open,
    set_wish,
)
from store.sweeps.ledger import LostError
from store.sweeps.shared import SharedLedger, shared_status
from store.sweeps.sweep_status import sweep_status
from sweeper.agents.fleet import Fleet
from sweeper.agents.lease import Lease
from sweeper.agents.orders import Orders
from sweeper.agents.results import Results
from sweeper.agents.roster import Roster, Standing
from sweeper.errors import SweepRefusedError
from sweeper.live.progress import Progress
from sweeper.live.status import snapshot_of
from sweeper.loop.source import Wish
from sweeper.planning.plan import PlannedTrial
from sweeper.report import Ran
from sweeper.running.recover import Expiry
from sweeper.stop import Stop

LOOK_EVERY_S = 1.0  # a look is a handful of queries
SILENT_DATABASE_S = 600.0  # after that the controller ends; agents have ended by then
# once nothing is left; then theirs is ended, as that of those which never began
AGENTS_END_WITHIN_S = 10.0
TRIES_AT_THE_END = 5  # one a second: a server that restarts is back by then


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerTools:
    """Parts that the controller works with."""

    ledger: SharedLedger  # its own
    fleet: Fleet
    progress: Progress
    stop: Stop
    runs_dir: Path  # the sweep's own


class Controller:
    """Looks after one sweep; `trials` are known by their ids."""

    def __init__(
        self,
        tools: ControllerTools,
        sweep: SweepConfig,
        trials: Mapping[str, PlannedTrial],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        ledger, progress = tools.ledger, tools.progress
        engine, sweep_id = ledger.engine, ledger.sweep_id
        self._tools, self._clock = tools, clock
        first = shared_status(engine, sweep_id)
        self._first_attempt = last_attempt(engine)
        self._standing = Standing(first.counts)
        self._roster = Roster(first, progress.note)
        self._orders = Orders(
            sweep.on_interrupt,
            tools.stop,
            tools.fleet,
            lambda wish: set_wish(engine, sweep_id, ledger.orchestrator_id, wish),
            progress.note,
        )
        self._results = Results(
            progress, self._orders, sweep.on_failure, trials, tools.runs_dir, self._first_attempt
        )
        self._lease = Lease(ledger)
        self._expiry = Expiry(
            engine, sweep_id, progress.note, every_s=ledger.lease_s / 6, clock=clock
        )
        self._heard_s = clock()
        # why nothing more is seen of it, or can be had
        self.failure: StoreError | SweepRefusedError | None = None

    @property
    def was_interrupted(self) -> bool:
        return self._tools.stop.times_asked > 0

    @property
    def num_left(self) -> int:
        return self._standing.num_left

    @property
    def ran(self) -> Ran:
        """Counts repeats that were settled since it began, and those that had run when a stop left
        them to the next command.
        """
        standing, ends = self._standing, self._orders.ends_what_runs
        interrupted = Counter({State.INTERRUPTED: standing.num_running if ends else 0})
        return Ran(
            states=standing.settled + standing.left_after_an_attempt + interrupted,
            num_retries=self._results.num_retries,
            num_not_started=standing.num_not_started,
            was_interrupted=self.was_interrupted,
            failures=self._results.failures,
            failure=str(self.failure) if self.failure else None,
            num_running=0 if ends else standing.num_running,
        )

    def run(self) -> None:
        """Run until nothing is left, or something stops it; `failure` then says why results could
        no longer be had, if so.
        """
        with self._tools.stop.listening() as woken, self._lease.renewed():
            while self._go_on():
                self._wait(woken)
            # after a StoreError the sweep may be another's, and its agents, too
            if not isinstance(self.failure, StoreError):
                self._wait_for_agents(woken)
                self._close(woken)

    def _wait(self, woken: socket.socket) -> None:
        if select.select([woken], [], [], LOOK_EVERY_S)[0]:
            woken.recv(4096)

    def _wait_for_agents(self, woken: socket.socket) -> None:
        """Give those that are through time to end by themselves."""
        gives_up_s = self._clock() + AGENTS_END_WITHIN_S
        try:
            while self.failure is None and not self.was_interrupted and self._clock() < gives_up_s:
                if not self._tools.fleet.num_alive():
                    return
                self._wait(woken)
        except SweepRefusedError as error:
            self._tools.progress.note(str(error))

    def _close(self, woken: socket.socket) -> None:
        """Note in the database that this is over, and end the agents that are left; what fails is
        only printed, so that the report comes.
        """
        problem: StoreError | None = None
        for _ in range(TRIES_AT_THE_END):
            if problem:
                self._wait(woken)
            try:
                self._end_as_owner()
                return
            except SweepRefusedError as error:
                self._tools.progress.note(
                    f"agents may be left over, and end by themselves: {error}"
                )
                return
            except StoreError as error:
                problem = error
                self._tools.progress.note(without_secrets(str(error)))
        self.failure = self.failure or problem

    def _end_as_owner(self) -> None:
        try:
            self._lease.beat()
        except LostError:
            if not self._comes_back():
                return
        ledger = self._tools.ledger
        self._standing.now = Counter(shared_status(ledger.engine, ledger.sweep_id).counts)
        self._standing.left_after_an_attempt = left_after_an_attempt(
            ledger.engine, ledger.sweep_id, self._first_attempt
        )
        try:
            self._tools.fleet.stop(at_once=self._tools.stop.times_asked > 1)
        finally:
            ledger.end(datetime.now(UTC), finished=self.num_left == 0)

    def _go_on(self) -> bool:
        try:
            goes_on = self._look_as_owner()
            self._heard_s = self._clock()
            return goes_on
        except SweepRefusedError as error:
            self.failure = error
        except StoreError as error:
            silent_s = self._clock() - self._heard_s
            kills = self._tools.stop.times_asked > 1
            if silent_s <= SILENT_DATABASE_S and not kills:
                self._tools.progress.note(f"{without_secrets(str(error))}; trying again")
                return True
            self.failure = error
            # the database cannot tell whose the agents are: as long as the lease lasts, ours
            if kills and silent_s < self._tools.ledger.lease_s:
                self._kill_agents()
        return False

    def _kill_agents(self) -> None:
        try:
            self._tools.fleet.stop(at_once=True)
        except SweepRefusedError as error:
            self._tools.progress.note(str(error))

    def _look_as_owner(self) -> bool:
        """Look; one that lost its lease, to nobody, goes on."""
        try:
            return self._look()
        except LostError:
            return self._comes_back()

    def _comes_back(self) -> bool:
        """Take the sweep back, unless another command has it: then `failure` says so. Raises
        StoreError and, seldom, LostError.
        """
        ledger = self._tools.ledger
        if not come_back(ledger.engine, ledger.sweep_id, ledger.orchestrator_id):
            self.failure = StoreError(
                "another command has taken this sweep over; it shows how it goes on"
            )
            return False
        self._lease.beat()
        self._tools.progress.note(
            f"this command gave no sign for {ledger.lease_s:g} s or more, its lease; nobody else "
            "has taken the sweep over, and it goes on"
        )
        return True

    def _look(self) -> bool:
        """Do all that is due now; False when the sweep is over. Raises LostError."""
        ledger, engine = self._tools.ledger, self._tools.ledger.engine
        self._lease.check()
        status = shared_status(engine, ledger.sweep_id)
        if any(
            agent.is_controller and agent.orchestrator_id > ledger.orchestrator_id
            for agent in status.agents
        ):
            raise LostError(f"controller {ledger.orchestrator_id}")
        self._standing.now = Counter(status.counts)
        self._orders.obey(self._standing.num_in_flight)
        if self._expiry.is_due:
            self._expiry.look()
        self._roster.look(status)
        self._results.tell(
            ended_since(engine, ledger.sweep_id, self._results.last_attempt), self._eta_s
        )
        self._results.give_up_what_never_ends(
            lambda repeat_id, why: give_up(engine, repeat_id, why, datetime.now(UTC))
        )
        self._show()
        if status.is_settled:
            return False
        orders = self._orders
        if orders.wanted > orders.wish:
            return True
        if orders.wish:
            return orders.wish < Wish.KILL and self._standing.num_in_flight > 0
        self._tools.fleet.tend(
            self._roster.seen(
                status,
                num_open(engine, ledger.sweep_id),
                self._results.num_attempts,
                had_repeats(engine, ledger.sweep_id),
            )
        )
        return True

    def _show(self) -> None:
        progress = self._tools.progress
        if not progress.is_live:
            return
        (status,) = sweep_status(self._tools.ledger.engine, progress.sweep)
        snapshot = snapshot_of(status)
        waits_for = self._tools.fleet.waits_for
        if not waits_for and not len(self._roster):
            waits_for = "no agent has joined yet"
        if waits_for:
            snapshot = replace(snapshot, notes=(waits_for, *snapshot.notes))
        progress.draw(snapshot)

    def _eta_s(self) -> float | None:
        return self._results.eta_s(self._standing.num_left, self._standing.num_running)
