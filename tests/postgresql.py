"""A PostgreSQL server of the tests' own, and databases in it for one test each."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import sqlalchemy as sa
from psycopg import sql

from tests import postgresql_supervisor
from tests.kept import kept
from tests.needed import needed

SUPERVISOR = Path(postgresql_supervisor.__file__)
DEBIAN = Path("/usr/lib/postgresql")  # one folder per version; not on PATH


def find_programs(path: str | None = None, debian: Path = DEBIAN) -> Path | None:
    """The folder of initdb and pg_ctl: on `path` (default: PATH), else the newest version of Debian's."""
    pg_ctl = shutil.which("pg_ctl", path=path)
    on_path = [Path(pg_ctl).resolve().parent] if pg_ctl else []
    newest_first = sorted(
        debian.glob("*/bin"), key=lambda folder: int(folder.parent.name), reverse=True
    )
    complete = (
        folder
        for folder in [*on_path, *newest_first]
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists()
    )
    return next(complete, None)


def needed_programs(found: Path | None, *, in_ci: bool) -> Path:
    """`found`; without it the test is skipped, and fails in CI, where nothing may be left out unnoticed."""
    if not found:
        needed(
            "no PostgreSQL server programs (initdb, pg_ctl): run scripts/install-postgresql",
            in_ci=in_ci,
        )
    return found


@contextmanager
def server(programs: Path) -> Iterator[str]:
    """The SQLAlchemy URL of a new server, which is gone afterwards, also when this process is killed.

    It listens on a socket in a folder of its own only, so that any number of servers run side by side.
    """
    with kept(f"PostgreSQL of {programs}", str(SUPERVISOR), str(programs)) as folder:
        yield f"postgresql+psycopg://postgres@/postgres?host={folder}"


def stop(server_url: str, mode: str) -> None:
    """The server, which is to be started again; `mode`: fast or immediate, as pg_ctl has them."""
    postgresql_supervisor.stop(*_folder_and_programs(server_url), mode)


def start(server_url: str) -> None:
    """Again."""
    postgresql_supervisor.start(*_folder_and_programs(server_url))


def _folder_and_programs(server_url: str) -> tuple[Path, Path]:
    programs = find_programs()
    assert programs
    return Path(str(sa.make_url(server_url).query["host"])), programs


@contextmanager
def new_database(server_url: str, template: str = "template1") -> Iterator[str]:
    """The URL of a copy of the database `template`, dropped afterwards even if somebody is connected to it.

    Nobody may be connected to `template`.
    """
    name = f"test_{uuid.uuid4().hex}"
    with _administrator(server_url) as connection:
        connection.execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
    try:
        yield sa.make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        with _administrator(server_url) as connection:
            connection.execute(
                sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            )


def _administrator(server_url: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server_url.replace("+psycopg", ""), autocommit=True)
