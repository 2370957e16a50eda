"""`scalemark read --sweep SWEEP read=...`: reads the kept logs of a program's trials another way,
and puts the numbers in the place of the earlier ones. Nothing runs again.

A trial is read again as a whole and stored in one transaction, or stays as it was: numbers of two
readings are never mixed. Who is killed in between repeats the command.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from importlib import import_module
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

import sqlalchemy as sa
import typer

from scalemark.cli.terminal import for_people, make_console, print_columns, print_json
from scalemark.program.expression import check
from scalemark.readers.opening import ReadError, open_reader
from scalemark.records.measurement import IN_FLIGHT, AttemptResult, Outcome, State, StepSample
from scalemark.records.trial import READING, TrialSpec
from scalemark.run_folder import SWEEP_FILE, RunFolder
from store import ledger
from store.command_line import Db, Json
from store.database import check_writable, open_for_reading, open_for_writing, reading, writing
from store.errors import StoreError
from store.reading.listing import RUN_DIR, find
from store.reading.queries import Row
from store.rows import replace_measured
from store.schema import AttemptRow, EnvironmentRow, MeasurementRow, RepeatRow, SweepRow
from store.tables import update_trial
from store.writer import read_sweep
from sweeper.grid.plan import PlannedTrial

_Again = tuple[Row, AttemptResult, Sequence[StepSample]]  # an attempt, and what its log says now


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialAgain:
    """One trial, before and after."""

    trial: str
    attempts: int  # that were read again
    before: float | None = None  # mean throughput; None without a number
    now: float | None = None
    kept: str = ""  # why it stays as it was


def read(
    settings: Annotated[
        list[str],
        typer.Argument(
            metavar="SETTING...",
            help="read=PATTERN, item=tokens, items_per_step=64*num_gpus, flops_per_item=6*params; "
            "others stay as they were.",
            show_default=False,
        ),
    ],
    db: Db,
    sweep: Annotated[str, typer.Option(help="The sweep whose trials are read again.")],
    as_json: Json = False,
) -> None:
    """Read the kept logs of a sweep of your program another way, also those that its trials have
    in other sweeps; the numbers replace the earlier ones, and nothing runs again. Exit code 1 where
    a trial could not be read, and stays as it was.
    """
    changes = _changes(settings)
    open_for_reading(db).dispose()
    check_writable(db)
    engine = open_for_writing(db)
    to_read: dict[str, tuple[TrialSpec, list[Row]]] = {}
    for asked in read_sweep(engine, int(find(engine, f"sweep={sweep}").id)).trials:
        spec = TrialSpec.of(asked.spec)
        attempts = _attempts(engine, spec)
        if spec.read and attempts:
            to_read[spec.trial_id] = (_checked(spec, changes), attempts)
    trials: list[TrialAgain] = []
    for spec, attempts in to_read.values():
        trials += _read_trial(engine, spec, attempts)
    if not trials:
        raise StoreError(f"sweep {sweep}: no program of it has ended well, and left a log to read")
    if as_json:
        print_json(trials)
    else:
        rows = [list(map(for_people, astuple(trial))) for trial in trials]
        columns = ("trial", "attempts", "before", "now per s", "stays as it was because")
        print_columns(make_console(), columns, rows)
    if any(trial.kept for trial in trials):
        raise typer.Exit(1)


def _changes(settings: Sequence[str]) -> dict[str, Any]:
    """Return the axes of these settings. Raises StoreError."""
    changes: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.removeprefix("command.").partition("=")
        if name not in READING or not equals:
            raise StoreError(f"{setting}: wanted one of {', '.join(READING)}, as item=tokens")
        changes[name] = text
        if name == "per_gpu":
            if text not in ("true", "false"):
                raise StoreError(f"{setting}: wanted true or false")
            changes[name] = text == "true"
    return changes


def _attempts(engine: sa.Engine, spec: TrialSpec) -> list[Row]:
    """Return the attempts that ended well, of any sweep; deleted ones, too: they may come back."""
    asked = (
        sa.select(
            *(*AttemptRow.__table__.columns, RUN_DIR.label("folder"), MeasurementRow.throughput),
            EnvironmentRow.software_key,
        )
        .join(SweepRow, SweepRow.id == AttemptRow.sweep_id)
        .outerjoin(EnvironmentRow, EnvironmentRow.id == AttemptRow.environment_id)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(AttemptRow.trial_id == spec.trial_id)
        .where(AttemptRow.outcome.in_((Outcome.COMPLETED, Outcome.INVALID)))
        .order_by(AttemptRow.id)
    )
    with reading(engine) as connection:
        return [dict(row) for row in connection.execute(asked).mappings()]


def _checked(before: TrialSpec, changes: Mapping[str, Any]) -> TrialSpec:
    """Return the trial with another reading. Raises StoreError for one that cannot be."""
    try:
        spec = replace(before, **changes)
        open_reader(spec.read, spec.item)
        check(spec.axes)
    except (ValueError, ReadError) as error:
        raise StoreError(str(error)) from error
    return spec


def _read_trial(engine: sa.Engine, spec: TrialSpec, attempts: Sequence[Row]) -> list[TrialAgain]:
    """Read all attempts of a trial again, and store what they say. Returns it once for each version
    of its software, whose numbers are never mixed. Raises StoreError.
    """
    label = PlannedTrial(spec=spec, num_repeats=0).label
    results: list[_Again] = []
    why = ""
    for row in attempts:
        try:
            result, steps = _read_attempt(spec, RunFolder(Path(row["folder"])))
        except (ReadError, OSError, ValueError) as error:
            why = str(error)
            if row["throughput"] is not None:
                results.clear()
                break
        else:
            results.append((row, result, steps))
    if not results:
        return [TrialAgain(trial=label, attempts=0, kept=why)]
    with writing(engine) as connection:
        _store(connection, spec, results)
    _write_folders(engine, spec, results)
    again = []
    softwares = dict.fromkeys(row["software_key"] for row, _, _ in results)
    for software in softwares:
        own = [(row, result) for row, result, _ in results if row["software_key"] == software]
        before = [row["throughput"] for row, _ in own if row["throughput"] is not None]
        numbers = ", ".join(str(row["id"]) for row, _ in own)
        again.append(
            TrialAgain(
                trial=label if len(softwares) == 1 else f"{label}, attempts {numbers}",
                attempts=len(own),
                before=mean(before) if before else None,
                now=mean(result.measurement.throughput for _, result in own if result.measurement),
            )
        )
    return again


def _read_attempt(spec: TrialSpec, folder: RunFolder) -> tuple[AttemptResult, Sequence[StepSample]]:
    """Return what the log says now. Raises OSError, ReadError, ValueError without a number."""
    # by its name, as engines are started: what runs programs knows no database
    read_again = import_module("command.run").read_again
    if not folder.path.exists():
        raise ValueError(
            f"{folder.path} is not there: the run folder was moved or removed; put it back, or "
            "link it there"
        )
    if not folder.watched.exists():
        raise ValueError(f"{folder.watched} is not there: its whole log was not kept")
    result, steps = read_again(spec, folder)
    if result.measurement is None:
        raise ValueError(f"{folder.path}: {result.message.splitlines()[0]}")
    end = folder.read_ended()
    if end and end.result:  # what its orchestrator said against it still holds
        said = end.result
        result = replace(result, outcome=said.outcome, message=said.message, verdict=said.verdict)
    return result, steps


def _store(connection: sa.Connection, spec: TrialSpec, results: Sequence[_Again]) -> None:
    """Put results in the place of the earlier ones. Raises StoreError while the trial is run."""
    of_trial = RepeatRow.trial_id == spec.trial_id
    if ledger.exists(connection, (of_trial, RepeatRow.state.in_(IN_FLIGHT))):
        raise StoreError(f"trial {spec.trial_id[:8]} is being run; read it again once it has ended")
    update_trial(connection, spec)
    for row, result, steps in results:
        replace_measured(connection, row["id"], result, steps)
        stands = (
            of_trial,
            RepeatRow.sweep_id == row["sweep_id"],
            RepeatRow.repeat == row["repeat"],
            RepeatRow.num_attempts == row["attempt"],
            RepeatRow.state == row["outcome"],
        )
        ledger.change(connection, stands, State(result.outcome))


def _write_folders(engine: sa.Engine, spec: TrialSpec, results: Sequence[_Again]) -> None:
    """Write what `db rebuild` reads, of each sweep its trials first: from then on it takes no
    number of the earlier reading. Raises StoreError.
    """
    try:
        for row, result, steps in results:
            folder = RunFolder(Path(row["folder"]))
            sweep = read_sweep(engine, row["sweep_id"])
            folder.write(folder.path.parent / SWEEP_FILE, sweep.to_json())
            lines = [json.dumps(asdict(step)) + "\n" for step in steps]
            folder.write(folder.steps, "".join(lines))
            folder.write(folder.result, result.to_json())
            end = folder.read_ended()
            if end:
                end = replace(end, outcome=result.outcome, message=result.message, result=None)
                folder.write(folder.ended, end.to_json())
            folder.write(folder.trial, spec.to_json())
    except (OSError, ValueError) as error:
        raise StoreError(
            f"the numbers of trial {spec.trial_id[:8]} are stored, and its run folder keeps the "
            f"earlier ones: {error}"
        ) from error
