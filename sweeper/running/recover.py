"""Clears up after orchestrators that were killed: ends what they left running, and records what
they had finished.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from scalemark.host.process_identity import is_alive, is_visible, this_process
from scalemark.records.attempt import AttemptEnd
from scalemark.records.outcomes import Outcome
from scalemark.records.placement import ORCHESTRATOR_VARIABLE, Placement
from scalemark.run_folder.attempt_files import Left, left_of_failed, read_left
from scalemark.run_folder.folder import RunFolder
from scalemark.text.redact import without_secrets
from store.errors import StoreError
from store.finished_attempt import FinishedAttempt
from store.sweeps.ledger import (
    KILLED,
    Abandoned,
    abandoned,
    close_abandoned,
    end_abandoned,
    refuses_a_row,
    unended,
)
from store.sweeps.shared import (
    end_dead,
    ended_with_something_in_flight,
    num_killed,
    processes,
    unsettled_sweeps,
)
from sweeper.errors import SweepRefusedError
from sweeper.running.orphans import kill
from sweeper.running.run_folders import read_end, write_end

MOST_LOST = 5  # agents that one repeat of a shared sweep may cost, before it has failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What was found of dead orchestrators."""

    num_orchestrators: int
    num_completed: int  # attempts that had ended, and only were not recorded
    num_interrupted: int  # attempts that had not: their repeats are pending again
    is_shared: bool  # they were agents, or controllers, of sweeps that others go on with
    problems: tuple[str, ...] = ()  # of single repeats; the others are closed all the same

    def __str__(self) -> str:
        parts = (
            [f"{self.num_completed} had ended and is recorded from the run folders"]
            if self.num_completed
            else []
        )
        if self.num_interrupted:
            run_by = (
                "is left to other agents"
                if self.is_shared
                else "is run by the next command that asks for it"
            )
            parts.append(f"{self.num_interrupted} had not ended and {run_by}")
        who = "agents that were lost" if self.is_shared else "earlier sweeps that were killed"
        nothing = [] if self.problems else ["nothing of them was running"]
        found = [f"of what they ran, {', '.join(parts)}"] if parts else nothing
        return "; ".join([f"{who}: {self.num_orchestrators}", *found, *self.problems])


@dataclass(slots=True)
class _Closed:
    """What became of what dead orchestrators were running."""

    outcomes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def recover(engine: sa.Engine) -> Recovered | None:
    """Close what dead orchestrators left in this database; None when there are none. Raises
    StoreError.
    """
    dead = [
        orchestrator_id
        for orchestrator_id, process, beat_at in unended(engine)
        if not is_alive(process, beat_at)
    ]
    ended = _close(engine, dead)
    if dead:
        end_abandoned(engine, dead, datetime.now(UTC))
    found = [
        _recovered(len(dead), ended, is_shared=False),
        *(expire(engine, sweep_id) for sweep_id in unsettled_sweeps(engine)),
    ]
    return _sum([one for one in found if one])


def expire(engine: sa.Engine, sweep_id: int) -> Recovered | None:
    """As `recover`, of one shared sweep: dead is whose lease is over, and who is seen here not to
    run any more.

    Agents and controller all do it. Whoever ended one closes what that had, with no lock held:
    folders may not answer.
    """
    here = this_process()
    seen_dead = [
        orchestrator_id
        for orchestrator_id, process in processes(engine, sweep_id)
        if is_visible(process, here) and not is_alive(process, datetime.now(UTC))
    ]
    dead = end_dead(engine, sweep_id, seen_dead)
    lost = ended_with_something_in_flight(engine, sweep_id, dead)
    ended = _close(engine, lost)
    # who had nothing is missed by nobody
    return _recovered(len(lost), ended, is_shared=True) if lost else None


class Expiry:
    """Does `expire` again and again, and tells what it finds; a problem that stays is told once."""

    def __init__(
        self,
        engine: sa.Engine,
        sweep_id: int,
        tell: Callable[[str], object],
        every_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine, self._sweep_id, self._tell = engine, sweep_id, tell
        self._every_s, self._clock = every_s, clock
        self._next_s = clock()
        self._told = ""

    @property
    def is_due(self) -> bool:
        return self._clock() >= self._next_s

    def look(self) -> None:
        self._next_s = self._clock() + self._every_s
        found = expire(self._engine, self._sweep_id)
        if found and not (found.problems and str(found) == self._told):
            self._told = str(found)
            self._tell(self._told)


def _close(engine: sa.Engine, dead: Sequence[int]) -> _Closed:
    """What is wrong with one repeat is told, and the others are closed. Raises StoreError for what
    is wrong with the database.
    """
    closed = _Closed()
    for repeat in abandoned(engine, dead) if dead else ():
        try:
            _close_one(engine, repeat, closed)
        except (OSError, SweepRefusedError) as error:
            closed.problems.append(f"{_named(repeat)}: {error}; it is left for the next command")
    return closed


def _close_one(engine: sa.Engine, repeat: Abandoned, closed: _Closed) -> None:
    """What the database refuses has failed. Raises OSError, or SweepRefusedError when its folder
    has no room.
    """
    _end_leftovers(repeat)
    finished = _finished(repeat, _why_no_more(engine, repeat)) if repeat.run_dir else None
    try:
        is_ours = close_abandoned(engine, repeat, finished, datetime.now(UTC))
    except (StoreError, sa.exc.SQLAlchemyError, ValueError, TypeError, OverflowError) as error:
        if finished is None or not refuses_a_row(error):
            raise
        message = f"the database refuses what its run folder holds: {type(error).__name__}: {error}"
        failed = left_of_failed(
            RunFolder(Path(finished.run_dir)), Outcome.FAILED, without_secrets(message)
        )
        finished = replace(finished, result=failed.result, steps=[], environment=None)
        is_ours = close_abandoned(engine, repeat, finished, datetime.now(UTC))
        # not before: the database may have refused it for another reason
        _write_end(RunFolder(Path(finished.run_dir)), finished)
        closed.problems.append(f"{_named(repeat)} failed: {message}")
    if is_ours and finished:
        closed.outcomes.append(finished.result.outcome)


def _named(repeat: Abandoned) -> str:
    return f"repeat {repeat.repeat} of trial {repeat.trial_id[:8]} ({repeat.run_dir})"


def _why_no_more(engine: sa.Engine, repeat: Abandoned) -> str | None:
    """Of a shared sweep: whoever runs it may be killed by it, and there is always another agent to
    take it.
    """
    num = num_killed(engine, repeat.repeat_id) + 1 if repeat.is_shared else 0
    return (
        f"{num} agents were lost while they ran it: it may be what killed them"
        if num >= MOST_LOST
        else None
    )


def _recovered(num_orchestrators: int, closed: _Closed, *, is_shared: bool) -> Recovered | None:
    if not num_orchestrators and not closed.outcomes:
        return None
    num_interrupted = closed.outcomes.count(Outcome.INTERRUPTED)
    num_completed = len(closed.outcomes) - num_interrupted
    return Recovered(
        num_orchestrators=num_orchestrators,
        num_completed=num_completed,
        num_interrupted=num_interrupted,
        is_shared=is_shared,
        problems=tuple(closed.problems),
    )


def _sum(found: Sequence[Recovered]) -> Recovered | None:
    if not found:
        return None
    return Recovered(
        num_orchestrators=sum(one.num_orchestrators for one in found),
        num_completed=sum(one.num_completed for one in found),
        num_interrupted=sum(one.num_interrupted for one in found),
        is_shared=all(one.is_shared for one in found),
        problems=tuple(problem for one in found for problem in one.problems),
    )


def _end_leftovers(repeat: Abandoned) -> None:
    """Kill what still runs of the attempt: its trainer's group, and its ranks, which lead groups of
    their own.
    """
    if repeat.pid is None or not is_visible(repeat.owner, this_process()):
        return
    starters = {f"{ORCHESTRATOR_VARIABLE}={pid}".encode() for pid in (repeat.owner.pid, repeat.pid)}
    for process in Path("/proc").glob("[0-9]*"):
        # it has ended, or is another user's
        with suppress(ProcessLookupError, PermissionError, FileNotFoundError):
            if starters & set((process / "environ").read_bytes().split(b"\0")) and _is_of(
                repeat, process
            ):
                kill(int(process.name))


def _is_of(repeat: Abandoned, process: Path) -> bool:
    """Trainers and ranks run in their run folder, which is theirs alone."""
    if os.getpgid(int(process.name)) == repeat.pid:
        return True
    return (
        repeat.run_dir is not None
        and (process / "cwd").readlink() == Path(repeat.run_dir).resolve()
    )


def _finished(repeat: Abandoned, why_no_more: str | None) -> FinishedAttempt:
    """What its run folder holds: the trainer writes its result whole, before it ends, and its
    orchestrator how that ended.

    Without a result it was interrupted, or has failed if there is a reason `why_no_more`.
    """
    assert repeat.run_dir is not None
    assert repeat.placement is not None
    assert repeat.started_at is not None
    folder = RunFolder(Path(repeat.run_dir))
    end, left = _read(folder, "its agent was killed" if repeat.is_shared else KILLED, why_no_more)
    finished = FinishedAttempt(
        trial_id=repeat.trial_id,
        repeat=repeat.repeat,
        attempt=repeat.attempt,
        exit_code=end.exit_code if end else None,
        placement=end.placement if end else _placement(folder, repeat.placement),
        run_dir=repeat.run_dir,
        started_at=repeat.started_at,
        duration_s=end.duration_s if end else None,
        result=left.result,
        steps=left.steps,
        environment=left.environment,
    )
    if end is None:
        _write_end(folder, finished)
    return finished


def _write_end(folder: RunFolder, finished: FinishedAttempt) -> None:
    """Another user's folder is left as it is: the database is what counts. Raises
    SweepRefusedError.
    """
    if os.access(folder.path, os.W_OK):
        write_end(folder, finished, datetime.now(UTC))


def _read(folder: RunFolder, why: str, why_no_more: str | None) -> tuple[AttemptEnd | None, Left]:
    """Files that a crash of the machine has damaged are no result, and then what its orchestrator
    told is none either.
    """
    end = read_end(folder)
    try:
        if result := (end and end.result) or folder.read_result():
            return end, read_left(folder, replace(result, message=without_secrets(result.message)))
    except (ValueError, OSError) as error:
        why += f", and what it left cannot be read: {error}"
    outcome, message = (
        (Outcome.FAILED, f"{why_no_more}; {why}") if why_no_more else (Outcome.INTERRUPTED, why)
    )
    return None, left_of_failed(folder, outcome, without_secrets(message))


def _placement(folder: RunFolder, planned: Placement) -> Placement:
    """As it came to be: forking may not have been possible."""
    try:
        return folder.read_placement() or planned
    except (ValueError, OSError):
        return planned
