"""Writes attempts for other programs, as CSV or Parquet by pandas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from scalemark.text.untrusted import masked
from scalemark.text.wording import guarded
from store.database import open_for_reading, reading
from store.errors import StoreError
from store.filters import NOT_AXES
from store.reading.listing import LISTABLE, full_names, listing
from store.reading.queries import columns_of
from store.schema import AttemptRow, TrialRow, UtcDateTime
from store.trial_rows import free_columns

if TYPE_CHECKING:
    import pandas as pd

# of trials; their item gives way to what attempts counted
_AXES = [
    column.name for column in TrialRow.__table__.columns if column.name not in (*NOT_AXES, "item")
]
_TAGS = (
    *("attempt_id", "trial_id", "sweep", "origin", "repeat", "attempt", "outcome", "verdict"),
    *("shares_host", "machine", "host", "cpu", "gpu", "driver", "software_key"),
    *("tensorflow", "keras", "scalemark", "revision"),
)
_MEASURED = (
    *("throughput", "throughput_low", "throughput_high", "median_step_s", "jitter_s"),
    *("p90_step_s", "time_to_first_step_s", "duration_s", "num_measured_steps", "data_wait_share"),
    *("cores_taken_by_others", "steady", "peak_host_memory_bytes", "peak_device_memory_bytes"),
    *("mfu", "peak_flops_per_s", "variable_bytes", "optimizer_state_bytes"),
)
_ALWAYS_THERE = ("attempts", "trials", "sweeps", "machines")


class ExportFormat(StrEnum):
    """The formats that are written."""

    CSV = "csv"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The attempts that were written, and where to."""

    num_attempts: int
    path: str


def export(url: str, out: str, wanted: ExportFormat, filters: Sequence[str] = ()) -> Exported:
    """Write all attempts that count, or those that the filters choose: measured and simulated ones,
    which `device_kind` tells apart.

    Raises StoreError when the file exists, or cannot be written.
    """
    engine = open_for_reading(url)
    try:
        frame = attempts(engine, filters)
    finally:
        engine.dispose()
    _write(frame, out, wanted)
    return Exported(num_attempts=len(frame), path=out)


def attempts(engine: sa.Engine, filters: Sequence[str] = ()) -> pd.DataFrame:
    """Return a row for each attempt that the filters choose, oldest first, with all axes. The types
    of columns do not depend on what is in them.
    """
    import pandas as pd  # here, because it takes longer to import than most commands take

    named = full_names(engine, filters)
    with reading(engine) as connection:
        free = free_columns(connection)
    names = ["attempt_id", "trial_id", *_AXES, *free]
    names += ["sweep", "origin", "repeat", "attempt", "outcome", "item", "started_at", *_MEASURED]
    names += [name for name in _TAGS if name not in names]
    columns = {**LISTABLE, **free}
    columns |= columns_of(AttemptRow, "attempt")
    columns["attempt_id"] = LISTABLE["attempt"]
    statement = listing(engine, named, columns=["trial_id"])
    statement = statement.with_only_columns(*(columns[name].label(name) for name in names))
    dtypes = {name: _dtype(columns[name]) for name in names}
    try:
        with reading(engine) as connection:
            return pd.read_sql(statement, connection, dtype=dtypes)
    except pd.errors.DatabaseError as error:  # pandas wraps what the driver raises
        raise error.__cause__ or error from error


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


def _write(frame: pd.DataFrame, out: str, wanted: ExportFormat) -> None:
    if "://" in out:
        raise StoreError(f"{masked(out)}: a URL; wanted a file to write to")
    path, draft = Path(out), Path(f"{out}.draft")
    for there in (path, draft):
        if there.exists():
            raise StoreError(
                f"{there}: it is there already; remove it, or give another file with --out"
            )
    try:
        if wanted is ExportFormat.PARQUET:
            frame.to_parquet(draft, index=False)
        else:
            for name in frame.select_dtypes(["category", "object"]):
                frame[name] = frame[name].astype("object").map(_csv_cell)
            frame.to_csv(draft, index=False, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"{out}: {why}; give another file with --out") from error
    finally:
        draft.unlink(missing_ok=True)


def _csv_cell(value: object) -> object:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    return guarded(value) if isinstance(value, str) else value
