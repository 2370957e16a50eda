"""Reads the columns that pandas frames of attempts are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa

from store.filters.selection import attempt_ids, deleted_at
from store.reading.columns import Kind, fetch, kind_of
from store.schema import AttemptRow, EnvironmentRow, MachineRow, MeasurementRow, SweepRow

_ATTEMPT = ("repeat", "attempt", "outcome", "shares_host", "started_at", "duration_s")
_MEASUREMENT = (
    *("throughput", "throughput_low", "throughput_high", "median_step_s", "jitter_s", "p90_step_s"),
    *("steady", "time_to_first_step_s", "data_wait_share", "cores_taken_by_others"),
    *("peak_host_memory_bytes", "peak_device_memory_bytes", "mfu", "peak_flops_per_s"),
    *("variable_bytes", "optimizer_state_bytes", "verdict", "item"),
)
ALL = ("attempt_id", *_ATTEMPT, "num_measured_steps", *_MEASUREMENT)

_COLUMNS: Mapping[str, tuple[Any, Kind]] = {
    "attempt_id": (AttemptRow.id, Kind.WHOLE),
    "trial_id": (AttemptRow.trial_id, Kind.WORDS),
    "sweep_id": (AttemptRow.sweep_id, Kind.WHOLE),
    "machine_id": (AttemptRow.machine_id, Kind.WHOLE),
    "environment_id": (AttemptRow.environment_id, Kind.NUMBERS),
    **{name: (column := AttemptRow.__table__.columns[name], kind_of(column)) for name in _ATTEMPT},
    "num_measured_steps": (MeasurementRow.num_steps, Kind.MAYBE_WHOLE),
    **{
        name: (column := MeasurementRow.__table__.columns[name], kind_of(column, optional=True))
        for name in _MEASUREMENT
    },
}


def read_attempts(
    connection: sa.Connection, names: Sequence[str], which: sa.ColumnElement[bool]
) -> dict[str, Any]:
    """Return these columns of the attempts for which `which` holds, oldest first, and the numbers
    of what else belongs to them.
    """
    chosen = dict.fromkeys(["trial_id", "sweep_id", "machine_id", "environment_id", *names])
    statement = (
        sa.select(*(_COLUMNS[name][0].label(name) for name in chosen))
        .select_from(AttemptRow)
        .outerjoin(MeasurementRow, MeasurementRow.attempt_id == AttemptRow.id)
        .where(which)
        .order_by(AttemptRow.id)
    )
    return fetch(connection, statement, {name: _COLUMNS[name][1] for name in chosen})


def chosen_by(filters: Sequence[str]) -> sa.ColumnElement[bool]:
    """Choose attempts that count, for which all filters hold."""
    return AttemptRow.id.in_(attempt_ids(filters)) if filters else deleted_at(False)


_SOFTWARE = ("software_key", "tensorflow", "keras", "scalemark", "revision")
_OTHERS: Mapping[str, tuple[type[Any], Mapping[str, Any]]] = {
    "sweep_id": (SweepRow, {"sweep": SweepRow.name, "origin": SweepRow.origin}),
    "machine_id": (
        MachineRow,
        {"machine": MachineRow.key}
        | {name: MachineRow.__table__.columns[name] for name in ("host", "cpu", "gpu", "driver")},
    ),
    "environment_id": (
        EnvironmentRow,
        {name: EnvironmentRow.__table__.columns[name] for name in _SOFTWARE},
    ),
}


def read_others(connection: sa.Connection, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words that sweep_id, machine_id and environment_id refer to."""
    found: dict[str, Any] = {}
    for id_name, (table, columns) in _OTHERS.items():
        statement = sa.select(
            table.id.label("id"), *(column.label(name) for name, column in columns.items())
        )
        reported = fetch(
            connection, statement, {"id": Kind.WHOLE} | dict.fromkeys(columns, Kind.WORDS)
        )
        found |= _looked_up(reported, numbers[id_name], columns)
    return found


def _looked_up(reported: Mapping[str, Any], ids: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return None where there is no id."""
    places = pd.Index(reported["id"]).get_indexer(
        pd.Index(np.nan_to_num(ids, nan=-1).astype(np.int64))
    )
    # -1 takes the last: none
    codes = {name: np.append(reported[name].codes, -1).take(places) for name in names}
    return {
        name: pd.Categorical.from_codes(codes[name], dtype=reported[name].dtype) for name in names
    }
