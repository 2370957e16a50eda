"""Reads what was measured elsewhere: trials of tables that were taken in, with their repeats."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from scalemark.records.references import Reference, ReferenceKind
from scalemark.stats.welch import typical
from store.own_commands import own_command
from store.reading.queries import Row, num_attempts, streamed
from store.schema import ReferenceRow

_OF_ITS_ROWS = ("axes", "throughput", "repeat", "evidence", "note")
_OF_A_TRIAL = tuple(one.name for one in fields(Reference) if one.name not in _OF_ITS_ROWS)


def measured_elsewhere(engine: sa.Engine) -> list[Row]:
    """Return the fields of each trial, in the order of their first rows, with its `repeats`: the
    throughputs of rows that agree in all axes. `throughput` is their geometric mean.

    What rows say beside their axes, as a note, is left out. In memory are the trials and their
    throughputs, and no more of a million rows.
    """
    columns = [getattr(ReferenceRow, name) for name in _OF_A_TRIAL]
    statement = (
        sa.select(ReferenceRow.throughput, ReferenceRow.axes, *columns)
        .where(ReferenceRow.origin == ReferenceKind.TABLE)
        .order_by(ReferenceRow.id)
    )
    found: dict[tuple[Any, ...], Row] = {}
    with streamed(engine, statement) as (_, rows):
        for throughput, axes, *own in rows:
            trial = (*axes.items(), *own)
            if trial not in found:
                found[trial] = {**dict(zip(_OF_A_TRIAL, own, strict=True)), "axes": axes}
                found[trial]["repeats"] = []
            found[trial]["repeats"].append(throughput)
    for row in found.values():
        row["throughput"] = typical(row["repeats"])
    return list(found.values())


def has_any(engine: sa.Engine) -> bool:
    """Return whether any table was taken in."""
    statement = (
        sa.select(ReferenceRow.id).where(ReferenceRow.origin == ReferenceKind.TABLE).limit(1)
    )
    with streamed(engine, statement) as (_, rows):
        return next(rows, None) is not None


def is_all(engine: sa.Engine) -> bool:
    """Return whether tables were taken in, and no attempt of our own counts."""
    return has_any(engine) and not num_attempts(engine)


def instead(engine: sa.Engine) -> str:
    """Say how to see numbers that were measured elsewhere; empty where attempts of our own count,
    or where there are no such numbers.
    """
    if not is_all(engine):
        return ""
    return f"{_ONLY}; show them with --origin elsewhere"


def shown_by(engine: sa.Engine) -> str:
    """Say the same to who asked a command that knows attempts alone: other commands show them."""
    if not is_all(engine):
        return ""
    tables = own_command(engine, "plots", "tables", "--origin", "elsewhere")
    rows = own_command(engine, "store", "reference", "list", "origin=table")
    return f"{_ONLY}; {tables} shows them, and {rows} their rows"


_ONLY = "only numbers that were measured elsewhere in it"
