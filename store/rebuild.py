"""Makes a lost database again out of the run folders of its sweeps.

What they do not hold is lost: orchestrators; repeats that were never begun; when a sweep was
finished (here: the end of its last attempt); tags, and what was deleted.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.cli.terminal import Progress, silent
from scalemark.records.attempt import AttemptBegin, AttemptEnd, SweepRecord, spec_of, sweep_uid
from scalemark.records.machine import Machine, check_kind_of_machine
from scalemark.records.measurement import IN_FLIGHT, AttemptResult, Outcome, State
from scalemark.records.references import Rejected
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import SWEEP_FILE, RunFolder, read_left, read_regular
from store import schema
from store.database import open_for_writing, writing
from store.errors import StoreError
from store.ledger import KILLED
from store.rows import (
    FinishedAttempt,
    add_attempts,
    insert_all,
    inserted_id,
    machine_id_of,
)
from store.tables import ReadOtherwiseError, insert_trials
from store.writer import add_left_out

_FIRST_FILES = ("trial.json", "machine.json", "placement.json")
# RunFolders: MODEL-STRATEGY-xN-ID-rREPEAT-aATTEMPT
_NAME = re.compile(r"-r(\d{1,9})-a(\d{1,9})(?:-\d+)?")
_UID = re.compile("[0-9a-f]{16}")

BEING_RUN = "it is being run here; rebuild again once it has ended"


@dataclass(slots=True)
class Rebuilt:
    """What was found in run folders, and what became of it."""

    num_sweeps: int = 0
    num_new: int = 0  # attempts
    num_known: int = 0  # attempts that were there already, and stay as they are
    rejected: list[Rejected] = field(default_factory=list)  # damaged folders
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderAttempt:
    """One attempt, as its folder has it."""

    spec: TrialSpec
    begin: AttemptBegin
    machine: Machine
    attempt: FinishedAttempt
    has_end: bool  # its orchestrator recorded how it ended
    ended_at: datetime

    @property
    def repeat_key(self) -> tuple[str, int]:
        return self.spec.trial_id, self.begin.repeat


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSweep:
    """A sweep with all that its folder holds."""

    head: Mapping[str, Any]  # columns of `sweeps`
    left_out: Sequence[tuple[str, str]] = ()  # overrides of a refused cell, and why
    trials: Sequence[tuple[int, TrialSpec]]  # with their positions
    # where a repeat stands, by trial and repeat: columns of `repeats`
    stands: Mapping[tuple[str, int], Mapping[str, Any]]
    attempts: Sequence[tuple[Machine, FinishedAttempt]]


def rebuild(url: str, runs_dirs: Sequence[str], progress: Progress = silent) -> Rebuilt:
    """Add what run folders hold to the database at `url`, but for what it has; reject the damaged.

    Raises StoreError for a folder that is not there, or when there is no sweep in any.
    """
    folders = sorted(set(_sweep_folders(runs_dirs)), key=_began)  # the newest is the last added
    if not folders:
        raise StoreError(
            f"{', '.join(runs_dirs)}: no run folder in it; wanted one that holds sweeps, or "
            "the folder of a sweep"
        )
    rebuilt = Rebuilt()
    engine = open_for_writing(url)
    try:
        for folder in folders:
            take_up(engine, folder, rebuilt, progress)
    finally:
        engine.dispose()
    return rebuilt


def take_up(engine: sa.Engine, folder: Path, rebuilt: Rebuilt, progress: Progress = silent) -> None:
    """Add attempts of a sweep's folder, which is rejected if unreadable. Raises StoreError."""
    try:
        sweep = _sweep_in(folder, rebuilt, progress)
        with writing(engine) as connection:
            add_sweep(connection, sweep, rebuilt)
    except (ValueError, OSError, ReadOtherwiseError) as error:
        rebuilt.rejected.append(_rejected(folder, error))


def _sweep_folders(runs_dirs: Iterable[str]) -> Iterator[Path]:
    """Yield folders with a sweep.json, and those around attempts whose sweep.json is lost."""
    for name in runs_dirs:
        root = Path(name).resolve()
        if not root.is_dir():
            raise StoreError(f"{name}: no such folder")
        for path, folders, files in os.walk(root):
            folders.sort()
            if "trial.json" in files:
                folders.clear()
                yield Path(path).parent
            elif SWEEP_FILE in files:
                yield Path(path)


def _began(folder: Path) -> tuple[datetime, Path]:
    record = _sweep_record(folder, [])
    return (record.started_at if record else _modified_at(folder)), folder


def _sweep_in(folder: Path, rebuilt: Rebuilt, progress: Progress) -> FolderSweep:
    """Return all that one sweep's folder holds. Raises ValueError for a name that no sweep has."""
    paths = {path for path in folder.iterdir() if path.is_dir() and _NAME.search(path.name)}
    paths |= {path.parent for path in folder.glob("*/trial.json")}
    by_identity: dict[tuple[str, int, int], FolderAttempt] = {}
    for number, path in enumerate(sorted(paths), 1):
        progress(folder.name, number, len(paths))
        try:
            if _never_began(path):
                why = "never began: whoever made the folder was killed while doing so"
                rebuilt.warnings.append(f"{path}: {why}")
                continue
            attempt = _attempt_in(RunFolder(path))
        except (ValueError, OSError) as error:
            rebuilt.rejected.append(_rejected(path, error))
            continue
        # of two folders of one attempt, the orchestrator of one was killed before it could end it
        other = by_identity.setdefault((*attempt.repeat_key, attempt.begin.attempt), attempt)
        if other is attempt:
            continue
        if attempt.has_end or not other.has_end:
            by_identity[*attempt.repeat_key, attempt.begin.attempt] = attempt
            attempt, other = other, attempt
        name = Path(other.attempt.run_dir).name
        rebuilt.warnings.append(
            f"{attempt.attempt.run_dir}: begun, and never recorded; {name} is its attempt"
        )
    attempts = sorted(by_identity.values(), key=lambda attempt: attempt.ended_at)
    record = _sweep_record(folder, rebuilt.warnings)
    trials = _asked_for(record, attempts)
    attempts = _read_alike(attempts, {spec.trial_id: spec for _, spec in trials}, rebuilt)
    head = _head(folder, attempts, record)
    return FolderSweep(
        head=head,
        left_out=record.left_out if record else (),
        trials=trials,
        stands=_stands(attempts),
        attempts=[(attempt.machine, attempt.attempt) for attempt in attempts],
    )


def _read_alike(
    attempts: Sequence[FolderAttempt], specs: Mapping[str, TrialSpec], rebuilt: Rebuilt
) -> list[FolderAttempt]:
    """Leave out numbers that are not read as their trial is: reading them again was cut off."""
    alike = []
    for attempt in attempts:
        is_read = attempt.attempt.result.measurement is not None
        if is_read and attempt.spec.reading != specs[attempt.spec.trial_id].reading:
            why = "read another way than its trial is by now"
            rebuilt.rejected.append(Rejected(where=attempt.attempt.run_dir, reason=why))
        else:
            alike.append(attempt)
    return alike


def _never_began(folder: Path) -> bool:
    """Tell whether its trainer was never started: that happens once the first files are whole."""
    sizes = {path.name: path.lstat().st_size for path in folder.iterdir()}
    if not sizes.keys() <= {*_FIRST_FILES, "attempt.json", "rank_limits.json"}:
        return False
    return not all(sizes.get(name) for name in _FIRST_FILES) or 0 in sizes.values()


def _attempt_in(folder: RunFolder) -> FolderAttempt:
    """Read a run folder. Raises ValueError or OSError for a damaged one."""
    spec = folder.read_trial()
    begin, end = folder.read_attempt(), folder.read_ended()
    result = _result(folder, end)
    machine = folder.read_machine()
    placement = end.placement if end else folder.read_placement()
    left = read_left(folder, result)
    if machine is None or placement is None or begin is None:
        parts = {"machine": machine, "placement": placement, "attempt": begin}
        missing = next(name for name, part in parts.items() if part is None)
        raise ValueError(f"{missing}.json is missing: it was made by hand, or is damaged")
    if not spec.has_id(begin.trial_id):
        raise ValueError(
            f"attempt.json is of trial {begin.trial_id}, trial.json of {spec.trial_id}"
        )
    check_kind_of_machine(spec.device_kind, machine)
    devices = [gpu.uuid for gpu in machine.gpus]
    devices += [device.uuid for gpu in machine.gpus for device in gpu.mig_devices]
    links = [link.between for link in machine.links]
    if len(set(devices)) < len(devices) or len(set(links)) < len(links):
        raise ValueError("machine: a GPU, or a link between two, is in it twice")
    modified_at = _modified_at(folder.result if folder.result.exists() else folder.trial)
    return FolderAttempt(
        spec=spec,
        begin=begin,
        machine=machine,
        attempt=FinishedAttempt(
            trial_id=spec.trial_id,
            repeat=begin.repeat,
            attempt=begin.attempt,
            exit_code=end.exit_code if end else None,
            placement=placement,
            run_dir=str(folder.path),
            started_at=begin.started_at,
            duration_s=end.duration_s if end else None,
            result=result,
            steps=left.steps,
            environment=left.environment,
        ),
        has_end=end is not None,
        ended_at=end.ended_at if end else max(modified_at, begin.started_at),
    )


def _result(folder: RunFolder, end: AttemptEnd | None) -> AttemptResult:
    """Return what the database got, or would have got from who found the orchestrator dead."""
    if end and end.result:
        return end.result
    result = folder.read_result()
    if result is not None:
        if end:
            return replace(result, outcome=end.outcome, message=end.message)
        return result
    outcome, message = Outcome.INTERRUPTED.value, KILLED
    if end:
        outcome, message = end.outcome, end.message
    if outcome == Outcome.COMPLETED:
        raise ValueError("result.json is missing, and the attempt was completed")
    return AttemptResult(outcome=outcome, message=message, measurement=None, op_placement={})


def _modified_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.lstat().st_mtime, UTC)


def _sweep_record(folder: Path, warnings: list[str]) -> SweepRecord | None:
    path = folder / SWEEP_FILE
    try:
        return SweepRecord.from_json(read_regular(path))
    except (ValueError, OSError) as error:
        why = _rejected(folder, error).reason
        warnings.append(f"{path}: {why}; of the sweep only what its attempts say is known")
        return None


def _head(
    folder: Path, attempts: Sequence[FolderAttempt], record: SweepRecord | None
) -> dict[str, Any]:
    """Return the columns of a sweep, by its record, else as much as its attempts say."""
    if record is not None:
        same = ("uid", "name", "reason", "command", "started_at")
        head = {name: getattr(record, name) for name in same}
    else:
        name, began = folder.name, _modified_at(folder)
        uid = sweep_uid(name, began, "")
        if attempts:
            name, uid = attempts[0].begin.sweep, attempts[0].begin.sweep_uid
            began = min(attempt.begin.started_at for attempt in attempts)
        head = {"uid": uid, "name": name, "reason": "", "command": "", "started_at": began}
    if not _UID.fullmatch(head["uid"]):
        raise ValueError(f"sweep.uid={head['uid'][:40]}: wanted 16 hexadecimal digits")
    if not head["name"]:
        raise ValueError("sweep.name is empty")
    str(folder).encode()  # raises ValueError for a path that no database takes
    run_dir = str(folder) if attempts else None
    return head | {"finished_at": _finished_at(attempts), "run_dir": run_dir, "origin": ""}


def _finished_at(attempts: Sequence[FolderAttempt]) -> datetime | None:
    """Return None when something was interrupted and not tried again: the sweep did not finish."""
    last: dict[tuple[str, int], FolderAttempt] = {}
    for attempt in sorted(attempts, key=lambda attempt: attempt.begin.attempt):
        last[attempt.repeat_key] = attempt
    outcomes = {attempt.attempt.result.outcome for attempt in last.values()}
    if not last or Outcome.INTERRUPTED in outcomes:
        return None
    return max(attempt.ended_at for attempt in attempts)


def _asked_for(
    record: SweepRecord | None, attempts: Sequence[FolderAttempt]
) -> list[tuple[int, TrialSpec]]:
    """Return positions and trials; unknown positions follow in the order in which trials began."""
    asked_for: list[tuple[int, TrialSpec]] = []
    for trial in record.trials if record else ():
        asked_for.append((trial.position, spec_of(trial.spec)))
    known = {spec.trial_id for _, spec in asked_for}
    following = max((position for position, _ in asked_for), default=-1) + 1
    for attempt in sorted(attempts, key=lambda attempt: attempt.begin.started_at):
        if attempt.spec.trial_id not in known:
            known.add(attempt.spec.trial_id)
            asked_for.append((following, attempt.spec))
            following += 1
    return asked_for


def _stands(attempts: Sequence[FolderAttempt]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return where the last attempt of each repeat left it: what was killed is pending again."""
    stands = {}
    for attempt in sorted(attempts, key=lambda attempt: attempt.begin.attempt):
        state = State(attempt.attempt.result.outcome)
        if state is State.INTERRUPTED and attempt.attempt.duration_s is None:  # nobody saw it end
            state = State.PENDING
        stands[attempt.repeat_key] = {"state": state, "num_attempts": attempt.begin.attempt}
    return stands


def _rejected(folder: Path, error: Exception) -> Rejected:
    reason = str(error).replace(f"{folder}/", "")
    if isinstance(error, OSError):
        reason = f"{Path(str(error.filename)).name}: {error.strerror}"
    return Rejected(where=str(folder), reason=reason)


def add_sweep(connection: sa.Connection, sweep: FolderSweep, rebuilt: Rebuilt) -> None:
    """Add what is not there yet, inside the caller's transaction; what is there stays as it is."""
    table, links = schema.SweepRow, schema.SweepTrialRow
    sweep_id = connection.scalar(sa.select(table.id).where(table.uid == sweep.head["uid"]))
    if sweep_id is None:
        name = free_name(connection, sweep.head["name"])
        sweep_id = inserted_id(connection, table, {**sweep.head, "name": name})
    add_left_out(connection, sweep_id, sweep.left_out)
    insert_trials(connection, {spec.trial_id: spec for _, spec in sweep.trials})
    asked_for = sa.select(links.trial_id).where(links.sweep_id == sweep_id)
    known = set(connection.scalars(asked_for))
    rows = []
    for position, spec in sweep.trials:
        if spec.trial_id not in known:
            rows.append({"sweep_id": sweep_id, "trial_id": spec.trial_id, "position": position})
    insert_all(connection, links, rows)
    running = _add_repeats(connection, sweep_id, sweep.stands)
    new = _new_attempts(connection, sweep_id, sweep, running, rebuilt)
    add_attempts(connection, sweep_id, new)
    rebuilt.num_sweeps += 1
    rebuilt.num_new += len(new)


def free_name(connection: sa.Connection, name: str) -> str:
    """Return NAME, or NAME (2) when another sweep has it."""
    free, count = name, 1
    taken = sa.select(sa.exists().where(schema.SweepRow.name == sa.bindparam("name")))
    while connection.scalar(taken, {"name": free}):
        count += 1
        free = f"{name} ({count})"
    return free


def _add_repeats(
    connection: sa.Connection,
    sweep_id: int,
    stands: Mapping[tuple[str, int], Mapping[str, Any]],
) -> set[tuple[str, int]]:
    """Add repeats, and let those that have fewer attempts here stand where these do; return those
    that somebody runs here.
    """
    table = schema.RepeatRow
    columns = (table.id, table.trial_id, table.repeat, table.state, table.num_attempts)
    statement = sa.select(*columns).where(table.sweep_id == sweep_id)
    known = {(row.trial_id, row.repeat): row for row in connection.execute(statement)}
    running = {key for key, row in known.items() if row.state in IN_FLIGHT}
    new: list[dict[str, Any]] = []
    for (trial_id, repeat), left in stands.items():
        row = known.get((trial_id, repeat))
        if row is None:
            own = {"sweep_id": sweep_id, "trial_id": trial_id, "repeat": repeat, "reason": ""}
            new.append({**own, **left})
        elif (trial_id, repeat) not in running and row.num_attempts < left["num_attempts"]:
            connection.execute(sa.update(table).where(table.id == row.id).values(left))
    insert_all(connection, table, new)
    return running


def _new_attempts(
    connection: sa.Connection,
    sweep_id: int,
    sweep: FolderSweep,
    running: set[tuple[str, int]],
    rebuilt: Rebuilt,
) -> list[tuple[int, FinishedAttempt]]:
    """Return the attempts that are not there yet, with their machines; count those that are."""
    table = schema.AttemptRow
    columns = (table.trial_id, table.repeat, table.attempt, table.started_at, table.outcome)
    known = {}
    for row in connection.execute(sa.select(*columns).where(table.sweep_id == sweep_id)):
        known[row.trial_id, row.repeat, row.attempt] = (row.started_at, row.outcome)
    new = []
    machine_ids: dict[Machine, int] = {}
    for machine, attempt in sweep.attempts:
        key = (attempt.trial_id, attempt.repeat, attempt.attempt)
        if key in known:
            rebuilt.num_known += 1
            if known[key] != (attempt.started_at, attempt.result.outcome):
                rebuilt.warnings.append(
                    f"{attempt.run_dir}: began or ended otherwise than the database says; what "
                    "is in the database stays"
                )
        elif key[:2] in running:
            rebuilt.rejected.append(Rejected(where=attempt.run_dir, reason=BEING_RUN))
        else:
            if machine not in machine_ids:
                machine_ids[machine] = machine_id_of(connection, machine)
            new.append((machine_ids[machine], attempt))
    return new
