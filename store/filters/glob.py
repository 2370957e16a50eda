"""A comparison with a pattern of `*` and `?`, which both engines make alike: upper and lower case
are told apart.
"""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


class _Glob(FunctionElement[bool]):
    """Of a text: the column, the pattern as SQLite's GLOB takes it, and as LIKE does."""

    type = sa.Boolean()
    inherit_cache = True


def glob(column: Any, pattern: str) -> sa.ColumnElement[bool]:
    """Whether the whole text is as the pattern: `*` stands for any characters, `?` for one."""
    return _Glob(
        column, sa.literal(_as_glob(pattern), sa.Text), sa.literal(_as_like(pattern), sa.Text)
    )


def _as_glob(pattern: str) -> str:
    return pattern.replace("[", "[[]")


def _as_like(pattern: str) -> str:
    return re.sub(r"[\\%_]", r"\\\g<0>", pattern).replace("*", "%").replace("?", "_")


@compiles(_Glob, "sqlite")
def _on_sqlite(element: _Glob, compiler: SQLCompiler, **options: Any) -> str:
    column, as_glob, _ = element.clauses
    return f"{compiler.process(column, **options)} GLOB {compiler.process(as_glob, **options)}"


@compiles(_Glob, "postgresql")
def _on_postgresql(element: _Glob, compiler: SQLCompiler, **options: Any) -> str:
    column, _, as_like = element.clauses
    return f"{compiler.process(column, **options)} LIKE {compiler.process(as_like, **options)}"
