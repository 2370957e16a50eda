"""Looks after a sweep that runs on other hosts: has agents started, and shows what they do, until
nothing is left.

```
  plan ──► database: repeats that nobody has ──take──► agents ──► results, in the database
             ▲ expired leases, wishes (stop)              ▲ started anew while there is work
             └─────────────── controller ─────────────────┘
```

Killing it ends no agent: the same command joins in again.
"""

from __future__ import annotations

import select
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from conf.schema import OnFailure, OnInterrupt, SweepConfig
from scalemark.records.outcomes import IN_FLIGHT, Outcome, State
from scalemark.run_folder.folder import RunFolder
from scalemark.text.redact import without_secrets
from store.errors import StoreError
from store.live.doing import doing_text
from store.live.snapshot import EndedAttempt, RunningAttempt
from store.sweeps.agents import (
    EndedRow,
    RunningRow,
    come_back,
    ended_since,
    give_up,
    had_repeats,
    last_attempt,
    left_after_an_attempt,
    num_open,
    running_now,
    set_wish,
)
from store.sweeps.ledger import LostError
from store.sweeps.shared import AgentStatus, SharedLedger, SharedStatus, shared_status
from sweeper.agents.fleet import Fleet, Seen
from sweeper.agents.lease import Lease
from sweeper.agents.shared_settings import REFUSED
from sweeper.errors import SweepRefusedError
from sweeper.loop.source import Wish
from sweeper.planning.plan import PlannedTrial
from sweeper.progress import Progress
from sweeper.running.recover import Expiry
from sweeper.stop import Stop

LOOK_EVERY_S = 1.0
SILENT_DATABASE_S = 600.0  # after that the controller ends; agents have ended by then
# once nothing is left; then theirs is ended, as that of those which never began
AGENTS_END_WITHIN_S = 10.0
MOST_INTERRUPTED = 5  # times in a row of one repeat, before it is given up
TRIES_AT_THE_END = 5
_OPEN = (State.PENDING, *IN_FLIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerTools:
    """What the controller works with."""

    ledger: SharedLedger  # its own
    fleet: Fleet
    progress: Progress
    stop: Stop
    runs_dir: Path  # the sweep's own


class Controller:
    """Of one sweep. `trials` by their ids; `num_devices` of each host."""

    def __init__(
        self,
        tools: ControllerTools,
        sweep: SweepConfig,
        trials: Mapping[str, PlannedTrial],
        num_devices: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tools, self._sweep, self._trials, self._num_devices, self._clock = (
            tools,
            sweep,
            trials,
            num_devices,
            clock,
        )
        engine, sweep_id = tools.ledger.engine, tools.ledger.sweep_id
        self._first_attempt = self._last_attempt = last_attempt(engine)
        first = shared_status(engine, sweep_id)
        self._counts = self._first_counts = Counter(first.counts)
        # id -> has ended, and its note, as it was told last
        self._agents: dict[int, tuple[bool, str]] = {}
        self._old_agents = {agent.orchestrator_id for agent in first.agents if agent.ended_at}
        self._slots: dict[int, int] = {}  # agent -> its place among those that ran something
        self._durations_s: list[float] = []
        self._num_ended = 0
        self._lease = Lease(tools.ledger)
        self._wish = Wish.GO_ON  # that the database and the fleet know of
        self._num_told = 0  # signals
        self._is_finishing = False
        self._expiry = Expiry(engine, sweep_id, tools.progress.note)
        self._next_expire_s = self._heard_s = clock()
        self._ever_busy: set[int] = set()  # agents that ran something
        self._num_interrupted: Counter[int] = Counter()  # by repeat, of those that are not settled
        self._names: dict[int, tuple[str, int]] = {}  # repeat -> its trial, and its number
        self._failures: dict[tuple[str, int], str] = {}
        self._num_attempts: Counter[int] = Counter()  # that have ended, by repeat
        self._left_after_an_attempt: Counter[State] = Counter()  # in the end: for the next command
        self._settled: set[int] = set()  # repeats, as far as they were told to `progress`
        # why nothing more is seen of it, or can be had
        self.failure: StoreError | SweepRefusedError | None = None

    @property
    def was_interrupted(self) -> bool:
        return self._tools.stop.times_asked > 0

    @property
    def states(self) -> Counter[State]:
        """Of repeats that were settled since it began, and of those that had run when a stop left
        them to the next command.
        """
        settled = Counter(
            {
                state: num
                for state, num in (self._counts - self._first_counts).items()
                if state not in _OPEN
            }
        )
        return (
            settled
            + self._left_after_an_attempt
            + Counter({State.INTERRUPTED: self._num_running if self._ends_them else 0})
        )

    @property
    def num_left(self) -> int:
        return sum(self._counts[state] for state in _OPEN)

    @property
    def num_running(self) -> int:
        """Repeats that agents go on with."""
        return 0 if self._ends_them else self._num_running

    @property
    def num_not_started(self) -> int:
        return self.num_left - self._num_running - self._left_after_an_attempt.total()

    @property
    def num_retries(self) -> int:
        """Attempts beyond the first of a repeat."""
        return self._num_attempts.total() - len(self._num_attempts)

    @property
    def _num_running(self) -> int:
        return self._counts[State.RUNNING]

    @property
    def _ends_them(self) -> bool:
        """What still runs was asked to end, and will be recorded as interrupted by whoever finds
        that it has.
        """
        return self._wish >= Wish.STOP

    @property
    def failures(self) -> list[str]:
        """Of repeats that did not complete, a line each."""
        return list(self._failures.values())

    def run(self) -> None:
        """Until nothing is left, or what stops it; `failure` then says why results could no longer
        be had, if so.
        """
        with self._tools.stop.listening() as woken, self._lease.renewed():
            while self._go_on():
                self._wait(woken)
            # else the sweep may be another's, and its agents, too
            if not isinstance(self.failure, StoreError):
                self._wait_for_agents(woken)
                self._close(woken)

    def _wait(self, woken: socket.socket) -> None:
        if select.select([woken], [], [], LOOK_EVERY_S)[0]:
            woken.recv(4096)

    def _wait_for_agents(self, woken: socket.socket) -> None:
        """Those that are through end by themselves."""
        gives_up_s = self._clock() + AGENTS_END_WITHIN_S
        try:
            while self.failure is None and not self.was_interrupted and self._clock() < gives_up_s:
                if not self._tools.fleet.num_alive():
                    return
                self._wait(woken)
        except SweepRefusedError as error:
            self._tools.progress.note(str(error))

    def _close(self, woken: socket.socket) -> None:
        """Tells the database that this is over, and ends the agents that are left; what fails is
        told, and the report comes.
        """
        for tries_left in reversed(range(TRIES_AT_THE_END)):
            try:
                self._end_as_owner()
                return
            except SweepRefusedError as error:
                self._tools.progress.note(
                    f"agents may be left over, and end by themselves: {error}"
                )
                return
            except StoreError as error:
                self._tools.progress.note(
                    f"{without_secrets(str(error))}{'; trying again' if tries_left else ''}"
                )
                if not tries_left:
                    self.failure = self.failure or error
                else:
                    self._wait(woken)

    def _end_as_owner(self) -> None:
        try:
            self._lease.beat()
        except LostError:
            if not self._comes_back():
                return
        ledger = self._tools.ledger
        self._counts = Counter(shared_status(ledger.engine, ledger.sweep_id).counts)
        self._left_after_an_attempt = left_after_an_attempt(
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
            if (
                self._clock() - self._heard_s > SILENT_DATABASE_S
                or self._tools.stop.times_asked > 1
            ):
                self.failure = error
                self._kill_what_is_ours()
            else:
                self._tools.progress.note(f"{without_secrets(str(error))}; trying again")
                return True
        return False

    def _kill_what_is_ours(self) -> None:
        """When that was asked for, and the database cannot tell whose the agents are: as long as
        the lease lasts, ours.
        """
        if (
            self._tools.stop.times_asked > 1
            and self._clock() - self._heard_s < self._tools.ledger.lease_s
        ):
            try:
                self._tools.fleet.stop(at_once=True)
            except SweepRefusedError as error:
                self._tools.progress.note(str(error))

    def _look_as_owner(self) -> bool:
        """As `_look`; who lost its lease, to nobody, goes on."""
        try:
            return self._look()
        except LostError:
            return self._comes_back()

    def _comes_back(self) -> bool:
        """Whether the sweep is ours again; if not, `failure` says so. Raises StoreError and,
        seldom, LostError.
        """
        ledger = self._tools.ledger
        if not come_back(ledger.engine, ledger.sweep_id, ledger.orchestrator_id):
            self.failure = StoreError(
                "another command has taken this sweep over; it shows how it goes on"
            )
            return False
        self._lease.beat()
        silent = f"this command gave no sign for {ledger.lease_s:g} s or more, its lease"
        self._tools.progress.note(f"{silent}; nobody else has taken the sweep over, and it goes on")
        return True

    def _look(self) -> bool:
        """All that is due now; False when the sweep is over. Raises LostError."""
        ledger, engine = self._tools.ledger, self._tools.ledger.engine
        self._lease.check()
        status = shared_status(engine, ledger.sweep_id)
        if any(
            agent.is_controller and agent.orchestrator_id > ledger.orchestrator_id
            for agent in status.agents
        ):
            raise LostError(f"controller {ledger.orchestrator_id}")
        self._counts = Counter(status.counts)
        self._obey()
        if self._clock() >= self._next_expire_s:
            self._next_expire_s = self._clock() + ledger.lease_s / 6
            self._expiry.look()
        self._tell_agents(status)
        self._tell_ended(ended_since(engine, ledger.sweep_id, self._last_attempt))
        self._give_up_what_never_ends()
        self._show()
        if status.is_settled:
            return False
        if self._wanted_wish() > self._wish:
            return True
        if self._wish:
            return self._wish < Wish.KILL and any(status.counts.get(state) for state in IN_FLIGHT)
        self._tools.fleet.tend(self._seen(status))
        return True

    def _obey(self) -> None:
        """What was asked for since we looked last: all agents are told by the database, and ours by
        what runs them.

        Raises StoreError and LostError, and then is to be called again.
        """
        wish = self._wanted_wish()
        if wish > self._wish:
            ledger, fleet = self._tools.ledger, self._tools.fleet
            set_wish(ledger.engine, ledger.sweep_id, ledger.orchestrator_id, wish)
            if wish is Wish.FINISH:
                fleet.take_back()
            else:
                fleet.stop(at_once=wish is Wish.KILL)
            self._wish = wish
        if self._tools.stop.times_asked > self._num_told:
            self._num_told = self._tools.stop.times_asked
            running = sum(self._counts[state] for state in IN_FLIGHT)
            if wish < Wish.KILL and running:
                doing = "waiting for" if wish is Wish.FINISH else "ending"
                self._tools.progress.note(
                    f"{doing} {running} running attempts{self._tools.stop.hint}"
                )

    def _wanted_wish(self) -> Wish:
        asked = self._tools.stop.times_asked
        if asked > 1:
            return Wish.KILL
        if asked and self._sweep.on_interrupt is not OnInterrupt.finish:
            return Wish.STOP
        return Wish.FINISH if asked or self._is_finishing else Wish.GO_ON

    def _seen(self, status: SharedStatus) -> Seen:
        ledger = self._tools.ledger
        self._ever_busy |= had_repeats(ledger.engine, ledger.sweep_id)
        ours = [
            agent
            for agent in status.agents
            if agent.orchestrator_id not in self._old_agents and not agent.is_controller
        ]
        ended = [agent for agent in ours if agent.ended_at]
        return Seen(
            num_open=num_open(ledger.engine, ledger.sweep_id),
            num_attempts=self._num_ended,
            num_useful=sum(agent.orchestrator_id in self._ever_busy for agent in ended),
            newest_agent=max((agent.orchestrator_id for agent in status.agents), default=0),
            refusals={
                agent.orchestrator_id: agent.note.removeprefix(REFUSED)
                for agent in ended
                if agent.note.startswith(REFUSED)
            },
        )

    def _give_up_what_never_ends(self) -> None:
        """Repeats that outlast every agent would be run for ever."""
        ledger = self._tools.ledger
        for repeat_id, num in list(self._num_interrupted.items()):
            if num < MOST_INTERRUPTED:
                continue
            why = (
                f"interrupted {num} times: it may take longer than its agents may live; see the "
                "time limits of their jobs"
            )
            trial_id, repeat = self._names[repeat_id]
            if give_up(ledger.engine, repeat_id, why, datetime.now(UTC)):
                del self._num_interrupted[repeat_id]
                self._settle(repeat_id, State.SKIPPED)
                self._failures[trial_id, repeat] = (
                    f"{self._label(trial_id)} repeat {repeat} skipped: {why}"
                )
                self._tools.progress.note(self._failures[trial_id, repeat])
            # agents are quicker to take it than we are
            elif num >= 2 * MOST_INTERRUPTED and not self._is_finishing:
                self._is_finishing = True
                self._tools.progress.note(
                    f"{self._label(trial_id)} repeat {repeat} {why}; nothing more is started"
                )

    # Showing

    def _tell_agents(self, status: SharedStatus) -> None:
        """Who joined, who ended, and what they had to say, once each."""
        for agent in status.agents:
            if agent.is_controller or agent.orchestrator_id in self._old_agents:
                continue
            told = agent.ended_at is not None, agent.note
            before = self._agents.get(agent.orchestrator_id)
            if told != before:
                self._agents[agent.orchestrator_id] = told
                self._tools.progress.note(_about(agent, is_new=before is None))

    def _tell_ended(self, rows: Sequence[EndedRow]) -> None:
        for row in rows:
            self._last_attempt = row.attempt_id
            self._num_ended += 1
            if row.duration_s is not None:
                self._durations_s.append(row.duration_s)
            self._num_attempts[row.repeat_id] += 1
            # here: what a stop leaves is the next command's
            is_last = row.is_final or self._wanted_wish() > Wish.GO_ON
            if is_last:
                self._settle(row.repeat_id, State(row.outcome))
            self._count_interruption(row)
            ended = EndedAttempt(
                label=self._label(row.trial_id),
                outcome=row.outcome,
                message=row.message,
                duration_s=row.duration_s or 0.0,
                images_per_second=row.images_per_second,
                median_step_s=row.median_step_s,
                jitter_s=row.jitter_s,
                verdict=row.verdict,
                verdict_reasons=row.verdict_reasons,
            )
            again = None if is_last else f"tried again after {row.outcome}"
            self._tools.progress.ended(ended, again=again, eta_s=self._eta_s())
            if row.outcome is Outcome.COMPLETED:
                self._failures.pop((row.trial_id, row.repeat), None)
            elif is_last:
                self._note_failure(row)

    def _settle(self, repeat_id: int, state: State) -> None:
        """Once: an agent may take what another has left open, when it has not heard of a stop
        yet.
        """
        if repeat_id not in self._settled:
            self._settled.add(repeat_id)
            self._tools.progress.settled(state)

    def _count_interruption(self, row: EndedRow) -> None:
        if row.outcome is Outcome.INTERRUPTED:
            self._num_interrupted[row.repeat_id] += 1
            self._names[row.repeat_id] = row.trial_id, row.repeat
        else:
            self._num_interrupted.pop(row.repeat_id, None)

    def _note_failure(self, row: EndedRow) -> None:
        log = self._tools.runs_dir / row.run_dir / "log.txt"
        planned = self._trials.get(row.trial_id)
        label = planned.label if planned else row.trial_id[:8]
        self._failures[row.trial_id, row.repeat] = f"{label} {row.outcome}: {row.message} ({log})"
        if self._sweep.on_failure is OnFailure.stop and self._wanted_wish() is Wish.GO_ON:
            self._is_finishing = True
            self._tools.progress.note("sweep.on_failure=stop: nothing more is started")

    def _show(self) -> None:
        progress = self._tools.progress
        if not progress.is_live:
            return
        ledger = self._tools.ledger
        views = tuple(self._view(row) for row in running_now(ledger.engine, ledger.sweep_id))
        note = self._tools.fleet.waits_for or ("" if self._agents else "no agent has joined yet")
        progress.draw(views, self._eta_s(), note, num_slots=len(self._slots) * self._num_devices)

    def _view(self, row: RunningRow) -> RunningAttempt:
        """The devices of each agent are numbered on from those of the one before."""
        place = self._slots.setdefault(row.orchestrator_id, len(self._slots))
        planned = self._trials.get(row.trial_id)
        return RunningAttempt(
            slots=tuple(place * self._num_devices + device for device in row.placement.devices),
            label=f"{row.host}: {self._label(row.trial_id)}",
            repeat=row.repeat,
            attempt=row.attempt,
            doing=doing_text(RunFolder(Path(row.run_dir)), planned.spec) if planned else "unknown",
            elapsed_s=(datetime.now(UTC) - row.started_at).total_seconds(),
            expected_s=None,
        )

    def _label(self, trial_id: str) -> str:
        planned = self._trials.get(trial_id)
        return self._tools.progress.label(planned) if planned else trial_id[:8]

    def _eta_s(self) -> float | None:
        """What is left takes what was seen, as many at a time as run now."""
        if not self._durations_s:
            return None
        at_once = max(1, self._counts[State.RUNNING])
        return fmean(self._durations_s) * self.num_left / at_once


def _about(agent: AgentStatus, *, is_new: bool) -> str:
    who = f"agent on {agent.process.host} (process {agent.process.pid})"
    if agent.ended_at is not None:
        return f"{who} ended{f': {agent.note}' if agent.note else ''}"
    return f"{who} joined" if is_new and not agent.note else f"{who}: {agent.note}"
