"""Writes attempts for other programs: as CSV or Parquet by pandas, or as runs of MLflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from scalemark.records.references import ORIGINS_OF_ATTEMPTS
from scalemark.text.untrusted import masked
from scalemark.text.wording import guarded
from store.errors import StoreError

if TYPE_CHECKING:
    import pandas as pd

    from store import api


class ExportFormat(StrEnum):
    """The formats that are written."""

    CSV = "csv"
    PARQUET = "parquet"
    MLFLOW = "mlflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The attempts that were written, and where to."""

    num_attempts: int
    path: str


def export(
    url: str,
    out: str,
    wanted: ExportFormat,
    filters: Sequence[str] = (),
    *,
    experiment: str = "scalemark",
) -> Exported:
    """Write all attempts that count, or those that the filters choose. `out` is a file, of MLflow
    its tracking URI.

    Raises StoreError when the file exists, or cannot be written.
    """
    from store import api  # here, because pandas takes longer to import than most commands take

    database = api.open(url)
    try:
        frame = _attempts(database, filters)
        if wanted is ExportFormat.MLFLOW:
            from store.exchange import mlflow_runs  # here, because MLflow is an optional extra

            mlflow_runs.export(frame, database.steps, tracking_uri=out, experiment=experiment)
        else:
            _write(frame, out, wanted)
    finally:
        database.engine.dispose()
    return Exported(num_attempts=len(frame), path=masked(out))


def _attempts(database: api.Database, filters: Sequence[str]) -> pd.DataFrame:
    """Return measured and simulated attempts; `device_kind` tells them apart."""
    import pandas as pd

    frames = [database.attempts(*filters, origin=origin) for origin in ORIGINS_OF_ATTEMPTS]
    frame = pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)
    return frame.sort_values("attempt_id", ignore_index=True)


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
        if wanted is ExportFormat.CSV:
            texts = [name for name in frame if frame[name].dtype in ("category", "object")]
            plain = frame.astype(dict.fromkeys(texts, "object"))
            for name in texts:  # text that a spreadsheet would take for a formula
                plain[name] = plain[name].map(_cell)
            plain.to_csv(draft, index=False, encoding="utf-8")
        else:
            frame.to_parquet(draft, index=False)
        draft.replace(path)
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"{out}: {why}; give another file with --out") from error
    finally:
        draft.unlink(missing_ok=True)


def _cell(value: object) -> object:
    return guarded(value) if isinstance(value, str) else value
