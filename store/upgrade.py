"""Which schema there is, and the migrations that lead to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from store.reference_rows import add_references
from store.references import published

_MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """What an upgrade did."""

    found: str | None  # revision there was; none: there was no database
    made: str
    kept: Path | None  # the copy as it was


def head_revision() -> str:
    """The newest migration: file names begin with their number, so this needs no Alembic."""
    return max(path.stem.split("_")[0] for path in (_MIGRATIONS / "versions").glob("[0-9]*.py"))


def run_migrations(connection: sa.Connection, to: str = "head") -> None:
    """All that are missing up to this revision, and with the head the published figures, inside the caller's transaction."""
    from alembic import command  # here, because it is slow to import and seldom needed
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = connection
    command.upgrade(config, to)
    if to == "head":
        add_references(connection, published())
