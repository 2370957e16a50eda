"""Makes a lost database anew out of the run folders of its sweeps.

What they do not tell is lost: orchestrators, and when they claimed a repeat; repeats that were
never begun; when a sweep was continued, and when it was finished (told here: the end of its last
attempt); tags, notes, and what was deleted.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scalemark.cli.progress import Progress, silent
from scalemark.records.attempt import AttemptEnd, spec_of
from scalemark.records.machine import Machine
from scalemark.records.measurement import BESIDE_A_MEASUREMENT, Measurement, Result, StepSample
from scalemark.records.outcomes import Outcome, State
from scalemark.records.placement import Placement
from scalemark.records.references import Rejected
from scalemark.records.sweep import SweepRecord, sweep_uid
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import build, canonical, checked, parsed
from scalemark.run_folder.attempt_files import check_measured, readable_environment, steps_of
from scalemark.run_folder.folder import RunFolder
from scalemark.run_folder.regular_file import read_regular
from store.database import open_for_writing, writing
from store.errors import StoreError
from store.exchange.bulk import ROWS_PER_TRANSACTION, Added, Bulk, Located
from store.exchange.portable import (
    Change,
    Measured,
    PortableAttempt,
    PortableRepeat,
    PortableSweep,
    PortableTrial,
    SweepHead,
    pack,
)

SWEEP_FILE = "sweep.json"
_KILLED = ("its orchestrator was killed", "its agent was killed")
_STOPPED = ("the sweep was interrupted", "its agent was ended by ")
# RunFolders: MODEL-STRATEGY-xN-ID-rREPEAT-aATTEMPT
_NAME = re.compile(r"-r(\d{1,9})-a(\d{1,9})(?:-\d+)?")


@dataclass(slots=True)
class Rebuilt:
    """What became of the folders."""

    added: Added
    num_sweeps: int = 0
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """One attempt, as its folder tells it."""

    folder: Path
    spec: TrialSpec
    repeat: int
    attempt: int
    sweep_uid: str
    sweep_name: str
    started_at: datetime
    ended_at: datetime
    duration_s: float | None
    exit_code: int | None
    is_ended: bool
    crashed: bool  # as sweeper.running.judgement.Judged has it
    machine: Machine
    placement: Placement
    result: Result
    environment: dict[str, Any] | None

    @property
    def repeat_key(self) -> tuple[str, int]:
        return self.spec.trial_id, self.repeat


def rebuild(url: str, runs_dirs: Sequence[str], progress: Progress = silent) -> Rebuilt:
    """Into the database at `url`: what it has already stays as it is. A damaged folder is rejected,
    the rest goes on.

    Raises StoreError for a folder that is not there, or when there is no sweep in any.
    """
    folders = list(dict.fromkeys(_sweep_folders(runs_dirs)))
    if not folders:
        raise StoreError(
            f"{', '.join(runs_dirs)}: no run folder in it; wanted one that holds sweeps, or "
            "the folder of a sweep"
        )
    engine = open_for_writing(url)
    rebuilt = Rebuilt(added=Added())
    try:
        for folder in folders:
            records = _records(folder, rebuilt, progress)
            bulk = Bulk(added=rebuilt.added)
            try:
                while batch := list(itertools.islice(records, ROWS_PER_TRANSACTION)):
                    with writing(engine) as connection:
                        bulk.add(connection, batch)
            except (ValueError, OSError) as error:
                rebuilt.added.rejected.append(
                    Rejected(where=str(folder), reason=_reason(error, folder))
                )
            else:
                rebuilt.num_sweeps += 1
    finally:
        engine.dispose()
    return rebuilt


def _sweep_folders(runs_dirs: Iterable[str]) -> Iterator[Path]:
    """Those with a sweep.json, and those around attempts whose sweep.json is lost."""
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


def _records(folder: Path, rebuilt: Rebuilt, progress: Progress) -> Iterator[Located]:
    """All that one sweep's folder tells."""
    found = []
    of_attempts = {path for path in folder.iterdir() if path.is_dir() and _NAME.search(path.name)}
    paths = sorted(of_attempts | {path.parent for path in folder.glob("*/trial.json")})
    for number, path in enumerate(paths, 1):
        progress(folder.name, number, len(paths))
        try:
            if _never_began(path):
                rebuilt.warnings.append(
                    f"{path}: never began: whoever made the folder was killed while doing so"
                )
            else:
                found.append(_attempt_in(RunFolder(path)))
        except (ValueError, OSError) as error:
            rebuilt.added.rejected.append(Rejected(where=str(path), reason=_reason(error, path)))
    found = _recorded(found, rebuilt)
    head, record = _sweep_of(folder, found, rebuilt)
    positions = {trial.trial_id: position for position, trial in _asked_for(record, found)}
    yield str(folder), PortableSweep(sweep=head, left_out=record.left_out if record else ())
    for position, trial in _asked_for(record, found):
        yield (
            str(folder),
            PortableTrial(sweep=head, position=position, trial_id=trial.trial_id, spec=trial),
        )
    repeats = _repeats(head, found)
    for one in sorted(found, key=lambda one: one.ended_at):
        try:
            steps = _steps_of(one)
            told = _told(one, head, repeats[one.repeat_key], positions[one.spec.trial_id])
            yield str(one.folder), build(PortableAttempt, told | {"steps": pack(steps)})
        except (ValueError, OSError) as error:
            rebuilt.added.rejected.append(
                Rejected(where=str(one.folder), reason=_reason(error, one.folder))
            )


def _never_began(folder: Path) -> bool:
    """Nothing is started before all files are in it that are made with it; the last of them are not
    in every one.
    """
    sizes = {path.name: path.lstat().st_size for path in folder.iterdir()}
    if not sizes.keys() <= {*_FIRST_FILES, "attempt.json", "rank_limits.json"}:
        return False
    return not all(sizes.get(name) for name in _FIRST_FILES) or 0 in sizes.values()


_FIRST_FILES = ("trial.json", "machine.json", "placement.json")


def _steps_of(one: _Found) -> list[StepSample]:
    return steps_of(RunFolder(one.folder), one.result.measurement) if one.result.measurement else []


def _attempt_in(folder: RunFolder) -> _Found:
    """Raises ValueError or OSError for a damaged one."""
    spec = folder.read_trial()
    begin, end = folder.read_attempt(), folder.read_ended()
    result = _result(folder, end)
    machine = folder.read_machine()
    if machine is None:
        raise ValueError("machine.json is missing: it was made by hand, or is damaged")
    placement = end.placement if end else folder.read_placement()
    if placement is None:
        raise ValueError("placement.json is missing: it was made by hand, or is damaged")
    check_measured(folder, result)
    if begin is None:
        raise ValueError("attempt.json is missing: it was made by hand, or is damaged")
    if begin.trial_id != spec.trial_id:
        raise ValueError(
            f"attempt.json tells of trial {begin.trial_id}, trial.json of {spec.trial_id}"
        )
    modified_at = _modified_at(folder.result if folder.result.exists() else folder.trial)
    replaced = bool(end and end.result) or not folder.result.exists()
    return _Found(
        folder=folder.path,
        spec=spec,
        repeat=begin.repeat,
        attempt=begin.attempt,
        sweep_uid=begin.sweep_uid,
        sweep_name=begin.sweep,
        started_at=begin.started_at,
        ended_at=end.ended_at if end else max(modified_at, begin.started_at),
        duration_s=end.duration_s if end else None,
        exit_code=end.exit_code if end else None,
        is_ended=end is not None,
        crashed=result.outcome == (Outcome.FAILED if replaced else Outcome.INTERRUPTED),
        machine=machine,
        placement=placement,
        result=result,
        environment=readable_environment(folder) if replaced else folder.read_environment(),
    )


def _result(folder: RunFolder, end: AttemptEnd | None) -> Result:
    """What the database was told, or would have been by who found its orchestrator dead."""
    if end and end.result:
        return end.result
    if result := folder.read_result():
        return replace(result, outcome=end.outcome, message=end.message) if end else result
    if end and end.outcome == Outcome.COMPLETED:
        raise ValueError("result.json is missing, and the attempt was completed")
    outcome, message = (
        (end.outcome, end.message) if end else (Outcome.INTERRUPTED.value, _KILLED[0])
    )
    return Result(outcome=outcome, message=message, measurement=None, op_placement={})


def _modified_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.lstat().st_mtime, UTC)


def _recorded(found: Sequence[_Found], rebuilt: Rebuilt) -> list[_Found]:
    """Of two folders of one attempt that which ended: the other was begun, and its orchestrator
    killed before it could tell.
    """
    by_identity: dict[tuple[str, int, int], list[_Found]] = {}
    for one in found:
        by_identity.setdefault((*one.repeat_key, one.attempt), []).append(one)
    kept = []
    for same in by_identity.values():
        ended = [one for one in same if one.is_ended] or same[-1:]
        kept.extend(ended)
        for one in same:
            if one not in ended:
                rebuilt.warnings.append(
                    f"{one.folder}: begun, and never recorded; {ended[0].folder.name} is its "
                    "attempt"
                )
    return kept


def _sweep_of(
    folder: Path, found: Sequence[_Found], rebuilt: Rebuilt
) -> tuple[SweepHead, SweepRecord | None]:
    """As sweep.json tells it; where that is lost, as much as the attempts tell. Raises ValueError
    for a name none can have.
    """
    path = folder / SWEEP_FILE
    try:
        record = SweepRecord.from_json(read_regular(path))
    except (ValueError, OSError) as error:
        record = None
        rebuilt.warnings.append(
            f"{path}: {_reason(error, folder)}; the sweep is told as far as its attempts tell it"
        )
    if record is not None:
        same = ("uid", "name", "reason", "command", "started_at")
        told = {name: getattr(record, name) for name in same}
    else:
        began = min((one.started_at for one in found), default=_modified_at(folder))
        told = {"name": folder.name, "reason": "", "command": "", "started_at": began}
        told["uid"] = sweep_uid(folder.name, began, "")
        if found:
            told |= {"uid": found[0].sweep_uid, "name": found[0].sweep_name}
    told |= {
        "finished_at": _finished_at(found),
        "run_dir": str(folder) if found else None,
        "origin": "",
    }
    return build(SweepHead, told), record


def _finished_at(found: Sequence[_Found]) -> datetime | None:
    """None when something was interrupted and not tried again: the sweep has not come to its
    end.
    """
    last: dict[tuple[str, int], _Found] = {}
    for one in sorted(found, key=lambda one: one.attempt):
        last[one.repeat_key] = one
    if not last or any(one.result.outcome == Outcome.INTERRUPTED for one in last.values()):
        return None
    return max(one.ended_at for one in found)


def _asked_for(record: SweepRecord | None, found: Sequence[_Found]) -> list[tuple[int, TrialSpec]]:
    """Positions and trials; where they are not told, in the order in which they were begun."""
    told = (
        [(trial.position, spec_of(parsed(trial.spec))) for trial in record.trials] if record else []
    )
    known = {spec.trial_id for _, spec in told}
    begun = {one.spec.trial_id: one.spec for one in sorted(found, key=lambda one: one.started_at)}
    more = [spec for trial_id, spec in begun.items() if trial_id not in known]
    return told + list(enumerate(more, max((position for position, _ in told), default=-1) + 1))


def _repeats(head: SweepHead, found: Sequence[_Found]) -> dict[tuple[str, int], PortableRepeat]:
    """Where each stands after its last attempt, and how it came to that, as far as its attempts
    tell.
    """
    of_repeat: dict[tuple[str, int], list[_Found]] = {}
    for one in sorted(found, key=lambda one: one.attempt):
        of_repeat.setdefault(one.repeat_key, []).append(one)
    return {key: _repeat(head, attempts) for key, attempts in of_repeat.items()}


def _repeat(head: SweepHead, attempts: Sequence[_Found]) -> PortableRepeat:
    changes = [_change(min(head.started_at, attempts[0].started_at), 0, State.PENDING)]
    for one, following in itertools.zip_longest(attempts, attempts[1:]):
        outcome, message = State(one.result.outcome), one.result.message
        was_killed = outcome is State.INTERRUPTED and message.startswith(_KILLED)
        changes.append(_change(one.started_at, one.attempt, State.RUNNING))
        changes.append(
            _change(one.ended_at, one.attempt, outcome, _KILLED[0] if was_killed else "")
        )
        if was_killed:
            changes.append(_change(one.ended_at, one.attempt, State.PENDING, _KILLED[0]))
        elif following and message.startswith(_STOPPED):
            changes.append(_change(following.started_at, one.attempt, State.PENDING, "continued"))
        elif following:
            how = "crashed" if one.crashed else outcome.value
            changes.append(
                _change(one.ended_at, one.attempt, State.PENDING, f"tried again after {how}")
            )
    last = attempts[-1]
    return PortableRepeat(
        number=last.repeat,
        state=changes[-1].state,
        reason="",
        num_attempts=last.attempt,
        changes=tuple(changes),
    )


def _change(at: datetime, attempt: int, state: State, detail: str = "") -> Change:
    return Change(at=at, attempt=attempt, state=state.value, detail=detail)


def _told(one: _Found, head: SweepHead, repeat: PortableRepeat, position: int) -> dict[str, Any]:
    """The fields of PortableAttempt but for its steps."""
    return {
        "sweep": head,
        "position": position,
        "trial_id": one.spec.trial_id,
        "spec": one.spec,
        "machine": one.machine,
        "environment": one.environment,
        "placement": one.placement,
        "repeat": repeat,
        "attempt": one.attempt,
        "outcome": one.result.outcome,
        "message": one.result.message,
        "exit_code": one.exit_code,
        "run_dir": one.folder.name,
        "started_at": one.started_at,
        "duration_s": one.duration_s,
        "measured": _measured(one.result),
    }


def _measured(result: Result) -> Measured | None:
    if result.measurement is None:
        return None
    told: dict[str, Any] = parsed(canonical(asdict(result)))
    around = {name: told[name] for name in ("op_placement", *BESIDE_A_MEASUREMENT)}
    measurement = checked(Measurement, told["measurement"], "measurement")
    return build(Measured, around | {"measurement": measurement}, "measured")


def _reason(error: Exception, folder: Path) -> str:
    if isinstance(error, OSError):
        return f"{Path(str(error.filename)).name}: {error.strerror}"
    told = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    return told.replace(f"{folder}/", "")
