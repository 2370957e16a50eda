"""Reads the target of a command: an attempt by its number, a trial by the beginning of its
id, or a sweep by its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlalchemy as sa

from store.database import own_command, reading
from store.errors import StoreError
from store.filters.filter_values import ID_BEGINNING, begins_id, checked, shortened
from store.filters.selection import id_begins_with
from store.schema import AttemptRow, SweepRow, TrialRow

_MOST_NAMED = 5  # sweeps, in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One attempt, trial or sweep of the database."""

    column: str  # attempt_id, trial_id or sweep_id: as tags and notes call it
    id: int | str
    name: str  # as messages call it

    def has_attempt(self) -> sa.ColumnElement[bool]:
        """Return the condition that an attempt belongs to it."""
        column = "id" if self.column == "attempt_id" else self.column
        belongs: sa.ColumnElement[bool] = AttemptRow.__table__.columns[column] == self.id
        return belongs


def find(engine: sa.Engine, which: str) -> Target:
    """Return what a word names. `attempt=`, `trial=` or `sweep=` before it settles any doubt.

    Raises StoreError when it names nothing, or more than one thing.
    """
    listing = own_command(engine, "store", "list")
    if not which:
        raise StoreError(
            f"which attempt or trial? give its number, or the {ID_BEGINNING}; see `{listing}`"
        )
    kind, name = "", checked(which, "")
    explicit = re.fullmatch("(attempt|trial|sweep)=(.*)", name, re.DOTALL)
    if explicit is not None:
        kind, name = explicit.groups()
    with reading(engine) as connection:
        attempts = _attempts(connection, name) if kind in ("", "attempt") else []
        sweeps = _sweeps(connection, name) if kind in ("", "sweep") else []
        # digits are more likely an attempt than the beginning of an id
        trials = _trials(connection, name) if kind in ("", "trial") and not attempts else []
        newest = sa.select(SweepRow.name).order_by(SweepRow.id.desc()).limit(_MOST_NAMED)
        names = ", ".join(map(shortened, connection.scalars(newest))) or "none"
    meant = [*attempts, *sweeps, *trials]
    if len(meant) == 1:
        return meant[0]
    if not meant:
        raise StoreError(
            f"{shortened(which)}: no attempt or trial; wanted the number of an attempt, or "
            f"4 hexadecimal digits or more of a trial's id; see `{listing}`; "
            f"nor a sweep: the newest are {names}"
        )
    if sweeps:
        kinds = dict.fromkeys(target.column.removesuffix("_id") for target in meant)
        raise StoreError(
            f"{shortened(which)}: it could be {' or '.join(target.name for target in meant)}; say "
            f"{' or '.join(f'{kind}={shortened(name)}' for kind in kinds)}"
        )
    could_be = ", ".join(str(target.id) for target in trials[:3])
    raise StoreError(f"{shortened(which)}: not just one attempt or trial; it could be {could_be}")


def _attempts(connection: sa.Connection, name: str) -> list[Target]:
    if not re.fullmatch("[0-9]{1,9}", name):
        return []
    ids = connection.scalars(sa.select(AttemptRow.id).where(AttemptRow.id == int(name)))
    return [Target(column="attempt_id", id=id_, name=f"attempt {id_}") for id_ in ids]


def _sweeps(connection: sa.Connection, name: str) -> list[Target]:
    ids = connection.scalars(sa.select(SweepRow.id).where(SweepRow.name == name))
    return [Target(column="sweep_id", id=id_, name=f"sweep {shortened(name)}") for id_ in ids]


def _trials(connection: sa.Connection, name: str) -> list[Target]:
    if not begins_id(name):
        return []
    begins = sa.select(TrialRow.id).where(id_begins_with(name)).order_by(TrialRow.id).limit(4)
    ids = connection.scalars(begins)
    return [Target(column="trial_id", id=id_, name=f"trial {id_[:8]}") for id_ in ids]
