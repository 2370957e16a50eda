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
from pathlib import Path
from typing import Any

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
    Measurement,
    Result,
    check_measurement,
)
from scalemark.records.outcomes import Outcome, State
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
from store.database import open_for_writing, writing
from store.errors import StoreError
from store.exchange.whole_sweeps import (
    AttemptKey,
    Change,
    SweepHead,
    WholeRepeat,
    WholeSweep,
    add_sweep,
)
from store.finished_attempt import AttemptWriter, NewAttempt

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
class _Attempt:
    """One attempt, as its folder has it."""

    folder: Path
    spec: TrialSpec
    begin: AttemptBegin
    end: AttemptEnd | None
    ended_at: datetime
    crashed: bool  # as sweeper.running.judgement.Judged has it
    machine: Machine
    placement: Placement
    result: Result
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
                sweep, names = _whole_sweep(folder, rebuilt, progress)
                with writing(engine) as connection:
                    counts = add_sweep(connection, sweep, AttemptWriter())
            except (ValueError, OSError) as error:
                rebuilt.rejected.append(_rejected(folder, error))
                continue
            rebuilt.num_sweeps += 1
            rebuilt.num_new += counts.num_new
            rebuilt.num_known += counts.num_known
            for key in counts.differing:
                rebuilt.warnings.append(
                    f"{folder / names[key]}: began or ended otherwise than the database says; what "
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


def _whole_sweep(
    folder: Path, rebuilt: Rebuilt, progress: Progress
) -> tuple[WholeSweep, dict[AttemptKey, str]]:
    """Return all that one sweep's folder holds, with the name of each attempt's folder."""
    found: list[_Attempt] = []
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
                found.append(_attempt_in(RunFolder(path)))
        except (ValueError, OSError) as error:
            rebuilt.rejected.append(_rejected(path, error))
    found = _without_doubles(found, rebuilt.warnings)
    record = _sweep_record(folder, rebuilt.warnings)
    head = _sweep_head(folder, found, record)
    attempts: list[tuple[Machine, NewAttempt]] = []
    names: dict[AttemptKey, str] = {}
    for attempt in sorted(found, key=lambda one: one.ended_at):
        try:
            attempts.append((attempt.machine, _new_attempt(attempt)))
            names[(*attempt.repeat_key, attempt.begin.attempt)] = attempt.folder.name
        except (ValueError, OSError) as error:
            rebuilt.rejected.append(_rejected(attempt.folder, error))
    sweep = WholeSweep(
        head=head,
        left_out=record.left_out if record else (),
        trials=_asked_for(record, found),
        repeats=_repeats(head, [one for one in found if one.folder.name in names.values()]),
        attempts=attempts,
    )
    return sweep, names


def _never_began(folder: Path) -> bool:
    """Tell whether its trainer was never started: that happens once the first files are whole."""
    sizes = {path.name: path.lstat().st_size for path in folder.iterdir()}
    if not sizes.keys() <= {*_FIRST_FILES, "attempt.json", "rank_limits.json"}:
        return False
    return not all(sizes.get(name) for name in _FIRST_FILES) or 0 in sizes.values()


def _attempt_in(folder: RunFolder) -> _Attempt:
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
    return _Attempt(
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


def _result(folder: RunFolder, end: AttemptEnd | None) -> Result:
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
    return Result(outcome=outcome, message=message, measurement=None, op_placement={})


def _modified_at(path: Path) -> datetime:
    return datetime.fromtimestamp(path.lstat().st_mtime, UTC)


def _without_doubles(found: Sequence[_Attempt], warnings: list[str]) -> list[_Attempt]:
    """Keep the one that ended of two folders of one attempt: the orchestrator of the other was
    killed before it could record it.
    """
    by_identity: dict[tuple[str, int, int], list[_Attempt]] = {}
    for one in found:
        by_identity.setdefault((*one.repeat_key, one.begin.attempt), []).append(one)
    kept = []
    for same in by_identity.values():
        ended = [one for one in same if one.end] or same[-1:]
        kept.extend(ended)
        for one in same:
            if one not in ended:
                warnings.append(
                    f"{one.folder}: begun, and never recorded; {ended[0].folder.name} is its "
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


def _sweep_head(folder: Path, found: Sequence[_Attempt], record: SweepRecord | None) -> SweepHead:
    """Return the sweep of its record, else as much as its attempts say. Raises ValueError for a
    name that no sweep can have.
    """
    if record is not None:
        same = ("uid", "name", "reason", "command", "started_at")
        values = {name: getattr(record, name) for name in same}
    else:
        began = min((one.begin.started_at for one in found), default=_modified_at(folder))
        values = {"name": folder.name, "reason": "", "command": "", "started_at": began}
        values["uid"] = sweep_uid(folder.name, began, "")
        if found:
            values |= {"uid": found[0].begin.sweep_uid, "name": found[0].begin.sweep}
    run_dir = str(folder) if found else None
    values |= {"finished_at": _finished_at(found), "run_dir": run_dir}
    return build(SweepHead, values)


def _finished_at(found: Sequence[_Attempt]) -> datetime | None:
    """Return None when something was interrupted and not tried again: the sweep did not finish."""
    last: dict[tuple[str, int], _Attempt] = {}
    for one in sorted(found, key=lambda one: one.begin.attempt):
        last[one.repeat_key] = one
    if not last or any(one.result.outcome == Outcome.INTERRUPTED for one in last.values()):
        return None
    return max(one.ended_at for one in found)


def _asked_for(
    record: SweepRecord | None, found: Sequence[_Attempt]
) -> list[tuple[int, TrialSpec]]:
    """Return positions and trials; unknown positions follow in the order in which trials began."""
    asked_for: list[tuple[int, TrialSpec]] = []
    for trial in record.trials if record else ():
        asked_for.append((trial.position, spec_of(parsed(trial.spec))))
    known = {spec.trial_id for _, spec in asked_for}
    following = max((position for position, _ in asked_for), default=-1) + 1
    for one in sorted(found, key=lambda one: one.begin.started_at):
        if one.spec.trial_id not in known:
            known.add(one.spec.trial_id)
            asked_for.append((following, one.spec))
            following += 1
    return asked_for


def _repeats(head: SweepHead, found: Sequence[_Attempt]) -> list[WholeRepeat]:
    """Return where each stands after its last attempt, with its changes of state."""
    of_repeat: dict[tuple[str, int], list[_Attempt]] = {}
    for one in sorted(found, key=lambda one: one.begin.attempt):
        of_repeat.setdefault(one.repeat_key, []).append(one)
    return [_repeat(head, attempts) for attempts in of_repeat.values()]


def _repeat(head: SweepHead, attempts: Sequence[_Attempt]) -> WholeRepeat:
    changes: list[Change] = []

    def change(at: datetime, attempt: int, state: State, detail: str = "") -> None:
        changes.append(Change(at=at, attempt=attempt, state=state, detail=detail))

    change(min(head.started_at, attempts[0].begin.started_at), 0, State.PENDING)
    for one, following in itertools.zip_longest(attempts, attempts[1:]):
        number = one.begin.attempt
        outcome, message = State(one.result.outcome), one.result.message
        was_killed = outcome is State.INTERRUPTED and message.startswith(_KILLED)
        change(one.begin.started_at, number, State.RUNNING)
        change(one.ended_at, number, outcome, _KILLED[0] if was_killed else "")
        if was_killed:
            change(one.ended_at, number, State.PENDING, _KILLED[0])
        elif following and message.startswith(_STOPPED):
            change(following.begin.started_at, number, State.PENDING, "continued")
        elif following:
            why = "crashed" if one.crashed else outcome.value
            change(one.ended_at, number, State.PENDING, f"tried again after {why}")
    last = attempts[-1].begin
    return WholeRepeat(
        trial_id=last.trial_id, number=last.repeat, num_attempts=last.attempt, changes=changes
    )


def _new_attempt(one: _Attempt) -> NewAttempt:
    """Raises ValueError or OSError when its steps are damaged, or no database takes what it
    says.
    """
    result, end = one.result, one.end
    steps = steps_of(RunFolder(one.folder), result.measurement) if result.measurement else []
    check_kind_of_machine(one.spec.device_kind, one.machine)
    uuids = [part.uuid for gpu in one.machine.gpus for part in (gpu, *gpu.mig_devices)]
    pairs = [link.between for link in one.machine.links]
    if len(set(uuids)) < len(uuids) or len(set(pairs)) < len(pairs):
        raise ValueError("machine: a GPU, or a link between two, is in it twice")
    check_year("started_at", one.begin.started_at)
    if end and end.duration_s is not None:
        check_duration("duration_s", end.duration_s)
    if one.environment is not None:
        check_environment(one.environment)
    columns = {
        "trial_id": one.spec.trial_id,
        "repeat": one.begin.repeat,
        "attempt": one.begin.attempt,
        "outcome": result.outcome,
        "message": quoted_lines(result.message),
        "exit_code": end.exit_code if end else None,
        "run_dir": one.folder.name,
        "started_at": one.begin.started_at,
        "duration_s": end.duration_s if end else None,
    }
    return NewAttempt(
        columns=columns,
        placement=one.placement,
        environment=one.environment,
        measurement=_measured(result),
        op_placement=result.op_placement,
        steps=pack_steps(steps) if steps else None,
    )


def _measured(result: Result) -> dict[str, Any] | None:
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
