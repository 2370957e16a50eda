"""Clears up after orchestrators that were killed: ends what they left running, and records what they had finished."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from store import step_arrays
from store.errors import StoreError
from store.finished_attempt import FinishedAttempt
from store.ledger import Abandoned, abandoned, close_abandoned, end_abandoned, unended
from store.records import ORCHESTRATOR_VARIABLE, AttemptEnd, Outcome, Placement, Result, RunFolder
from store.redact import without_secrets
from sweeper.errors import SweepRefusedError
from sweeper.process_identity import is_alive, is_visible, this_process
from sweeper.run_folders import Left, read_end, readable_environment, write_end

_END_WITHIN_S = 30  # of a killed process: the kernel may be freeing much memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What was found of dead orchestrators."""

    num_orchestrators: int
    num_completed: int  # attempts that had finished, and only were not recorded
    num_interrupted: int  # attempts that had not: their repeats are pending again

    def __str__(self) -> str:
        parts = []
        if self.num_completed:
            parts.append(f"of what they ran, {self.num_completed} had ended and is recorded from the run folders")
        if self.num_interrupted:
            parts.append(f"{self.num_interrupted} had not, and is run by the next command that asks for it")
        return f"earlier sweeps that were killed: {self.num_orchestrators}; {'; '.join(parts) or 'nothing of them was running'}"


def recover(engine: sa.Engine) -> Recovered | None:
    """Close what dead orchestrators left in this database; None when there are none. Raises StoreError."""
    dead = [orchestrator_id for orchestrator_id, process, beat_at in unended(engine) if not is_alive(process, beat_at)]
    if not dead:
        return None
    ended = []
    for repeat in abandoned(engine, dead):
        _end_leftovers(repeat)
        finished = _finished(repeat) if repeat.run_dir else None
        if close_abandoned(engine, repeat, finished, datetime.now(UTC)) and finished:
            ended.append(finished.result.outcome)
    end_abandoned(engine, dead, datetime.now(UTC))
    num_interrupted = ended.count(Outcome.INTERRUPTED)
    return Recovered(num_orchestrators=len(dead), num_completed=len(ended) - num_interrupted, num_interrupted=num_interrupted)


def _end_leftovers(repeat: Abandoned) -> None:
    """Kill what still runs of the attempt: the processes of its group that its orchestrator started."""
    if repeat.pid is None or not is_visible(repeat.owner, this_process()):
        return
    mark = f"{ORCHESTRATOR_VARIABLE}={repeat.owner.pid}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(ProcessLookupError, PermissionError, FileNotFoundError):  # it has ended, or is another user's
            if os.getpgid(int(process.name)) == repeat.pid and mark in (process / "environ").read_bytes().split(b"\0"):
                _kill(int(process.name))


def _kill(pid: int) -> None:
    """And wait until it has ended: it holds devices."""
    descriptor = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        select.select([descriptor], [], [], _END_WITHIN_S)
    finally:
        os.close(descriptor)


def _finished(repeat: Abandoned) -> FinishedAttempt:
    """What its run folder holds: the trainer writes its result whole, before it ends, and its orchestrator how that ended."""
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
    """Another user's folder is left as it is: the database is what counts. Raises StoreError."""
    if os.access(folder.path, os.W_OK):
        try:
            write_end(folder, finished, datetime.now(UTC))
        except SweepRefusedError as error:
            raise StoreError(str(error)) from error


def _read(folder: RunFolder) -> tuple[AttemptEnd | None, Left]:
    """Files that a crash of the machine has damaged are no result, and then what its orchestrator told is none either."""
    why = "its orchestrator was killed"
    end = read_end(folder)
    try:
        if result := (end and end.result) or folder.read_result():
            result = replace(result, message=without_secrets(result.message))
            steps = folder.read_steps() if result.measurement else []
            if steps:
                step_arrays.pack(steps)  # as the database will: what it refuses is no result
            environment = readable_environment(folder) if end and end.result else folder.read_environment()
            return end, Left(result=result, steps=steps, environment=environment)
    except (ValueError, OSError) as error:
        why += f", and what it left cannot be read: {error}"
    interrupted = Result(outcome=Outcome.INTERRUPTED, message=without_secrets(why), measurement=None, op_placement={})
    return None, Left(result=interrupted, steps=[], environment=readable_environment(folder))


def _placement(folder: RunFolder, planned: Placement) -> Placement:
    """As it came to be: forking may not have been possible."""
    try:
        return Placement.from_json(folder.placement.read_text())
    except (ValueError, OSError):
        return planned
