"""Filters of free axes, as `axes.zero>=2`.

They read the trial's spec, so that a database without such an axis answers that no trial has it.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from store.schema import TrialRow

_NUMBER = r"\A-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?\Z"


class _FreeAxis(FunctionElement[str]):
    """Reads a free axis out of a spec, as text; null without such an axis."""

    name = "free_axis"
    type = sa.Text()
    inherit_cache = True


@compiles(_FreeAxis, "sqlite")
def _on_sqlite(element: _FreeAxis, compiler: SQLCompiler, **options: Any) -> str:
    spec, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"CAST(json_extract({spec}, '$.free.' || {name}) AS TEXT)"


@compiles(_FreeAxis, "postgresql")
def _on_postgresql(element: _FreeAxis, compiler: SQLCompiler, **options: Any) -> str:
    spec, name = (compiler.process(clause, **options) for clause in element.clauses)
    return f"(CAST({spec} AS json) -> 'free' ->> CAST({name} AS text))"


def as_text(name: str) -> sa.ColumnElement[str]:
    return _FreeAxis(TrialRow.spec, sa.literal(name))


def as_number(name: str) -> sa.ColumnElement[float | None]:
    """Read a free axis as a number; null where it is none."""
    text = as_text(name)
    return sa.case((text.regexp_match(_NUMBER), sa.cast(text, sa.Double)))
