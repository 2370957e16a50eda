"""Makes a lost database again out of the run folders of its sweeps.

What they do not hold is lost: orchestrators, and when they claimed a repeat; repeats that were
never begun; when a sweep was continued, and when it was finished (here: the end of its last
attempt); tags, notes, and what was deleted.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.cli.terminal import Progress, silent
from scalemark.records.attempt import (
    AttemptBegin,
    AttemptEnd,
    Placement,
    check_duration,
    check_environment,
    check_year,
    pack_steps,
    spec_of,
)
from scalemark.records.machine import Machine, check_kind_of_machine
from scalemark.records.measurement import (
    BESIDE_A_MEASUREMENT,
    AttemptResult,
    Measurement,
    check_measurement,
)
from scalemark.records.outcomes import IN_FLIGHT, Outcome, State
from scalemark.records.references import Rejected
from scalemark.records.sweep import SweepRecord, sweep_uid
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import build, canonical, checked, parsed
from scalemark.run_folder import (
    SWEEP_FILE,
    RunFolder,
    check_measured,
    read_regular,
    readable_environment,
    steps_of,
)
from scalemark.text.untrusted import quoted_lines
from store import schema
from store.attempt_rows import AttemptWriter, NewAttempt, machine_id_of
from store.database import open_for_writing, writing
from store.errors import StoreError
from store.rows import insert_all, inserted_id, inserted_ids
from store.trial_rows import insert_trials
from store.writer import add_left_out

_FIRST_FILES = ("trial.json", "machine.json", "placement.json")
_KILLED = ("its orchestrator was killed", "its agent was killed")
_STOPPED = ("the sweep was interrupted", "its agent was ended by ")
# RunFolders: MODEL-STRATEGY-xN-ID-rREPEAT-aATTEMPT
_NAME = re.compile(r"-r(\d{1,9})-a(\d{1,9})(?:-\d+)?")


@dataclass(slots=True)
class Rebuilt:
    """What was found in run folders, and what became of it."""

    num_sweeps: int = 0
    num_new: int = 0  # attempts
    num_known: int = 0  # attempts that were there already, and stay as they are
    rejected: list[Rejected] = field(default_factory=list)  # damaged folders
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FolderAttempt:
    """One attempt, as its folder has it."""

    folder: Path
    spec: TrialSpec
    begin: AttemptBegin
    end: AttemptEnd | None
    ended_at: datetime
    crashed: bool  # as sweeper.running.judgement.Judged has it
    machine: Machine
    placement: Placement
    result: AttemptResult
    environment: dict[str, Any] | None

    @property
    def repeat_key(self) -> tuple[str, int]:
        return self.spec.trial_id, self.begin.repeat


def rebuild(url: str, runs_dirs: Sequence[str], progress: Progress = silent) -> Rebuilt:
    """Add what run folders hold to the database at `url`: what it has already stays as it is. A
    damaged folder is rejected, the rest goes on.

    Raises StoreError for a folder that is not there, or when there is no sweep in any.
    """
    folders = list(dict.fromkeys(_sweep_folders(runs_dirs)))
    if not folders:
        raise StoreError(
            f"{', '.join(runs_dirs)}: no run folder in it; wanted one that holds sweeps, or "
            "the folder of a sweep"
        )
    rebuilt = Rebuilt()
    engine = open_for_writing(url)
    try:
        for folder in folders:
            try:
                sweep = _whole_sweep(folder, rebuilt, progress)
                with writing(engine) as connection:
                    counts = add_sweep(connection, sweep, AttemptWriter())
            except (ValueError, OSError) as error:
                rebuilt.rejected.append(_rejected(folder, error))
                continue
            rebuilt.num_sweeps += 1
            rebuilt.num_new += counts.num_new
            rebuilt.num_known += counts.num_known
            for name in counts.differing:
                rebuilt.warnings.append(
                    f"{folder / name}: began or ended otherwise than the database says; what "
                    "is in the database stays"
                )
    finally:
        engine.dispose()
    return rebuilt


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


def _whole_sweep(folder: Path, rebuilt: Rebuilt, progress: Progress) -> WholeSweep:
    """Return all that one sweep's folder holds."""
    attempts = []
    paths = {path for path in folder.iterdir() if path.is_dir() and _NAME.search(path.name)}
    paths |= {path.parent for path in folder.glob("*/trial.json")}
    for number, path in enumerate(sorted(paths), 1):
        progress(folder.name, number, len(paths))
        try:
            if _never_began(path):
                rebuilt.warnings.append(
                    f"{path}: never began: whoever made the folder was killed while doing so"
                )
            else:
                attempts.append(_attempt_in(RunFolder(path)))
        except (ValueError, OSError) as error:
            rebuilt.rejected.append(_rejected(path, error))
    attempts = _without_doubles(attempts, rebuilt.warnings)
    record = _sweep_record(folder, rebuilt.warnings)
    head = _sweep_head(folder, attempts, record)
    new: list[tuple[Machine, NewAttempt]] = []
    recorded: list[_FolderAttempt] = []
    for attempt in sorted(attempts, key=lambda attempt: attempt.ended_at):
        try:
            new.append((attempt.machine, _new_attempt(attempt)))
            recorded.append(attempt)
        except (ValueError, OSError) as error:
            rebuilt.rejected.append(_rejected(attempt.folder, error))
    return WholeSweep(
        head=head,
        left_out=record.left_out if record else (),
        trials=_asked_for(record, attempts),
        repeats=_repeats(head, recorded),
        attempts=new,
    )


def _never_began(folder: Path) -> bool:
    """Tell whether its trainer was never started: that happens once the first files are whole."""
    sizes = {path.name: path.lstat().st_size for path in folder.iterdir()}
    if not sizes.keys() <= {*_FIRST_FILES, "attempt.json", "rank_limits.json"}:
        return False
    return not all(sizes.get(name) for name in _FIRST_FILES) or 0 in sizes.values()


def _attempt_in(folder: RunFolder) -> _FolderAttempt:
    """Read a run folder. Raises ValueError or OSError for a damaged one."""
    spec = folder.read_trial()
    begin, end = folder.read_attempt(), folder.read_ended()
    result = _result(folder, end)
    machine = folder.read_machine()
    placement = end.placement if end else folder.read_placement()
    check_measured(folder, result)
    if machine is None or placement is None or begin is None:
        parts = {"machine": machine, "placement": placement, "attempt": begin}
        missing = next(name for name, part in parts.items() if part is None)
        raise ValueError(f"{missing}.json is missing: it was made by hand, or is damaged")
    if begin.trial_id != spec.trial_id:
        raise ValueError(
            f"attempt.json is of trial {begin.trial_id}, trial.json of {spec.trial_id}"
        )
    has_result = folder.result.exists()
    modified_at = _modified_at(folder.result if has_result else folder.trial)
    # the orchestrator put its own result in the place of the trainer's
    replaced = bool(end and end.result) or not has_result
    return _FolderAttempt(
        folder=folder.path,
        spec=spec,
        begin=begin,
        end=end,
        ended_at=end.ended_at if end else max(modified_at, begin.started_at),
        crashed=result.outcome == (Outcome.FAILED if replaced else Outcome.INTERRUPTED),
        machine=machine,
        placement=placement,
        result=result,
        environment=readable_environment(folder) if replaced else folder.read_environment(),
    )


def _result(folder: RunFolder, end: AttemptEnd | None) -> AttemptResult:
    """Return what the database got, or would have got from who found the orchestrator dead."""
    if end and end.result:
        return end.result
    if result := folder.read_result():
        return replace(result, outcome=end.outcome, message=end.message) if end else result
    outcome, message = Outcome.INTERRUPTED.value, _KILLED[0]
    if end:
        outcome, message = end.outcome, end.message
    if outcome == Outcome.COMPLETED:
        raise ValueError("result.json is missing, and the attempt was completed")
    return AttemptResult(outcome=outcome, message=message, measurement=None, op_placement={})


def _modified_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.lstat().st_mtime, UTC)


def _without_doubles(
    attempts: Sequence[_FolderAttempt], warnings: list[str]
) -> list[_FolderAttempt]:
    """Keep the one that ended of two folders of one attempt: the orchestrator of the other was
    killed before it could record it.
    """
    by_identity: dict[tuple[str, int, int], list[_FolderAttempt]] = {}
    for attempt in attempts:
        by_identity.setdefault((*attempt.repeat_key, attempt.begin.attempt), []).append(attempt)
    kept = []
    for same in by_identity.values():
        ended = [attempt for attempt in same if attempt.end] or same[-1:]
        kept.extend(ended)
        for attempt in same:
            if attempt not in ended:
                warnings.append(
                    f"{attempt.folder}: begun, and never recorded; {ended[0].folder.name} is its "
                    "attempt"
                )
    return kept


def _sweep_record(folder: Path, warnings: list[str]) -> SweepRecord | None:
    path = folder / SWEEP_FILE
    try:
        return SweepRecord.from_json(read_regular(path))
    except (ValueError, OSError) as error:
        why = _rejected(folder, error).reason
        warnings.append(f"{path}: {why}; of the sweep only what its attempts say is known")
        return None


def _sweep_head(
    folder: Path, attempts: Sequence[_FolderAttempt], record: SweepRecord | None
) -> SweepHead:
    """Return the sweep of its record, else as much as its attempts say. Raises ValueError for a
    name that no sweep can have.
    """
    if record is not None:
        same = ("uid", "name", "reason", "command", "started_at")
        values = {name: getattr(record, name) for name in same}
    else:
        began = min(
            (attempt.begin.started_at for attempt in attempts), default=_modified_at(folder)
        )
        values = {"name": folder.name, "reason": "", "command": "", "started_at": began}
        values["uid"] = sweep_uid(folder.name, began, "")
        if attempts:
            values |= {"uid": attempts[0].begin.sweep_uid, "name": attempts[0].begin.sweep}
    run_dir = str(folder) if attempts else None
    values |= {"finished_at": _finished_at(attempts), "run_dir": run_dir}
    return build(SweepHead, values)


def _finished_at(attempts: Sequence[_FolderAttempt]) -> datetime | None:
    """Return None when something was interrupted and not tried again: the sweep did not finish."""
    last: dict[tuple[str, int], _FolderAttempt] = {}
    for attempt in sorted(attempts, key=lambda attempt: attempt.begin.attempt):
        last[attempt.repeat_key] = attempt
    if not last or any(attempt.result.outcome == Outcome.INTERRUPTED for attempt in last.values()):
        return None
    return max(attempt.ended_at for attempt in attempts)


def _asked_for(
    record: SweepRecord | None, attempts: Sequence[_FolderAttempt]
) -> list[tuple[int, TrialSpec]]:
    """Return positions and trials; unknown positions follow in the order in which trials began."""
    asked_for: list[tuple[int, TrialSpec]] = []
    for trial in record.trials if record else ():
        asked_for.append((trial.position, spec_of(parsed(trial.spec))))
    known = {spec.trial_id for _, spec in asked_for}
    following = max((position for position, _ in asked_for), default=-1) + 1
    for attempt in sorted(attempts, key=lambda attempt: attempt.begin.started_at):
        if attempt.spec.trial_id not in known:
            known.add(attempt.spec.trial_id)
            asked_for.append((following, attempt.spec))
            following += 1
    return asked_for


def _repeats(head: SweepHead, attempts: Sequence[_FolderAttempt]) -> list[WholeRepeat]:
    """Return where each stands after its last attempt, with its changes of state."""
    of_repeat: dict[tuple[str, int], list[_FolderAttempt]] = {}
    for attempt in sorted(attempts, key=lambda attempt: attempt.begin.attempt):
        of_repeat.setdefault(attempt.repeat_key, []).append(attempt)
    return [_repeat(head, attempts) for attempts in of_repeat.values()]


def _repeat(head: SweepHead, attempts: Sequence[_FolderAttempt]) -> WholeRepeat:
    changes: list[StateChange] = []

    def change(at: datetime, attempt: int, state: State, detail: str = "") -> None:
        changes.append(StateChange(at=at, attempt=attempt, state=state, detail=detail))

    change(min(head.started_at, attempts[0].begin.started_at), 0, State.PENDING)
    for attempt, following in itertools.zip_longest(attempts, attempts[1:]):
        number = attempt.begin.attempt
        outcome, message = State(attempt.result.outcome), attempt.result.message
        was_killed = outcome is State.INTERRUPTED and message.startswith(_KILLED)
        change(attempt.begin.started_at, number, State.RUNNING)
        change(attempt.ended_at, number, outcome, _KILLED[0] if was_killed else "")
        if was_killed:
            change(attempt.ended_at, number, State.PENDING, _KILLED[0])
        elif following and message.startswith(_STOPPED):
            change(following.begin.started_at, number, State.PENDING, "continued")
        elif following:
            why = "crashed" if attempt.crashed else outcome.value
            change(attempt.ended_at, number, State.PENDING, f"tried again after {why}")
    last = attempts[-1].begin
    return WholeRepeat(
        trial_id=last.trial_id, number=last.repeat, num_attempts=last.attempt, changes=changes
    )


def _new_attempt(attempt: _FolderAttempt) -> NewAttempt:
    """Raises ValueError or OSError when its steps are damaged, or no database takes what it
    says.
    """
    result, end = attempt.result, attempt.end
    steps = steps_of(RunFolder(attempt.folder), result.measurement) if result.measurement else []
    check_kind_of_machine(attempt.spec.device_kind, attempt.machine)
    uuids, pairs = [], [link.between for link in attempt.machine.links]
    for gpu in attempt.machine.gpus:
        uuids += [gpu.uuid, *(device.uuid for device in gpu.mig_devices)]
    if len(set(uuids)) < len(uuids) or len(set(pairs)) < len(pairs):
        raise ValueError("machine: a GPU, or a link between two, is in it twice")
    check_year("started_at", attempt.begin.started_at)
    if end and end.duration_s is not None:
        check_duration("duration_s", end.duration_s)
    if attempt.environment is not None:
        check_environment(attempt.environment)
    columns = {
        "trial_id": attempt.spec.trial_id,
        "repeat": attempt.begin.repeat,
        "attempt": attempt.begin.attempt,
        "outcome": result.outcome,
        "message": quoted_lines(result.message),
        "exit_code": end.exit_code if end else None,
        "run_dir": attempt.folder.name,
        "started_at": attempt.begin.started_at,
        "duration_s": end.duration_s if end else None,
    }
    return NewAttempt(
        columns=columns,
        placement=attempt.placement,
        environment=attempt.environment,
        measurement=_measured(result),
        op_placement=result.op_placement,
        steps=pack_steps(steps) if steps else None,
    )


def _measured(result: AttemptResult) -> dict[str, Any] | None:
    if result.measurement is None:
        return None
    values: dict[str, Any] = parsed(canonical(asdict(result)))
    measurement = checked(Measurement, values["measurement"], "measurement")
    check_measurement(measurement)
    return measurement | {name: values[name] for name in BESIDE_A_MEASUREMENT}


def _rejected(folder: Path, error: Exception) -> Rejected:
    reason = str(error).replace(f"{folder}/", "")
    if isinstance(error, OSError):
        reason = f"{Path(str(error.filename)).name}: {error.strerror}"
    return Rejected(where=str(folder), reason=reason)


_DIGEST = re.compile("[0-9a-f]{16}")

RENAMED = re.compile(r" \(\d+\)$")
"""What the name of a sweep of another database may end with, because another had its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepHead:
    """What is known of a sweep without its trials."""

    uid: str  # scalemark.records.sweep.sweep_uid: the same sweep in every database
    name: str
    reason: str
    command: str
    started_at: datetime
    finished_at: datetime | None
    run_dir: str | None

    def __post_init__(self) -> None:
        if not _DIGEST.fullmatch(self.uid):
            raise ValueError(f"sweep.uid={self.uid[:40]}: wanted 16 hexadecimal digits")
        if not self.name:
            raise ValueError("sweep.name is empty")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """One change of a repeat's state, as a row of `events`."""

    at: datetime
    attempt: int
    state: State
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeRepeat:
    """A repeat with all changes of its state; the last one is where it stands."""

    trial_id: str
    number: int
    num_attempts: int
    changes: Sequence[StateChange]

    @property
    def state(self) -> State:
        return self.changes[-1].state


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeSweep:
    """A sweep with all that is known of it."""

    head: SweepHead
    left_out: Sequence[tuple[str, str]] = ()  # overrides of a refused cell, and why
    trials: Sequence[tuple[int, TrialSpec]]  # with their positions
    repeats: Sequence[WholeRepeat]
    # `columns` without the ids of sweep and machine
    attempts: Sequence[tuple[Machine, NewAttempt]]


@dataclass(slots=True)
class AddedAttempts:
    """How many attempts were added, and how many were there."""

    num_new: int = 0
    num_known: int = 0
    differing: list[str] = field(default_factory=list)  # run folders of known ones, not as given


def add_sweep(connection: sa.Connection, sweep: WholeSweep, writer: AttemptWriter) -> AddedAttempts:
    """Add what is not there yet, inside the caller's transaction; what is there stays as it is."""
    sweep_id = _sweep_id(connection, sweep.head)
    add_left_out(connection, sweep_id, sweep.left_out)
    insert_trials(connection, {spec.trial_id: spec for _, spec in sweep.trials})
    links = schema.SweepTrialRow
    asked_for = sa.select(links.trial_id).where(links.sweep_id == sweep_id)
    known = set(connection.scalars(asked_for))
    rows = []
    for position, spec in sweep.trials:
        if spec.trial_id not in known:
            rows.append({"sweep_id": sweep_id, "trial_id": spec.trial_id, "position": position})
    insert_all(connection, links, rows)
    busy = _add_repeats(connection, sweep_id, sweep.repeats)
    return _add_attempts(connection, sweep_id, sweep.attempts, busy, writer)


def _sweep_id(connection: sa.Connection, head: SweepHead) -> int:
    table = schema.SweepRow
    known = connection.scalar(sa.select(table.id).where(table.uid == head.uid))
    if known is not None:
        return known
    name = free_name(connection, head.name)
    return inserted_id(connection, table, asdict(head) | {"origin": "", "name": name})


def free_name(connection: sa.Connection, name: str) -> str:
    """Return NAME, or NAME (2) when another sweep has it."""
    free, count = name, 1
    taken = sa.select(sa.exists().where(schema.SweepRow.name == sa.bindparam("name")))
    while connection.scalar(taken, {"name": free}):
        count += 1
        free = f"{name} ({count})"
    return free


def _add_repeats(
    connection: sa.Connection, sweep_id: int, repeats: Sequence[WholeRepeat]
) -> set[tuple[str, int]]:
    """Add repeats, and let those that have fewer attempts here stand where these do; return those
    that somebody runs here.
    """
    table = schema.RepeatRow
    columns = (table.id, table.trial_id, table.repeat, table.state, table.num_attempts)
    statement = sa.select(*columns).where(table.sweep_id == sweep_id)
    known = {(row.trial_id, row.repeat): row for row in connection.execute(statement)}
    new = [repeat for repeat in repeats if (repeat.trial_id, repeat.number) not in known]
    rows = []
    for repeat in new:
        own = {"sweep_id": sweep_id, "trial_id": repeat.trial_id, "repeat": repeat.number}
        rows.append(own | {"reason": ""} | _standing(repeat))
    written = list(zip(inserted_ids(connection, table, rows), new, strict=True))
    for repeat in repeats:
        row = known.get((repeat.trial_id, repeat.number))
        if row is None or row.state in IN_FLIGHT or row.num_attempts >= repeat.num_attempts:
            continue
        update = sa.update(table).where(table.id == row.id).values(**_standing(repeat))
        connection.execute(update)
        connection.execute(sa.delete(schema.EventRow).where(schema.EventRow.repeat_id == row.id))
        written.append((row.id, repeat))
    events = []
    for repeat_id, repeat in written:
        for number, change in enumerate(repeat.changes, 1):
            events.append(
                {
                    "repeat_id": repeat_id,
                    "number": number,
                    "at_unix_us": change.at,
                    "attempt": change.attempt,
                    "state": change.state,
                    "detail": change.detail,
                }
            )
    insert_all(connection, schema.EventRow, events)
    return {key for key, row in known.items() if row.state in IN_FLIGHT}


def _standing(repeat: WholeRepeat) -> dict[str, Any]:
    return {"state": repeat.state, "num_attempts": repeat.num_attempts}


def _add_attempts(
    connection: sa.Connection,
    sweep_id: int,
    attempts: Sequence[tuple[Machine, NewAttempt]],
    busy: set[tuple[str, int]],
    writer: AttemptWriter,
) -> AddedAttempts:
    table = schema.AttemptRow
    columns = (table.trial_id, table.repeat, table.attempt, table.started_at, table.outcome)
    known = {}
    for row in connection.execute(sa.select(*columns).where(table.sweep_id == sweep_id)):
        known[row.trial_id, row.repeat, row.attempt] = (row.started_at, row.outcome)
    counts = AddedAttempts()
    new: list[NewAttempt] = []
    for machine, attempt in attempts:
        values = attempt.columns
        key = (values["trial_id"], values["repeat"], values["attempt"])
        if key in known:
            counts.num_known += 1
            if known[key] != (values["started_at"], values["outcome"]):
                counts.differing.append(values["run_dir"])
        elif key[:2] not in busy:
            machine_id = writer.shared_id(machine, partial(machine_id_of, connection, machine))
            values |= {"sweep_id": sweep_id, "machine_id": machine_id}
            new.append(attempt)
    writer.insert(connection, new)
    counts.num_new = len(new)
    return counts
