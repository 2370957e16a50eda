"""Starts attempts: writes each down, makes its folder, and waits for the fork server to load."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

from scalemark.abilities import jobs_of
from scalemark.host.memory import is_lack_of_host_memory
from scalemark.host.processes import start_ticks
from scalemark.records.attempt import Placement
from scalemark.records.measurement import AttemptResult
from scalemark.records.outcomes import Outcome
from store.errors import StoreError
from sweeper.live.progress import Started
from sweeper.loop.backlog import Repeat
from sweeper.loop.supervision import Given, Over, Room, Run, Shared
from sweeper.running.attempt import Attempt
from sweeper.starts.environment import environment


class Starter:
    """Starts one attempt at a time: `given` waits for what starts it."""

    def __init__(self, shared: Shared) -> None:
        self.given: Given | None = None
        self._reported_problem = False
        self._shared, self._tools, self._policy = shared, shared.tools, shared.policy
        self._start = shared.tools.start

    def begin(self, repeat: Repeat, room: Room) -> None:
        """Write down that it runs; `go_on` starts it. Raises StoreError and SweepRefusedError."""
        placement = self._placement(room)
        number = repeat.open.num_attempts + 1
        started_at = datetime.now(UTC)
        has_ranks = bool(jobs_of(repeat.trial.spec))
        folder = self._tools.folders.make(
            repeat.trial,
            repeat.open.repeat,
            number,
            placement,
            started_at,
            self._policy.rank_limits if has_ranks else None,
        )
        self._shared.heartbeat.write(
            lambda: self._tools.ledger.run(repeat.open, str(folder.path), placement, started_at)
        )
        repeat.open = replace(repeat.open, num_attempts=number)
        started = Started(
            trial=repeat.trial,
            repeat=repeat.open.repeat,
            attempt=number,
            devices=placement.devices,
            folder=folder,
            started_s=self._tools.clock(),
            expected_s=repeat.task.expected_s,
        )
        self.given = Given(
            repeat=repeat,
            placement=placement,
            room=room,
            environment=environment(os.environ, placement.visible_devices),
            started_at=started_at,
            started=started,
        )

    def go_on(self) -> Over | None:
        """Start what is `given`, or wait for what starts it; returns what will never run."""
        given, self.given = self.given, None
        if given is None:
            return None
        if self._shared.stopping.was_interrupted:
            why = "the sweep was interrupted, before it was started"
            return _not_started(given, Outcome.INTERRUPTED, why)
        try:
            descriptor = self._start.prepare(given.started.folder, given.environment)
            if descriptor is None:
                self._run(given)
            else:
                self.given = replace(given, loading=descriptor)
        except OSError as error:
            outcome = Outcome.OUT_OF_MEMORY if is_lack_of_host_memory(error) else Outcome.FAILED
            why = f"could not be started: {error.strerror or error}"
            return _not_started(given, outcome, why)
        return None

    def _run(self, given: Given) -> None:
        """Raises OSError."""
        folder = given.started.folder
        process = self._start.start(folder, given.environment)
        attempt = Attempt(
            folder,
            process,
            self._policy.limits,
            shares_host=given.placement.shares_host,
            clock=self._tools.clock,
        )
        placement = replace(given.placement, start=process.start)
        started = replace(given.started, started_s=self._tools.clock())
        given = replace(given, placement=placement, started=started)
        self._shared.supervision.runs.append(Run(given=given, attempt=attempt))
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
            self._shared.stopping.give_up(error)

    def _placement(self, room: Room) -> Placement:
        launcher, grant = self._policy.launcher, room.grant
        memory_gib = launcher.host_memory_gib
        return Placement(
            start=self._start.name,
            devices=grant.devices,
            visible_devices=grant.visible_devices,
            cores=grant.cores,
            spare_core=grant.spare_core,
            shares_host=launcher.share_host,
            host_memory_bytes=round(memory_gib * 2**30) if memory_gib else None,
            hosts=grant.hosts,
            rank_start=grant.rank_start,
        )


def _not_started(given: Given, outcome: Outcome, message: str) -> Over:
    result = AttemptResult(outcome=outcome, message=message, measurement=None, op_placement={})
    return Over(given=given, result=result, crashed=outcome is Outcome.FAILED)
