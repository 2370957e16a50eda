"""Gives every attempt and step as pandas frames, for programs that do statistics of their own;
`scalemark.open` has whole trials, with intervals and baselines. Nothing can be changed through it.

>>> import store.api
>>> db = store.api.open("results.db")
>>> db.attempts("model=resnet50", "num_gpus>=4")["throughput"].tolist()
[350.0, 370.0]

Filters are those of `python -m store list`. Deleted attempts are in no frame. Units stand in the
names of columns; times are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa

from scalemark.host.own_code import typed
from scalemark.records.attempt import unpack_steps
from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase
from scalemark.records.references import ORIGINS_OF_ATTEMPTS, Origin
from store.database import default_url, open_for_reading, own_command, reading
from store.errors import StoreError
from store.filters.selection import NOT_AXES, nearest, with_prefixes
from store.reading.listing import LISTABLE, listing, newest_first, origin_filter
from store.schema import AttemptRow, StepArraysRow, TrialRow, UtcDateTime
from store.trial_rows import free_columns


def open(url: str | None = None) -> Database:  # noqa: A001  # as store.api.open it shadows nothing
    """Open a file, a sqlite:/// or a postgresql:// URL; without one SCALEMARK_DB, that of
    the user's settings, else results.db.

    Raises StoreError when there is no such database, or it cannot be read.
    """
    return Database(open_for_reading(url or default_url()))


@dataclass(frozen=True, slots=True)
class Database:
    """A results database, open for reading."""

    engine: sa.Engine

    def attempts(self, *filters: str, origin: str | None = None) -> pd.DataFrame:
        """Return one row per attempt, oldest first, of one `origin`: measured or simulated; without
        it that of the newest sweep that matches.

        >>> frame = db.attempts("outcome=completed", "num_gpus=4")
        >>> frame[["model", "repeat", "throughput"]].values.tolist()
        [['resnet50', 1, 350.0], ['resnet50', 2, 370.0]]
        >>> db.attempts("outcome!=completed")[["model", "outcome"]].values.tolist()
        [['vgg16', 'failed']]

        | column | dtype | |
        |---|---|---|
        | attempt_id | int64 | as `python -m store show` takes it |
        | trial_id | category | all axes follow: category, float64, Int64 or boolean; int64 or bool
        where every trial has the axis |
        | sweep, origin | category | origin: where it was imported from, empty for our own |
        | repeat, attempt | int64 | counted from 1 within the sweep, and within the repeat |
        | outcome | category | `scalemark.records.outcomes.Outcome` |
        | shares_host | bool | others ran beside it |
        | started_at | datetime64[us, UTC] | |
        | duration_s | float64 | |
        | num_measured_steps | Int64 | |
        | throughput, .._low, .._high | float64 | of all replicas; 95 % CI within the attempt |
        | median_step_s, jitter_s, p90_step_s, time_to_first_step_s | float64 | |
        | data_wait_share | float64 | 0..1 |
        | cores_taken_by_others | float64 | |
        | steady | boolean | |
        | peak_host_memory_bytes, peak_device_memory_bytes | Int64 | |
        | mfu, peak_flops_per_s | float64 | 0..1; of one device, that mfu was divided by |
        | variable_bytes, optimizer_state_bytes | Int64 | largest of any device |
        | verdict | category | `scalemark.records.outcomes.Verdict` |
        | item | category | what is counted per second: images, tokens |
        | machine, host, cpu, gpu, driver | category | machine: the key that identifies it |
        | software_key, tensorflow, keras, scalemark, revision | category | may be missing |

        Where there is no measurement its columns are missing (NaN or NA). All other columns there
        are: `python -m store list --columns ... --format csv`. Raises StoreError for a filter
        or an origin that is none.
        """
        with reading(self.engine) as connection:
            named = with_prefixes(connection, filters)
        if origin:
            named.append(origin_filter(_origin(origin)))
        else:
            newest = list(newest_first(self.engine, named))
            named += map(origin_filter, newest[:1])
        return self.attempts_of_all_origins(*named)

    def attempts_of_all_origins(self, *filters: str) -> pd.DataFrame:
        """Return as `attempts` measured and simulated ones together; `device_kind` tells them
        apart.
        """
        with reading(self.engine) as connection:
            named = with_prefixes(connection, filters)
            free = free_columns(connection)
        names = ["attempt", "trial_id", *_AXES, *free, "sweep", "origin", *_OF_ATTEMPTS]
        statement = listing(self.engine, named, columns=names)
        statement = statement.add_columns(AttemptRow.attempt.label("_attempt"))
        columns = {**LISTABLE, **free, "_attempt": AttemptRow.attempt.expression}
        dtypes = {name: _dtype(columns[name]) for name in [*names, "_attempt"]}
        try:
            with reading(self.engine) as connection:
                frame = pd.read_sql(statement, connection, dtype=dtypes)
        except pd.errors.DatabaseError as error:  # pandas wraps what the driver raises
            raise error.__cause__ or error from error
        frame = frame.rename(columns={"attempt": "attempt_id", "_attempt": "attempt"})
        number = frame.pop("attempt")
        frame.insert(list(frame).index("repeat") + 1, "attempt", number)
        return frame

    def steps(self, attempt: int) -> pd.DataFrame:
        """Return one row per call of the training function of this attempt, in order; none when it
        never stepped.

        >>> db.steps(1)[["step", "phase", "duration_s"]].values.tolist()
        [[0, 'warm_up', 0.2], [1, 'measure', 0.1], [2, 'measure', 0.1]]

        | column | dtype | |
        |---|---|---|
        | step | int64 | its first, counted from 0 |
        | phase | category | warm_up or measure |
        | start_s | float64 | since the first began |
        | duration_s, data_wait_s | float64 | waiting for data is a part of the duration |
        | loss | float64 | NaN where it was not finite |
        | num_steps | int64 | training steps in the call |

        Raises StoreError when there is no such attempt, or it is deleted.
        """
        with reading(self.engine) as connection:
            deleted_at = sa.select(AttemptRow.deleted_at).where(AttemptRow.id == attempt)
            known = connection.execute(deleted_at).first()
            if known is None:
                listing = own_command(self.engine, "store", "list")
                raise StoreError(f"{attempt}: no such attempt; see `{listing}`")
            if known.deleted_at is not None:
                raise StoreError(
                    f"{attempt}: deleted; `{typed('store')} restore {attempt}` brings it back"
                )
            statement = sa.select(StepArraysRow.__table__).where(
                StepArraysRow.attempt_id == attempt
            )
            row = connection.execute(statement).mappings().first()
        steps = unpack_steps(dict(row)) if row else []
        columns = {name: [getattr(step, name) for step in steps] for name in _STEP_DTYPES}
        return pd.DataFrame(
            {name: pd.Series(cells, dtype=_STEP_DTYPES[name]) for name, cells in columns.items()}
        )


def _origin(text: str) -> Origin:
    if text not in ORIGINS_OF_ATTEMPTS:
        wanted = nearest(text[:100], ORIGINS_OF_ATTEMPTS)
        raise StoreError(f"origin={text[:100]!r}: {wanted}")
    return Origin(text)


# of trials; their item gives way to what attempts counted
_AXES = [
    column.name for column in TrialRow.__table__.columns if column.name not in (*NOT_AXES, "item")
]
_OF_ATTEMPTS = (
    *("repeat", "outcome", "shares_host", "started_at", "duration_s", "num_measured_steps"),
    *("throughput", "throughput_low", "throughput_high", "median_step_s", "jitter_s"),
    *("p90_step_s", "steady", "time_to_first_step_s", "data_wait_share", "cores_taken_by_others"),
    *("peak_host_memory_bytes", "peak_device_memory_bytes", "mfu", "peak_flops_per_s"),
    *("variable_bytes", "optimizer_state_bytes", "verdict", "item", "machine", "host", "cpu"),
    *("gpu", "driver", "software_key", "tensorflow", "keras", "scalemark", "revision"),
)
_ALWAYS_THERE = ("attempts", "trials", "sweeps", "machines")


def _dtype(column: Any) -> str:
    kind = column.type
    may_lack = column.nullable or column.table.name not in _ALWAYS_THERE
    if isinstance(kind, sa.Boolean):
        return "boolean" if may_lack else "bool"
    if isinstance(kind, sa.Integer):
        return "Int64" if may_lack else "int64"
    if isinstance(kind, sa.Float):
        return "float64"
    return "datetime64[us, UTC]" if isinstance(kind, UtcDateTime) else "category"


_PHASES = pd.CategoricalDtype([str(phase) for phase in Phase])
_STEP_DTYPES: dict[str, Any] = {
    field.name: {"int": np.int64, "str": _PHASES}.get(str(field.type), np.float64)
    for field in fields(StepSample)
}
