"""SQLite takes anything into any column: every cell must hold what its column is for."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.cli.progress import Progress
from store.checks.file import unreadable
from store.checks.finding import MADE_BY_HAND, Finding
from store.schema import Base, UnixMicroseconds, UtcDateTime
from store.sqlite import connect_read_only

_ROWS_AT_ONCE = 10_000
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}")


class Text(bytes):
    """What SQLite calls text, undecoded; other bytes are no text."""


Fits = Callable[[object], bool]


def cells(path: Path, table: sa.Table, progress: Progress) -> Iterator[Finding]:
    """Cells of this table that hold something else."""
    columns = list(table.columns)
    fits = [fit_of(column) for column in columns]
    names = ", ".join(f'"{column.name}"' for column in columns)
    with closing(connect_read_only(path)) as connection:
        connection.text_factory = Text
        last = "before the first"
        try:
            for done, row in enumerate(connection.execute(f'SELECT {names} FROM "{table.name}"')):
                if done % _ROWS_AT_ONCE == 0:
                    progress(f"cells of {table.name}", done, 0)
                last = f"after {row_name(table, row)}"
                for column, fit, value in zip(columns, fits, row, strict=True):
                    if not fit(value):
                        what = f"{column.name} holds {shown(value)}; wanted {_wanted(column)}"
                        yield Finding(
                            table=table.name,
                            row=row_name(table, row),
                            what=what,
                            remedy=MADE_BY_HAND,
                        )
        except sqlite3.DatabaseError as error:
            yield unreadable(error, table.name, last)


def fit_of(column: sa.Column[Any]) -> Fits:
    """Whether a value, as SQLite has it, is one of this column."""
    fit = next(fit for kind, fit in _FITS if isinstance(column.type, kind))
    return (lambda value: value is None or fit(value)) if column.nullable else fit


def row_name(table: sa.Table, row: tuple[object, ...]) -> str:
    """Its primary key, to be told in messages."""
    return ", ".join(
        shown(value) for column, value in zip(table.columns, row, strict=True) if column.primary_key
    )


def shown(value: object) -> str:
    told = value.decode(errors="replace") if isinstance(value, Text) else repr(value)
    return told if len(told) <= 60 else f"{told[:57]}..."


def _wanted(column: sa.Column[Any]) -> str:
    return type(column.type).__name__ + (" or nothing" if column.nullable else "")


def _is_text(value: object) -> bool:
    try:
        return type(value) is Text and "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _is_time(value: object) -> bool:
    try:
        text = value.decode() if type(value) is Text else ""
        return _TIME.fullmatch(text) is not None and datetime.fromisoformat(text) is not None
    except ValueError:
        return False


def _is_json(value: object) -> bool:
    try:
        json.loads(value if type(value) is Text else b"")
    except ValueError:
        return False
    return True


def _is_integer(value: object) -> bool:
    return type(value) is int


def _is_boolean(value: object) -> bool:
    return type(value) is int and value in (0, 1)


def _is_number(value: object) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


_FITS: tuple[tuple[type[sa.types.TypeEngine[Any]], Fits], ...] = (
    (UtcDateTime, _is_time),
    (sa.DateTime, _is_time),  # as a reflected table has it
    (UnixMicroseconds, _is_integer),
    (sa.JSON, _is_json),
    (sa.Boolean, _is_boolean),
    (sa.Integer, _is_integer),
    (sa.Float, _is_number),
    (sa.Text, _is_text),
)

TABLES = Base.metadata.sorted_tables
