"""Which schema there is, and the migrations that lead to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from scalemark.records.references import published
from store.errors import DamagedError, StoreError
from store.reference_rows import add_references

_MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """What an upgrade did."""

    found: str | None  # revision there was; none: there was no database
    made: str
    kept: Path | None  # the copy as it was


IF_DAMAGED = (
    "it is damaged: restore a backup, make it anew with `python -m store rebuild RUNS`, "
    "or save what can be read with `python -m store check --salvage OUT`"
)
"""What to do, in every message that tells of damage."""

_ALWAYS_THERE = ("sweeps", "trials", "attempts")  # in databases of every schema


def head_revision() -> str:
    """The newest migration: file names begin with their number, so this needs no Alembic."""
    return max(_known_revisions())


def check_is_ours(name: str, tables: set[str]) -> None:
    """Raises StoreError of a database that another program made, DamagedError of one of ours that
    lacks a table.
    """
    missing = [table for table in ("alembic_version", "attempts") if table not in tables]
    if missing and len(tables.intersection(_ALWAYS_THERE)) <= 1:
        first = ", ".join(sorted(tables)[:3])
        raise StoreError(
            f"{name}: a database of another program (it has {first}); name another file"
        )
    if missing:
        raise DamagedError(f"{name}: the table {missing[0]} is missing; {IF_DAMAGED}")


def one_revision(name: str, found: list[object]) -> str:
    """The revision that the table of versions tells. Raises DamagedError when it tells none,
    several or one that never was.
    """
    if len(found) != 1:
        raise DamagedError(
            f"{name}: {len(found) or 'no'} schema versions are in it, wanted one; {IF_DAMAGED}"
        )
    (revision,) = found
    if not isinstance(revision, str) or not _is_revision(revision):
        raise DamagedError(
            f"{name}: its schema is {str(revision)[:40]!r}, which no version wrote; {IF_DAMAGED}"
        )
    return revision


def _is_revision(text: str) -> bool:
    """One that is known, or of a later version."""
    known = _known_revisions()
    return text in known or (re.fullmatch(r"[0-9]{4}", text) is not None and text > max(known))


def _known_revisions() -> set[str]:
    return {path.stem.split("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*.py")}


def run_migrations(connection: sa.Connection, to: str = "head") -> None:
    """All that are missing up to this revision, and with the head the published figures, inside the
    caller's transaction.
    """
    from alembic import command  # here, because it is slow to import and seldom needed
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, to)
    if to == "head":
        add_references(connection, published())
