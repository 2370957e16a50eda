"""Ends what killed orchestrators left running, and records what they had finished."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from scalemark.host.processes import is_alive, is_visible, this_process
from scalemark.records.attempt import ORCHESTRATOR_VARIABLE, AttemptEnd, Placement
from scalemark.records.outcomes import Outcome
from scalemark.run_folder import Left, RunFolder, left_of_failed, read_left
from scalemark.text.untrusted import without_secrets
from store.errors import StoreError
from store.ledger import (
    KILLED,
    Abandoned,
    abandoned,
    close_abandoned,
    end_abandoned,
    refuses_a_row,
    unended,
)
from store.rows import FinishedAttempt
from sweeper.errors import SweepRefusedError
from sweeper.running.orphans import kill
from sweeper.running.run_folders import read_end, write_end


@dataclass(slots=True, kw_only=True)
class Recovered:
    """The work of dead orchestrators that was recorded or freed."""

    num_orchestrators: int
    num_completed: int = 0  # attempts that had ended, and only were not recorded
    num_interrupted: int = 0  # attempts that had not: their repeats are pending again
    # of single repeats; the others are closed all the same
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"earlier sweeps that were cut off: {self.num_orchestrators}"]
        if self.num_completed:
            parts.append(f"{self.num_completed} had ended and is recorded from the run folders")
        if self.num_interrupted:
            parts.append(
                f"{self.num_interrupted} had not ended and is run by the next command that asks "
                "for it"
            )
        if len(parts) == 1 and not self.problems:
            parts.append("none of their processes were running")
        return "; ".join([*parts, *self.problems])


def recover(engine: sa.Engine) -> Recovered | None:
    """Close what dead orchestrators left in this database; None when there are none.

    Raises StoreError.
    """
    dead = []
    for orchestrator_id, process, beat_at in unended(engine):
        if not is_alive(process, beat_at):
            dead.append(orchestrator_id)
    if not dead:
        return None
    closed = _close(engine, dead)
    end_abandoned(engine, dead, datetime.now(UTC))
    return closed


def _close(engine: sa.Engine, dead: Sequence[int]) -> Recovered:
    """Close all that these were running; what is wrong with one repeat does not stop the others.

    Raises StoreError for what is wrong with the database.
    """
    closed = Recovered(num_orchestrators=len(dead))
    for repeat in abandoned(engine, dead):
        try:
            outcome = _close_one(engine, repeat, closed.problems)
        except (OSError, SweepRefusedError) as error:
            closed.problems.append(f"{_named(repeat)}: {error}; it is left for the next command")
            continue
        if outcome is Outcome.INTERRUPTED:
            closed.num_interrupted += 1
        elif outcome:
            closed.num_completed += 1
    return closed


def _close_one(engine: sa.Engine, repeat: Abandoned, problems: list[str]) -> Outcome | None:
    """Return how its attempt ended; None when it had none, or somebody else was faster.

    A result that the database refuses has failed. Raises OSError, or SweepRefusedError when its
    folder has no room.
    """
    _end_leftovers(repeat)
    finished = _finished(repeat) if repeat.run_dir else None
    try:
        is_ours = close_abandoned(engine, repeat, finished, datetime.now(UTC))
    except (StoreError, sa.exc.SQLAlchemyError, ValueError, TypeError, OverflowError) as error:
        if finished is None or not refuses_a_row(error):
            raise
        message = f"the database refuses what its run folder holds: {type(error).__name__}: {error}"
        folder = RunFolder(Path(finished.run_dir))
        failed = left_of_failed(folder, Outcome.FAILED, without_secrets(message))
        finished = replace(finished, result=failed.result, steps=[], environment=None)
        is_ours = close_abandoned(engine, repeat, finished, datetime.now(UTC))
        # not before: the database may have refused it for another reason
        _write_end(folder, finished)
        problems.append(f"{_named(repeat)} failed: {message}")
    return Outcome(finished.result.outcome) if is_ours and finished else None


def _named(repeat: Abandoned) -> str:
    return f"repeat {repeat.repeat} of trial {repeat.trial_id[:8]} ({repeat.run_dir})"


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
            variables = (process / "environ").read_bytes().split(b"\0")
            if starters.intersection(variables) and _is_of(repeat, process):
                kill(int(process.name))


def _is_of(repeat: Abandoned, process: Path) -> bool:
    """Return whether it is in the group of the trainer, or in its run folder, as ranks are."""
    if os.getpgid(int(process.name)) == repeat.pid:
        return True
    if repeat.run_dir is None:
        return False
    return (process / "cwd").readlink() == Path(repeat.run_dir).resolve()


def _finished(repeat: Abandoned) -> FinishedAttempt:
    """Read the end of an attempt from its run folder.

    The trainer writes its result whole, before it ends, and its orchestrator how that ended.
    Without a result the attempt was interrupted.
    """
    assert repeat.run_dir is not None
    assert repeat.placement is not None
    assert repeat.started_at is not None
    folder = RunFolder(Path(repeat.run_dir))
    end, left = _read(folder)
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
    """Write how it ended, unless the folder is another user's: the database is what counts.

    Raises SweepRefusedError.
    """
    if os.access(folder.path, os.W_OK):
        write_end(folder, finished, datetime.now(UTC))


def _read(folder: RunFolder) -> tuple[AttemptEnd | None, Left]:
    """Return what its orchestrator and its trainer left; without a result it was interrupted.

    Files that a crash of the machine has damaged are no result, and then the orchestrator's word
    does not count either.
    """
    end, message = read_end(folder), KILLED
    try:
        result = (end and end.result) or folder.read_result()
        if result:
            return end, read_left(folder, replace(result, message=without_secrets(result.message)))
    except (ValueError, OSError) as error:
        message += f", and what it left cannot be read: {error}"
    return None, left_of_failed(folder, Outcome.INTERRUPTED, without_secrets(message))


def _placement(folder: RunFolder, planned: Placement) -> Placement:
    """Return the placement as it came to be: forking may not have been possible."""
    try:
        return folder.read_placement() or planned
    except (ValueError, OSError):
        return planned
