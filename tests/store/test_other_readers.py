"""Other programs open a database as it is: the views are the contract, and they are plain SQL."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb
import duckdb_extension_sqlite_scanner
import pytest
from datasette.app import Datasette

from tests.filled import fill
from tests.specs import small

pytestmark = pytest.mark.integration

VIEWS = {
    "throughput": 3,
    "scaling": 2,
    "failures": 1,
    "step_samples": 9,
}
EXTENSIONS = Path(duckdb_extension_sqlite_scanner.__file__).parent / "extensions"


@pytest.fixture
def database():
    fill(
        "r.db",
        [(small(), 50.0), (small(), 52.0), (small(num_gpus=2), 70.0), (small(num_gpus=4), None)],
    )
    return "r.db"


def test_sqlite_alone_reads_every_view(database):
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        found = {
            view: connection.execute(f"SELECT count(*) FROM {view}").fetchone()[0] for view in VIEWS
        }
    assert found == VIEWS


def test_duckdb_reads_every_view(database):
    (extension,) = EXTENSIONS.rglob("sqlite_scanner.duckdb_extension")
    with duckdb.connect() as connection:
        connection.execute(
            f"LOAD '{extension}'; ATTACH '{database}' AS results (TYPE sqlite, READ_ONLY)"
        )
        found = {
            view: connection.execute(f"SELECT count(*) FROM results.{view}").fetchone()[0]
            for view in VIEWS
        }
        speed_up = connection.execute(
            "SELECT speed_up FROM results.scaling WHERE num_gpus = 2"
        ).fetchone()[0]
    assert found == VIEWS
    assert speed_up == pytest.approx(70 / (50 * 52) ** 0.5)  # of geometric means


def test_datasette_serves_every_view(database):
    async def served() -> dict[str, int]:
        datasette = Datasette([database])
        found = {}
        for view in VIEWS:
            answer = await datasette.client.get(
                f"/r.json?sql=SELECT+count(*)+AS+n+FROM+{view}&_shape=array"
            )
            found[view] = json.loads(answer.text)[0]["n"]
            page = await datasette.client.get(f"/r/{view}")
            assert page.status_code == 200
        return found

    assert asyncio.run(served()) == VIEWS
