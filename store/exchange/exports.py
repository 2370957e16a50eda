"""Writes a database, or a selection of its attempts, in a format that others read: all or nothing,
never over what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.cli.progress import Progress, silent
from scalemark.records import step_arrays
from scalemark.records.measurement import StepSample
from scalemark.records.references import Rejected
from scalemark.text.redact import masked
from store.database import locate, open_for_reading, open_for_writing, reading, writing
from store.errors import StoreError
from store.exchange import flat, tables
from store.exchange.bulk import Bulk
from store.exchange.portable import Portable, PortableAttempt, to_json
from store.exchange.portable_rows import PortableRows, Selection, database_id
from store.filters.selection import attempt_ids
from store.formats import extrap
from store.rows import digest
from store.schema import AttemptRow, InfoRow
from store.sqlite import remove_file


class ExportFormat(StrEnum):
    """The formats that are written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    SQLITE = "sqlite"
    MLFLOW = "mlflow"
    EXTRAP = "extrap"


@dataclass(slots=True)
class Exported:
    """The attempts that were written, and the rows that could not be."""

    num_attempts: int = 0
    paths: list[str] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)  # damaged rows


_WITHOUT_DELETED = (ExportFormat.MLFLOW, ExportFormat.EXTRAP)
_Write = Callable[[Path, Mapping[str, flat.Kind], Iterable[flat.Row]], None]
_TABLES: dict[ExportFormat, _Write] = {
    ExportFormat.CSV: tables.write_csv,
    ExportFormat.PARQUET: tables.write_parquet,
}


def export(
    url: str,
    out: str,
    wanted: ExportFormat,
    *,
    ids: Selection | None = None,
    with_steps: bool = False,
    experiment: str = "scalemark",
    progress: Progress = silent,
) -> Exported:
    """Write all, or the selected attempts with what is around them. `out` is a file, of MLflow its
    tracking URI.

    All includes the deleted ones, except for MLflow and Extra-P, which cannot mark them. In csv and
    parquet steps are in a file of their own. Raises StoreError when the file exists, or cannot be
    written.
    """
    if "://" in out and wanted is not ExportFormat.MLFLOW:
        raise StoreError(f"{masked(out)}: a URL; wanted a file to write to")
    if ids is None and wanted in _WITHOUT_DELETED:
        ids = attempt_ids([])
    done, name = Exported(), short_name(url)
    with_steps = with_steps or wanted not in (*_TABLES, ExportFormat.EXTRAP)
    with _reading(url) as connection:
        rows = PortableRows(connection, name, f"{database_id(connection)} {name}", with_steps)
        total = _num_attempts(connection, ids)
        if wanted is ExportFormat.MLFLOW:
            _to_mlflow(_sound(rows.attempts(ids), done, progress, total), out, experiment)
            done.paths.append(masked(out))
            return done
        with _drafted(Path(out), done) as path:
            if wanted in (ExportFormat.JSONL, ExportFormat.SQLITE):
                records = _sound(rows.everything(ids), done, progress, total)
                if wanted is ExportFormat.JSONL:
                    _to_lines(path, map(to_json, records))
                else:
                    _to_database(path, records, done)
                return done
            attempts = _sound(rows.attempts(ids), done, progress, total)
            if wanted is ExportFormat.EXTRAP:
                _to_lines(path, extrap.lines(attempts, done.rejected))
                return done
            free = flat.free_columns(connection)
            if not with_steps:
                _to_table(_TABLES[wanted], path, attempts, free)
            else:
                _to_two_tables(_TABLES[wanted], path, Path(out), attempts, free, done)
    return done


def copy(url: str, out: Path, progress: Progress = silent) -> Exported:
    """Write a SQLite file that is the same database, by its id, too: its sweeps are not imported
    ones.

    Raises StoreError when the file exists, or cannot be written.
    """
    done = Exported()
    with _reading(url) as connection, _drafted(out, done) as path:
        own_id = database_id(connection)
        records = PortableRows(connection, short_name(url), own_id).everything()
        total = _num_attempts(connection, None)
        _to_database(path, _sound(records, done, progress, total), done, own_id)
    return done


def short_name(url: str) -> str:
    """Return how others call a database that rows come from: the name of its file, or what follows
    the host in its URL.
    """
    return Path(locate(url).name.partition("?")[0]).name


@contextmanager
def _reading(url: str) -> Iterator[sa.Connection]:
    engine = open_for_reading(url)
    try:
        with reading(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def _num_attempts(connection: sa.Connection, ids: Selection | None) -> int:
    statement = sa.select(sa.func.count()).select_from(AttemptRow)
    if ids is not None:
        statement = statement.where(AttemptRow.id.in_(ids))
    return connection.scalar(statement) or 0


def _sound(found: Iterable[Any], done: Exported, progress: Progress, total: int) -> Iterator[Any]:
    """Yield records without the damaged ones, and count attempts."""
    for record in found:
        if isinstance(record, Rejected):
            done.rejected.append(record)
            continue
        if isinstance(record, PortableAttempt):
            done.num_attempts += 1
            progress("attempts", done.num_attempts, total)
        yield record


@contextmanager
def _drafted(out: Path, done: Exported) -> Iterator[Path]:
    """Give a file beside it that gets its name when it is whole. Raises StoreError."""
    draft = out.with_name(f"{out.name}.draft")
    for path in (out, draft):
        if path.exists():
            raise StoreError(
                f"{path}: it is there already; remove it, or give another file with --out"
            )
    try:
        yield draft
        draft.replace(out)
        done.paths.insert(0, str(out))
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"{out}: {why}; give another file with --out") from error
    finally:
        remove_file(draft)


def _to_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _to_table(
    write: _Write,
    path: Path,
    attempts: Iterable[PortableAttempt],
    free: Mapping[str, flat.Kind],
) -> None:
    write(path, flat.COLUMNS | dict(free), (flat.row_of(attempt, free) for attempt in attempts))


def _to_two_tables(
    write: _Write,
    path: Path,
    out: Path,
    attempts: Iterable[PortableAttempt],
    free: Mapping[str, flat.Kind],
    done: Exported,
) -> None:
    """Write steps while attempts are read, so that memory holds the steps of one attempt."""
    steps_out = out.with_name(f"{out.stem}-steps{out.suffix}")
    with _drafted(steps_out, done) as steps_path:
        kept: list[PortableAttempt] = []

        def steps() -> Iterator[flat.Row]:
            for attempt in attempts:
                kept.append(replace(attempt, steps=None))
                yield from flat.step_rows(attempt)

        write(steps_path, flat.STEP_COLUMNS, steps())
        _to_table(write, path, kept, free)


def _to_database(
    path: Path, records: Iterable[Portable], done: Exported, own_id: str | None = None
) -> None:
    """Write a new database; with `own_id` it gets that id, and sweeps of it are at home there."""
    engine = open_for_writing(str(path))
    try:
        if own_id is not None:
            with writing(engine) as connection:
                same_id = sa.update(InfoRow).where(InfoRow.name == "id").values(value=own_id)
                connection.execute(same_id)
        bulk = Bulk()
        bulk.add_in_pieces(engine, (("", record) for record in records))
        done.rejected.extend(bulk.added.rejected)
    finally:
        engine.dispose()


def _to_mlflow(attempts: Iterable[PortableAttempt], tracking_uri: str, experiment: str) -> None:
    from store.formats import mlflow_runs

    steps: dict[int, list[StepSample]] = {}

    def rows() -> Iterator[dict[str, Any]]:
        for number, attempt in enumerate(attempts):
            steps.clear()
            steps[number] = step_arrays.unpack(attempt.steps.columns()) if attempt.steps else []
            yield _plain(attempt) | {"attempt_id": number, "attempt_uid": digest(attempt.identity)}

    mlflow_runs.export(rows(), steps.__getitem__, tracking_uri=tracking_uri, experiment=experiment)


def _plain(attempt: PortableAttempt) -> dict[str, Any]:
    """Return a row as other programs' formats take it: `num_steps` is what was measured, and
    `item` what was counted, or should have been.
    """
    row = flat.row_of(attempt, {}) | dict(attempt.spec.free)
    item = row["item"] or attempt.spec.item or None
    return row | {
        "id": attempt.trial_id,
        "num_steps": row["measured_num_steps"],
        "item": item,
    }
