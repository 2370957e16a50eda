"""What one word on a command line names: an attempt by its number, a trial by the beginning of its
id, or a sweep by its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import sqlalchemy as sa

from store.database import reading
from store.errors import StoreError
from store.filters.filter_values import ID_BEGINNING, begins_id, checked, shortened
from store.filters.selection import id_begins_with
from store.schema import AttemptRow, SweepRow, TrialRow

_NUM_NAMED = 5  # of what there is instead


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One attempt, trial or sweep that there is."""

    column: str  # attempt_id, trial_id or sweep_id: as tags and notes call it
    id: int | str
    name: str  # as messages call it

    def has_attempt(self) -> sa.ColumnElement[bool]:
        """Of attempts: whether they are its own."""
        columns = {
            "attempt_id": AttemptRow.id,
            "trial_id": AttemptRow.trial_id,
            "sweep_id": AttemptRow.sweep_id,
        }
        return columns[self.column] == self.id


def find(engine: sa.Engine, which: str) -> Target:
    """`attempt=`, `trial=` and `sweep=` before it say what is meant where it could be two things.

    Raises StoreError when there is none, or more than one.
    """
    if not which:
        raise StoreError(
            f"which attempt or trial? give its number, or the {ID_BEGINNING}; see `python -m "
            "store list`"
        )
    told = _EXPLICIT.fullmatch(checked(which, ""))
    kind, name = (told["kind"], told["name"]) if told else (None, which)
    with reading(engine) as connection:
        attempts = _attempts(connection, name) if kind in (None, "attempt") else []
        sweeps = _sweeps(connection, name) if kind in (None, "sweep") else []
        trials = _trials(connection, name) if kind in (None, "trial") and not attempts else []
        found = [*attempts, *sweeps, *trials]
        if len(found) == 1:
            return found[0]
        if not found:
            newest = connection.scalars(
                sa.select(SweepRow.name).order_by(SweepRow.id.desc()).limit(_NUM_NAMED)
            )
            names = ", ".join(map(shortened, newest)) or "none"
    if not found:
        hint = f"see `python -m store list`; nor a sweep: the newest are {names}"
        short = (
            "; wanted the number of an attempt, or 4 hexadecimal digits or more of a trial's id"
            if _IS_SHORT.fullmatch(name)
            else ""
        )
        raise StoreError(f"{shortened(which)}: no attempt or trial{short}; {hint}")
    if sweeps:
        kinds = " or ".join(
            dict.fromkeys(
                f"{target.column.removesuffix('_id')}={shortened(name)}" for target in found
            )
        )
        raise StoreError(
            f"{shortened(which)}: it could be "
            f"{' or '.join(target.name for target in found)}; say {kinds}"
        )
    could_be = ", ".join(str(target.id) for target in trials[:3])
    raise StoreError(f"{shortened(which)}: not just one attempt or trial; it could be {could_be}")


_IS_SHORT = re.compile("[0-9a-f]{1,3}")
_EXPLICIT = re.compile(r"(?P<kind>attempt|trial|sweep)=(?P<name>.*)", re.DOTALL)


def _attempts(connection: sa.Connection, name: str) -> list[Target]:
    if not re.fullmatch("[0-9]{1,9}", name):
        return []
    found = connection.scalars(sa.select(AttemptRow.id).where(AttemptRow.id == int(name)))
    return [Target(column="attempt_id", id=id_, name=f"attempt {id_}") for id_ in found]


def _sweeps(connection: sa.Connection, name: str) -> list[Target]:
    found = connection.scalars(sa.select(SweepRow.id).where(SweepRow.name == name))
    return [Target(column="sweep_id", id=id_, name=f"sweep {shortened(name)}") for id_ in found]


def _trials(connection: sa.Connection, name: str) -> list[Target]:
    if not begins_id(name):
        return []
    begins = sa.select(TrialRow.id).where(id_begins_with(name)).order_by(TrialRow.id).limit(4)
    return [
        Target(column="trial_id", id=id_, name=f"trial {id_[:8]}")
        for id_ in connection.scalars(begins)
    ]
