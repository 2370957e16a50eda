"""Makes rows of one table of attempts: what is nested is JSON in a cell of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from enum import Enum, auto
from typing import Any

import sqlalchemy as sa

from scalemark.records import step_arrays
from scalemark.records.measurement import Measurement, StepSample
from scalemark.records.outcomes import Phase
from scalemark.records.trial import AXES
from scalemark.records.validation import canonical
from store import trial_rows
from store.exchange.portable import OF_AN_ATTEMPT, PortableAttempt, PortableRepeat, SweepHead
from store.finished_attempt import environment_values

Cell = str | int | float | bool | datetime | None
Row = dict[str, Cell]


class Kind(Enum):
    """The type of a column."""

    TEXT = auto()
    WHOLE = auto()
    NUMBER = auto()
    TRUTH = auto()
    TIME = auto()
    JSON = auto()


_KINDS = {
    "str": Kind.TEXT,
    "int": Kind.WHOLE,
    "float": Kind.NUMBER,
    "bool": Kind.TRUTH,
    "datetime": Kind.TIME,
}


def _kinds(record: type[Any], names: Sequence[str] = ()) -> dict[str, Kind]:
    """Return the fields of a record, or those that are named, with their kinds."""
    kinds = {}
    for field in fields(record):
        if not names or field.name in names:
            kinds[field.name] = _KINDS[str(field.type).removesuffix(" | None")]
    return kinds


_SWEEP = {
    "sweep" if name == "name" else f"sweep_{name}": (name, kind)
    for name, kind in _kinds(SweepHead).items()
}
_REPEAT = {
    "repeat" if name == "number" else f"repeat_{name}": (name, kind)
    for name, kind in _kinds(PortableRepeat, ("number", "state", "reason", "num_attempts")).items()
}
_ATTEMPT = _kinds(PortableAttempt, ("position", *OF_AN_ATTEMPT))
# the item is the measured one; what a program was said to count is in the spec
_AXES = {axis.name: _KINDS[axis.type.__name__] for axis in AXES.values() if axis.name != "item"}
# `num_steps` is what was asked for, `measured_num_steps` what was measured
_MEASURED = {
    f"measured_{name}" if name in _AXES else name: (name, kind)
    for name, kind in _kinds(Measurement).items()
}
_MACHINE = ("host", "cpu", "driver")
_SOFTWARE = ("python", "tensorflow", "keras", "scalemark", "revision", "software_key")
_NESTED = ("spec", "machine", "environment", "placement", "changes", "tags", "notes")
# `profile` is whether one was asked for
_NESTED_MEASURED = {
    "op_placement": "op_placement",
    "verdict_reasons": "verdict_reasons",
    "gpu_telemetry": "gpu_telemetry",
    "truth": "truth",
    "metrics": "metrics",
    "profile_summary": "profile",
    "replica_seconds": "replica_times",  # `replica_times` is whether they were asked for
}

COLUMNS: dict[str, Kind] = {
    **{column: kind for column, (_, kind) in (_SWEEP | _REPEAT).items()},
    **_ATTEMPT,
    "verdict": Kind.TEXT,
    # what follows from the nested cells, for readers of the table
    "strategy": Kind.TEXT,
    **_AXES,
    **dict.fromkeys((*_MACHINE, "gpu", *_SOFTWARE), Kind.TEXT),
    "machine_num_gpus": Kind.WHOLE,
    "shares_host": Kind.TRUTH,
    **{column: kind for column, (_, kind) in _MEASURED.items()},
    **dict.fromkeys((*_NESTED, *_NESTED_MEASURED), Kind.JSON),
}

STEP_COLUMNS: dict[str, Kind] = {
    "sweep_uid": Kind.TEXT,
    "trial_id": Kind.TEXT,
    "repeat": Kind.WHOLE,
    "attempt": Kind.WHOLE,
    **_kinds(StepSample),
}


def free_columns(connection: sa.Connection) -> dict[str, Kind]:
    """Return the columns of the free axes of a database, which follow the others."""
    found = {}
    for name, column in trial_rows.free_columns(connection).items():
        found[name] = _KINDS[column.type.python_type.__name__]
    return found


def row_of(attempt: PortableAttempt, free: Mapping[str, Kind]) -> Row:
    """Return every column, in its order, those of these free axes last."""
    spec, machine, measured = attempt.spec, attempt.machine, attempt.measured
    row: dict[str, Any] = {name: getattr(attempt, name) for name in _ATTEMPT}
    row |= {column: getattr(attempt.sweep, name) for column, (name, _) in _SWEEP.items()}
    row |= {column: getattr(attempt.repeat, name) for column, (name, _) in _REPEAT.items()}
    axes = spec.axes
    row |= {name: axes[name] for name in _AXES}
    row |= {name: getattr(machine, name) for name in _MACHINE}
    software = environment_values(attempt.environment) if attempt.environment else {}
    row |= {name: software.get(name) for name in _SOFTWARE}
    row |= {
        "strategy": spec.strategy,
        "gpu": machine.gpus[0].name if machine.gpus else "",
        "machine_num_gpus": len(machine.gpus),
        "shares_host": attempt.placement.shares_host,
        "verdict": measured.verdict if measured else None,
    }
    for column, (name, _) in _MEASURED.items():
        row[column] = measured.measurement[name] if measured else None
    nested: dict[str, Any] = {name: getattr(attempt, name, None) for name in _NESTED}
    nested |= {"spec": json.loads(spec.to_json()), "changes": attempt.repeat.changes}
    nested |= {column: getattr(measured, name, None) for column, name in _NESTED_MEASURED.items()}
    for column, value in nested.items():
        row[column] = None if value is None else canonical(value)
    for name, kind in free.items():
        value = axes.get(name)
        row[name] = str(value) if kind is Kind.TEXT and value is not None else value
    return {name: row[name] for name in (*COLUMNS, *free)}


def step_rows(attempt: PortableAttempt) -> Iterator[Row]:
    """Yield a row per call of the training function."""
    if attempt.steps is None:
        return
    sweep_uid, trial_id, repeat, number = attempt.identity
    for step in step_arrays.unpack(attempt.steps.columns()):
        row: dict[str, Any] = {name: getattr(step, name, None) for name in STEP_COLUMNS}
        row |= {"sweep_uid": sweep_uid, "trial_id": trial_id, "repeat": repeat, "attempt": number}
        yield row | {"phase": Phase(step.phase).value}
