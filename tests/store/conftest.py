"""Empty databases, in SQLite and in PostgreSQL: what the store promises it promises of both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from store.postgresql import _engine
from store.writer import Writer
from tests import postgresql
from tests.empty import make_empty


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "r.db"
    make_empty(path)
    return path


@pytest.fixture(scope="session")
def _template(postgresql_server: str) -> Iterator[str]:
    """Name of a database on the server, made once, because every test would wait for it."""
    with postgresql.new_database(postgresql_server) as url:
        Writer(url).close()
        yield url.partition("?")[0].rpartition("/")[2]


@pytest.fixture
def postgresql_template_url(postgresql_server: str, _template: str) -> Iterator[str]:
    """URL of an empty database of this version's schema on a real server."""
    with postgresql.new_database(postgresql_server, _template) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URL of an empty database of our own: r.db in the current folder, or one on a real server. A test need not close it."""
    if request.param == "sqlite":
        make_empty("r.db")
        yield "r.db"
    else:
        server, template = (
            request.getfixturevalue("postgresql_server"),
            request.getfixturevalue("_template"),
        )
        engines = []

        def engine(*arguments: Any, **options: Any) -> sa.Engine:
            engines.append(_engine(*arguments, **options))
            return engines[-1]

        monkeypatch.setattr("store.postgresql._engine", engine)
        with postgresql.new_database(server, template) as url:
            yield url
            for one in engines:
                one.dispose()


@pytest.fixture
def writer(db: str) -> Iterator[Writer]:
    opened = Writer(db)
    yield opened
    opened.close()
