"""Makes rows of one table of attempts: what is nested is JSON in a cell of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from enum import Enum, auto
from typing import Any

from scalemark.records import step_arrays
from scalemark.records.measurement import Measurement
from scalemark.records.outcomes import Phase
from scalemark.records.strategies import strategy_name
from scalemark.records.trial import AXES
from scalemark.records.validation import canonical
from store.exchange.portable import PortableAttempt
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

_AXES = {axis.name: _BY_TYPE[axis.type.__name__] for axis in AXES.values()}
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
"""What follows from the nested cells, for readers of the table."""

COLUMNS: dict[str, Kind] = {
    **_TOLD,
    **_FOLLOWS,
    **{name: kind for name, (_, kind) in _MEASURED.items()},
    **dict.fromkeys((*_NESTED, *_NESTED_MEASURED), Kind.JSON),
}

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
}


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
    for step in step_arrays.unpack(attempt.steps.columns()):
        told: Row = {field.name: getattr(step, field.name) for field in fields(step)}
        told["phase"] = Phase(step.phase).value
        yield of_attempt | {name: told[name] for name in STEP_COLUMNS if name in told}


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
