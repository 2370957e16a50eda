"""Writes a database, or a selection of its attempts, in a format that others read: all or nothing,
never over what is there.
"""

from __future__ import annotations

import itertools
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
from store.exchange.bulk import ROWS_PER_TRANSACTION, Bulk, Located
from store.exchange.portable import Portable, PortableAttempt, to_json
from store.exchange.portable_rows import PortableRows, Selection, database_id
from store.filters.selection import attempt_ids
from store.rows import digest
from store.schema import AttemptRow, InfoRow


class ExportFormat(StrEnum):
    """What an export can be."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    SQLITE = "sqlite"
    MLPERF = "mlperf"
    MLFLOW = "mlflow"


@dataclass(slots=True)
class Exported:
    """What became of the attempts."""

    num_attempts: int = 0
    paths: list[str] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)  # damaged rows


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
    """All, or the selected attempts with what is around them. `out` is a file, of MLflow its
    tracking URI.

    All are also the deleted ones, which jsonl, sqlite, csv and parquet tell as such; other formats
    cannot, and get none of them. In csv and parquet steps are in a file of their own. Raises
    StoreError when the file exists, or cannot be written.
    """
    engine = open_for_reading(url)
    try:
        with reading(engine) as connection:
            return _export(
                connection, short_name(url), out, wanted, ids, with_steps, experiment, progress
            )
    finally:
        engine.dispose()


def copy(url: str, out: Path, progress: Progress = silent) -> Exported:
    """All of it in a SQLite file that is the same database, by its id, too: what was measured into
    it was not imported.

    Raises StoreError when the file exists, or cannot be written.
    """
    engine, done = open_for_reading(url), Exported()
    try:
        with reading(engine) as connection, _drafted(out, done) as path:
            own_id = database_id(connection)
            rows = PortableRows(connection, short_name(url), own_id)
            attempts = _counted(rows.attempts(), done, progress, _num_attempts(connection, None))
            _to_database(path, _all_of(rows, None, attempts, done), done, own_id)
    finally:
        engine.dispose()
    return done


_TELL_NOT_WHAT_IS_DELETED = (ExportFormat.MLPERF, ExportFormat.MLFLOW)
_Write = Callable[[Path, Mapping[str, flat.Kind], Iterable[flat.Row]], None]
_TABLES: dict[ExportFormat, _Write] = {
    ExportFormat.CSV: tables.write_csv,
    ExportFormat.PARQUET: tables.write_parquet,
}


def short_name(url: str) -> str:
    """Of a database, as others are told where its rows come from: of a file its name, of a URL what
    follows the host.
    """
    return Path(locate(url).name.partition("?")[0]).name


def steps_beside(path: Path) -> Path:
    """Of a table of attempts: where its steps are."""
    return path.with_name(f"{path.stem}-steps{path.suffix}")


def _export(
    connection: sa.Connection,
    name: str,
    out: str,
    wanted: ExportFormat,
    ids: Selection | None,
    with_steps: bool,
    experiment: str,
    progress: Progress,
) -> Exported:
    done = Exported()
    is_table = wanted in (ExportFormat.CSV, ExportFormat.PARQUET)
    if ids is None and wanted in _TELL_NOT_WHAT_IS_DELETED:
        ids = attempt_ids([])
    rows = PortableRows(
        connection, name, f"{database_id(connection)} {name}", with_steps or not is_table
    )
    attempts = _counted(rows.attempts(ids), done, progress, _num_attempts(connection, ids))
    if wanted is ExportFormat.MLFLOW:
        _to_mlflow(attempts, out, experiment)
        done.paths.append(masked(out))
        return done
    if "://" in out:
        raise StoreError(f"{masked(out)}: a URL; wanted a file to write to")
    with _drafted(Path(out), done) as path:
        if wanted is ExportFormat.JSONL:
            _to_lines(path, map(to_json, _all_of(rows, ids, attempts, done)))
        elif wanted is ExportFormat.SQLITE:
            _to_database(path, _all_of(rows, ids, attempts, done), done)
        elif wanted is ExportFormat.MLPERF:
            _to_mlperf(path, attempts)
        elif not with_steps:
            _TABLES[wanted](path, flat.COLUMNS, map(flat.row_of, attempts))
        else:
            _to_two_tables(_TABLES[wanted], path, Path(out), attempts, done)
    return done


def _num_attempts(connection: sa.Connection, ids: Selection | None) -> int:
    statement = sa.select(sa.func.count()).select_from(AttemptRow)
    return (
        connection.scalar(statement if ids is None else statement.where(AttemptRow.id.in_(ids)))
        or 0
    )


def _counted(
    found: Iterable[PortableAttempt | Rejected], done: Exported, progress: Progress, total: int
) -> Iterator[PortableAttempt]:
    for attempt in _sound(found, done):
        done.num_attempts += 1
        progress("attempts", done.num_attempts, total)
        yield attempt


def _sound(found: Iterable[Any], done: Exported) -> Iterator[Any]:
    """What is damaged is told, and left out."""
    for record in found:
        if isinstance(record, Rejected):
            done.rejected.append(record)
        else:
            yield record


def _all_of(
    rows: PortableRows, ids: Selection | None, attempts: Iterator[PortableAttempt], done: Exported
) -> Iterator[Portable]:
    """Also what belongs to no attempt; of a selection, no references."""
    yield from _sound(rows.sweeps(ids), done)
    yield from _sound(rows.trials(ids), done)
    yield from attempts
    if ids is None:
        yield from _sound(rows.references(), done)


@contextmanager
def _drafted(out: Path, done: Exported) -> Iterator[Path]:
    """A file beside it that gets its name when it is whole. Raises StoreError."""
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
        raise StoreError(
            f"{out}: {error.strerror or error}; give another file with --out"
        ) from error
    finally:
        for name in ("", "-wal", "-shm", ".lock"):
            draft.with_name(f"{draft.name}{name}").unlink(missing_ok=True)


def _to_lines(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _to_two_tables(
    write: _Write, path: Path, out: Path, attempts: Iterable[PortableAttempt], done: Exported
) -> None:
    """Steps are written while attempts are read, piece by piece."""
    with _drafted(steps_beside(out), done) as steps_path:
        kept: list[PortableAttempt] = []

        def steps() -> Iterator[flat.Row]:
            for attempt in attempts:
                kept.append(replace(attempt, steps=None))
                yield from flat.step_rows(attempt)

        write(steps_path, flat.STEP_COLUMNS, steps())
        write(path, flat.COLUMNS, map(flat.row_of, kept))


def _to_database(
    path: Path, records: Iterable[Portable], done: Exported, own_id: str | None = None
) -> None:
    """`own_id`: what the new one is known by, and whose sweeps are at home in it."""
    engine = open_for_writing(str(path))
    try:
        if own_id is not None:
            with writing(engine) as connection:
                connection.execute(
                    sa.update(InfoRow).where(InfoRow.name == "id").values(value=own_id)
                )
        bulk = Bulk()
        located: Iterator[Located] = (("", record) for record in records)
        while batch := list(itertools.islice(located, ROWS_PER_TRANSACTION)):
            with writing(engine) as connection:
                bulk.add(connection, batch)
        done.rejected.extend(bulk.added.rejected)
    finally:
        engine.dispose()


def _to_mlperf(path: Path, attempts: Iterable[PortableAttempt]) -> None:
    from store.formats import mlperf

    _to_lines(
        path, itertools.chain.from_iterable(mlperf.write(_plain(attempt)) for attempt in attempts)
    )


def _to_mlflow(attempts: Iterable[PortableAttempt], tracking_uri: str, experiment: str) -> None:
    from store.formats import mlflow_runs

    steps: dict[int, list[StepSample]] = {}

    def told() -> Iterator[dict[str, Any]]:
        for number, attempt in enumerate(attempts):
            steps.clear()
            steps[number] = step_arrays.unpack(attempt.steps.columns()) if attempt.steps else []
            yield _plain(attempt) | {"attempt_id": number, "attempt_uid": digest(attempt.identity)}

    mlflow_runs.export(told(), steps.__getitem__, tracking_uri=tracking_uri, experiment=experiment)


def _plain(attempt: PortableAttempt) -> dict[str, Any]:
    """As other programs' formats take it: `num_steps` is what was measured."""
    row = flat.row_of(attempt)
    return row | {"id": attempt.trial_id, "num_steps": row["measured_num_steps"]}
