"""Reads free axes for filters, as `axes.zero>=2` and `env.OMP_NUM_THREADS>=2`.

They read the trial's spec, so that a database without such an axis answers that no trial has it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from scalemark.records.free_axes import is_env_variable
from store.schema import TrialRow

# what both databases can cast, which a text of 400 digits is not
_LIKE_A_NUMBER = r"\A[+-]?([0-9]{1,40}[.]?[0-9]{0,40}|[.][0-9]{1,40})([eE][+-]?[0-9]{1,2})?\Z"


class _FreeAxis(FunctionElement[str]):
    """Reads a free axis out of a spec, as text; null without such an axis."""

    name = "free_axis"
    type = sa.Text()
    inherit_cache = True


class _KindOfFreeAxis(FunctionElement[str]):
    """Reads the JSON type of a free axis, in the words of the database."""

    name = "kind_of_free_axis"
    type = sa.Text()
    inherit_cache = True


def _path(name: str) -> str:
    """Return SQLite's path of an axis in a spec; in quotes, for the dot in `env.NAME`."""
    return f"""'$.free."' || {name} || '"'"""


@compiles(_FreeAxis, "sqlite")
def _text_on_sqlite(element: _FreeAxis, compiler: SQLCompiler, **options: Any) -> str:
    spec, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"CAST(json_extract({spec}, {_path(name)}) AS TEXT)"


@compiles(_FreeAxis, "postgresql")
def _text_on_postgresql(element: _FreeAxis, compiler: SQLCompiler, **options: Any) -> str:
    spec, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(CAST({spec} AS json) -> 'free' ->> CAST({name} AS text))"


@compiles(_KindOfFreeAxis, "sqlite")
def _kind_on_sqlite(element: _KindOfFreeAxis, compiler: SQLCompiler, **options: Any) -> str:
    spec, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"json_type({spec}, {_path(name)})"


@compiles(_KindOfFreeAxis, "postgresql")
def _kind_on_postgresql(element: _KindOfFreeAxis, compiler: SQLCompiler, **options: Any) -> str:
    spec, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"json_typeof(CAST({spec} AS json) -> 'free' -> CAST({name} AS text))"


def as_text(name: str) -> sa.ColumnElement[str]:
    return _FreeAxis(TrialRow.spec, sa.literal(name))


def as_number(name: str) -> sa.ColumnElement[float | None]:
    """Read a free axis as a number; null where it is none, also where it is text like one.

    Of variables, which hold nothing but text, text like a number is one.
    """
    if is_env_variable(name):
        is_number: sa.ColumnElement[bool] = as_text(name).regexp_match(_LIKE_A_NUMBER)
    else:
        kind = _KindOfFreeAxis(TrialRow.spec, sa.literal(name))
        is_number = kind.in_(("integer", "real", "number"))  # of SQLite, and of PostgreSQL
    return sa.case((is_number, sa.cast(as_text(name), sa.Double)))


def is_in_any(name: str) -> sa.ColumnElement[bool]:
    """Hold where any trial of the database has the axis."""
    trials = TrialRow.__table__.alias()
    return sa.exists().where(_FreeAxis(trials.c.spec, sa.literal(name)).is_not(None))
