"""Filters of free axes, as `axes.zero>=2`: read from the trial's spec, so that a database that has
no such axis answers that no trial has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from store.filters.glob import glob
from store.schema import TrialRow

_COMPARED: Mapping[str, Callable[[Any, Any], Any]] = {
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}


class _AsText(FunctionElement[str]):
    """A free axis of the spec as text, true and false as JSON has them; null without it."""

    name = "free_axis_as_text"
    type = sa.Text()
    inherit_cache = True


class _AsNumber(FunctionElement[float]):
    """A free axis of the spec as a number; null where it is none."""

    name = "free_axis_as_number"
    type = sa.Double()
    inherit_cache = True


@compiles(_AsText, "sqlite")
def _text_on_sqlite(element: _AsText, compiler: SQLCompiler, **options: Any) -> str:
    at = compiler.process(element.clauses, **options)  # spec, path
    return (
        f"CASE json_type({at}) WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' "
        f"ELSE CAST(json_extract({at}) AS TEXT) END"
    )


@compiles(_AsNumber, "sqlite")
def _number_on_sqlite(element: _AsNumber, compiler: SQLCompiler, **options: Any) -> str:
    at = compiler.process(element.clauses, **options)
    return f"CASE WHEN json_type({at}) IN ('integer', 'real') THEN json_extract({at}) END"


@compiles(_AsText, "postgresql")
def _text_on_postgresql(element: _AsText, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_extract_path_text({compiler.process(element.clauses, **options)})"


@compiles(_AsNumber, "postgresql")
def _number_on_postgresql(element: _AsNumber, compiler: SQLCompiler, **options: Any) -> str:
    at = compiler.process(element.clauses, **options)
    return (
        f"CASE json_typeof(json_extract_path({at})) WHEN 'number' "
        f"THEN CAST(json_extract_path_text({at}) AS double precision) END"
    )


class _Path(FunctionElement[Any]):
    """The arguments of a JSON function: the spec, and where the axis is in it."""

    name = "free_axis_path"
    inherit_cache = True


@compiles(_Path, "sqlite")
def _path_on_sqlite(element: _Path, compiler: SQLCompiler, **options: Any) -> str:
    spec, name = element.clauses
    return f"{compiler.process(spec, **options)}, '$.free.' || {compiler.process(name, **options)}"


@compiles(_Path, "postgresql")
def _path_on_postgresql(element: _Path, compiler: SQLCompiler, **options: Any) -> str:
    spec, name = element.clauses
    told = compiler.process(name, **options)
    return f"CAST({compiler.process(spec, **options)} AS json), 'free', CAST({told} AS text)"


def is_there(name: str) -> sa.ColumnElement[bool]:
    """Whether the trial has an axis of this name."""
    return _AsText(_Path(TrialRow.spec, sa.literal(name))).is_not(None)


def equals(name: str, value: str) -> sa.ColumnElement[bool]:
    """Whether the axis of this name has this value, as a number where both are numbers."""
    path = _Path(TrialRow.spec, sa.literal(name))
    is_text: sa.ColumnElement[bool] = sa.func.coalesce(_AsText(path), "") == value
    try:
        number = float(value)
    except ValueError:
        return is_text
    return sa.or_(is_text, _AsNumber(path) == number)


def compares(name: str, operator: str, number: float) -> sa.ColumnElement[bool]:
    path = _Path(TrialRow.spec, sa.literal(name))
    found: sa.ColumnElement[bool] = _COMPARED[operator](_AsNumber(path), number)
    return found


def matches(name: str, pattern: str) -> sa.ColumnElement[bool]:
    """Whether its text is of this pattern of `*` and `?`."""
    return glob(sa.func.coalesce(_AsText(_Path(TrialRow.spec, sa.literal(name))), ""), pattern)
