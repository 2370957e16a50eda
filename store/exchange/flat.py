"""Attempts as rows of one table, and back without loss: what is nested is JSON in a cell of its
own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from enum import Enum, auto
from itertools import islice
from math import isfinite
from typing import Any, TypeVar

from scalemark.records import step_arrays
from scalemark.records.measurement import Measurement, StepSample
from scalemark.records.outcomes import Phase
from scalemark.records.strategies import strategy_name
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import build, canonical, parsed
from store.exchange.portable import VERSION, PackedSteps, PortableAttempt, from_told, pack
from store.finished_attempt import environment_values

Cell = str | int | float | bool | datetime | None
Row = dict[str, Cell]


class Kind(Enum):
    """What a cell of a column holds."""

    TEXT = auto()
    WHOLE = auto()
    NUMBER = auto()
    TRUTH = auto()
    TIME = auto()
    JSON = auto()


_BY_TYPE = {"str": Kind.TEXT, "int": Kind.WHOLE, "float": Kind.NUMBER, "bool": Kind.TRUTH}
_KINDS = _BY_TYPE | {f"{name} | None": kind for name, kind in _BY_TYPE.items()}

_AXES = {field.name: _KINDS[str(field.type)] for field in fields(TrialSpec)}
_MEASURED = {
    f"measured_{field.name}" if field.name in _AXES else field.name: (
        field.name,
        _KINDS[str(field.type)],
    )
    for field in fields(Measurement)
}
"""Column -> name and kind: `num_steps` is what was asked for, `measured_num_steps` what was
measured.
"""

_TOLD: dict[str, Kind] = {
    "sweep_uid": Kind.TEXT,
    "sweep": Kind.TEXT,
    "sweep_reason": Kind.TEXT,
    "sweep_command": Kind.TEXT,
    "sweep_started_at": Kind.TIME,
    "sweep_finished_at": Kind.TIME,
    "sweep_run_dir": Kind.TEXT,
    "sweep_origin": Kind.TEXT,
    "position": Kind.WHOLE,
    "trial_id": Kind.TEXT,
    "repeat": Kind.WHOLE,
    "repeat_state": Kind.TEXT,
    "repeat_reason": Kind.TEXT,
    "repeat_num_attempts": Kind.WHOLE,
    "attempt": Kind.WHOLE,
    "outcome": Kind.TEXT,
    "message": Kind.TEXT,
    "exit_code": Kind.WHOLE,
    "run_dir": Kind.TEXT,
    "started_at": Kind.TIME,
    "duration_s": Kind.NUMBER,
    "deleted_at": Kind.TIME,
    "verdict": Kind.TEXT,
}
_NESTED = ("spec", "machine", "environment", "placement", "changes", "tags", "notes")
_NESTED_MEASURED = {
    name: name for name in ("op_placement", "verdict_reasons", "gpu_telemetry", "truth")
} | {"profile_summary": "profile"}
"""Column -> name: `profile` is whether one was asked for."""

_FOLLOWS: dict[str, Kind] = {
    "strategy": Kind.TEXT,
    **_AXES,
    "host": Kind.TEXT,
    "cpu": Kind.TEXT,
    "gpu": Kind.TEXT,
    "machine_num_gpus": Kind.WHOLE,
    "driver": Kind.TEXT,
    "python": Kind.TEXT,
    "tensorflow": Kind.TEXT,
    "keras": Kind.TEXT,
    "scalemark": Kind.TEXT,
    "revision": Kind.TEXT,
    "software_key": Kind.TEXT,
    "shares_host": Kind.TRUTH,
}
"""What follows from the nested cells: for who reads the table. It may be missing, but not
contradict them.
"""

COLUMNS: dict[str, Kind] = {
    **_TOLD,
    **_FOLLOWS,
    **{name: kind for name, (_, kind) in _MEASURED.items()},
    **dict.fromkeys((*_NESTED, *_NESTED_MEASURED), Kind.JSON),
}
REQUIRED = frozenset(COLUMNS) - frozenset(_FOLLOWS)

STEP_COLUMNS: dict[str, Kind] = {
    "sweep_uid": Kind.TEXT,
    "trial_id": Kind.TEXT,
    "repeat": Kind.WHOLE,
    "attempt": Kind.WHOLE,
    "step": Kind.WHOLE,
    "phase": Kind.TEXT,
    "start_s": Kind.NUMBER,
    "duration_s": Kind.NUMBER,
    "data_wait_s": Kind.NUMBER,
    "loss": Kind.NUMBER,
    "num_steps": Kind.WHOLE,
    "loss_unit": Kind.NUMBER,  # to which losses were rounded
    "time_unit_us": Kind.WHOLE,  # and times
}

_MOST_CALLS = 1_000_000  # of one attempt: a few kilobytes of Parquet may tell of many more

_Number = TypeVar("_Number", int, float)
Identity = tuple[str, str, int, int]


def row_of(attempt: PortableAttempt) -> Row:
    """Every column, in its order."""
    sweep, repeat, measured = attempt.sweep, attempt.repeat, attempt.measured
    told: dict[str, Any] = {
        name: getattr(attempt, name) for name in _TOLD if hasattr(attempt, name)
    }
    told |= {
        f"sweep_{field.name}": getattr(sweep, field.name)
        for field in fields(sweep)
        if field.name != "name"
    }
    told |= {
        "sweep": sweep.name,
        "repeat": repeat.number,
        "repeat_state": repeat.state,
        "repeat_reason": repeat.reason,
    }
    told |= {
        "repeat_num_attempts": repeat.num_attempts,
        "verdict": measured.verdict if measured else None,
    }
    told |= _following(attempt)
    told |= {
        column: measured.measurement[name] if measured else None
        for column, (name, _) in _MEASURED.items()
    }
    nested: dict[str, Any] = {name: getattr(attempt, name, None) for name in _NESTED}
    nested |= {"spec": json.loads(attempt.spec.to_json()), "changes": repeat.changes}
    nested |= {column: getattr(measured, name, None) for column, name in _NESTED_MEASURED.items()}
    told |= {name: None if value is None else canonical(value) for name, value in nested.items()}
    return {name: told[name] for name in COLUMNS}


def attempt_of(row: Mapping[str, Cell], steps: PackedSteps | None) -> PortableAttempt:
    """Inverse of `row_of`. Raises ValueError, with the reason, for whatever no attempt can be."""
    told: dict[str, Any] = {name: row[name] for name in _TOLD if name in _OWN}
    for name in (*_NESTED, *_NESTED_MEASURED):
        told[name] = _parsed(name, row.get(name))
    sweep = {name: row[f"sweep_{name}"] for name in _OF_SWEEP} | {"name": row["sweep"]}
    repeat = {name: row[f"repeat_{name}"] for name in ("state", "reason", "num_attempts")}
    repeat |= {"number": row["repeat"], "changes": told.pop("changes")}
    measurement = {name: row.get(column) for column, (name, _) in _MEASURED.items()}
    measured: dict[str, Any] = {
        name: told.pop(column) for column, name in _NESTED_MEASURED.items()
    } | {"verdict": row["verdict"]}
    is_measured = measured["op_placement"] is not None
    if not is_measured and any(
        value is not None for value in (*measurement.values(), *measured.values())
    ):
        raise ValueError("op_placement is empty, and there is a measurement; wanted both or none")
    told |= {
        "sweep": sweep,
        "repeat": repeat,
        "measured": measured | {"measurement": measurement} if is_measured else None,
    }
    found = from_told(told | {"steps": steps, "scalemark": VERSION, "kind": "attempt"})
    assert isinstance(found, PortableAttempt)
    following = _following(found)
    for name in _FOLLOWS:
        if name in row and row[name] != following[name]:
            raise ValueError(
                f"{name}={row[name]}: the other cells tell of {following[name]}; change "
                "both, or leave the column out"
            )
    return found


def _parsed(name: str, cell: Cell) -> Any:
    if cell is None or cell == "":
        return None
    if not isinstance(cell, str):
        raise ValueError(f"{name}={str(cell)[:60]}: wanted JSON as text")
    return parsed(cell)


_OWN = frozenset(field.name for field in fields(PortableAttempt)) - {"sweep", "repeat"}
_OF_SWEEP = ("uid", "reason", "command", "started_at", "finished_at", "run_dir", "origin")


def step_rows(attempt: PortableAttempt) -> Iterator[Row]:
    """A row per call of the training function."""
    if attempt.steps is None:
        return
    sweep_uid, trial_id, repeat, number = attempt.identity
    of_attempt: Row = {
        "sweep_uid": sweep_uid,
        "trial_id": trial_id,
        "repeat": repeat,
        "attempt": number,
    }
    units: Row = {"loss_unit": attempt.steps.loss_unit, "time_unit_us": attempt.steps.time_unit_us}
    for step in step_arrays.unpack(attempt.steps.columns()):
        told: Row = {field.name: getattr(step, field.name) for field in fields(step)}
        told["phase"] = Phase(step.phase).value
        yield of_attempt | {name: told[name] for name in STEP_COLUMNS if name in told} | units


def packed_steps(rows: Iterable[Row]) -> PackedSteps | None:
    """Of the rows of one attempt. Raises ValueError for what no attempt's steps can be."""
    told = list(islice(rows, _MOST_CALLS + 1))
    if len(told) > _MOST_CALLS:
        raise ValueError(f"more than {_MOST_CALLS:,} calls; wanted no more")
    steps = [_sample({name: row[name] for name in _OF_A_STEP}) for row in told]
    return pack(steps, _unit(told, "loss_unit", float), _unit(told, "time_unit_us", int))


def _unit(rows: Sequence[Row], name: str, wanted: type[_Number]) -> _Number | None:
    """The one that all rows tell; none where none tells any."""
    units = {row[name] for row in rows}
    if len(units) > 1:
        raise ValueError(f"steps: {name} is {' and '.join(map(str, units))}; wanted one")
    (unit,) = units or {None}
    if unit is None:
        return None
    if not (isinstance(unit, wanted) and 0 < unit < float("inf")):
        raise ValueError(f"steps: {name}={unit}: wanted a finite number greater than 0")
    return unit


_OF_A_STEP = {
    field.name: {"str": str, "int": int, "float": float}.get(str(field.type))
    for field in fields(StepSample)
}
"""Name -> type; None of the loss, which may be missing."""


def _sample(told: dict[str, Any]) -> StepSample:
    """There are millions of them: what is of the right types is looked at by `pack` alone."""
    if all(
        type(value) is kind or kind is None
        for value, kind in zip(told.values(), _OF_A_STEP.values(), strict=True)
    ):
        loss = told["loss"]
        if loss is None or (type(loss) is float and isfinite(loss)):
            return StepSample(**told)
    return build(StepSample, told, f"step {told['step']}")


def _following(attempt: PortableAttempt) -> dict[str, Any]:
    spec, machine = attempt.spec, attempt.machine
    told: dict[str, Any] = {name: getattr(spec, name) for name in _AXES}
    told["strategy"] = strategy_name(
        spec.variable_update, spec.local_parameter_device, spec.all_reduce
    )
    told |= {
        "host": machine.host,
        "cpu": machine.cpu,
        "driver": machine.driver,
        "machine_num_gpus": len(machine.gpus),
    }
    told |= {
        "gpu": machine.gpus[0].name if machine.gpus else "",
        "shares_host": attempt.placement.shares_host,
    }
    names = ("python", "tensorflow", "keras", "scalemark", "revision", "software_key")
    values = environment_values(attempt.environment) if attempt.environment else {}
    return told | {name: values.get(name) for name in names}
