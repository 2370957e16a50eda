"""What results show has changed, or it has not: neither is missed, and nothing is read to know that nothing was written."""

from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from store.errors import StoreError
from store.filters import targets
from store.reading import changes
from store.reading.changes import Changes
from store.upkeep import marking
from store.writer import Writer
from tests.filled import NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small
from tests.tables import changing


@pytest.fixture
def reads(monkeypatch) -> list[object]:
    """Of the tables."""
    read = changes.rows
    made: list[object] = []

    def counted(engine: sa.Engine, sql: str) -> object:
        made.append(sql)
        return read(engine, sql)

    monkeypatch.setattr(changes, "rows", counted)
    return made


def test_nothing_is_read_while_nothing_is_written(writer, db, reads):
    with closing(Changes(db)) as reported:
        first = reported.mark()
        for _ in range(3):
            assert reported.mark() == first
    assert len(reads) == 1


def test_claims_runs_and_heartbeats_change_nothing_and_an_attempt_does(writer, db, reads):
    ledger = begin(writer, {small(): 2})
    with closing(Changes(db)) as reported:
        before = reported.mark()
        (repeat, _) = ledger.open_repeats()
        ledger.claim(repeat, NOON)
        ledger.run(repeat, "/runs/1", PLACEMENT, NOON)
        ledger.beat(NOON)
        assert reported.mark() == before
        assert len(reads) == 2
        ledger.finish(repeat.repeat_id, attempt(small(), 50.0), NOON)
        after = reported.mark()
        assert after != before
        ledger.end(NOON, finished=True)
        assert reported.mark() != after


def test_what_people_do_to_results_changes_something(writer, db):
    fill(db, [(small(), 50.0), (small(), 60.0)])
    with closing(Changes(db)) as reported, closing(Writer(db)) as open_:
        marks = [reported.mark()]
        engine = open_.engine
        marking.add_tags(engine, targets.find(engine, "1"), ["good"], NOON)
        marks.append(reported.mark())
        marking.add_note(engine, targets.find(engine, "1"), "a fan was broken", NOON)
        marks.append(reported.mark())
        one, other = (marking.choose(engine, [number], deleted=False) for number in ("1", "2"))
        marking.set_deleted(engine, one, NOON)
        marks.append(reported.mark())
        marking.set_deleted(engine, other, NOON)
        marking.set_deleted(engine, one, None)
        marks.append(reported.mark())
        with changing(db) as connection:
            connection.execute(sa.text("DELETE FROM reference_results"))
        marks.append(reported.mark())
    assert len(set(marks)) == len(marks)


def test_a_file_that_goes_is_said_and_another_in_its_place_is_seen():
    with closing(Changes("r.db")) as reported:
        with pytest.raises(StoreError, match=r"^r\.db: no such database; run a sweep first"):
            reported.mark()
        fill("r.db", [(small(), 50.0)])
        first = reported.mark()
        for name in ("r.db", "r.db-wal", "r.db-shm"):
            Path(name).unlink(missing_ok=True)
        with pytest.raises(StoreError, match=r"^r\.db: no such database"):
            reported.mark()
        fill("r.db", [(small(), 50.0)])
        assert reported.mark() != first


def test_a_file_that_is_replaced_at_once_is_seen():
    fill("other.db", [(small(), 50.0)])
    fill("r.db", [(small(), 50.0)])
    with closing(Changes("r.db")) as reported:
        first = reported.mark()
        for name in ("r.db-wal", "r.db-shm"):
            Path(name).unlink(missing_ok=True)
        Path("other.db").replace("r.db")
        assert reported.mark() != first


def test_postgresql_can_be_dropped_while_somebody_looks_for_changes(postgresql_url):
    Writer(postgresql_url).close()
    with closing(Changes(postgresql_url)) as reported:
        reported.mark()
        server = sa.create_engine(
            sa.make_url(postgresql_url).set(database="postgres"), isolation_level="AUTOCOMMIT"
        )
        with server.connect() as connection:
            connection.exec_driver_sql(f'DROP DATABASE "{sa.make_url(postgresql_url).database}"')
        with pytest.raises(StoreError, match="is the server there"):
            reported.mark()
        with server.connect() as connection:
            connection.exec_driver_sql(f'CREATE DATABASE "{sa.make_url(postgresql_url).database}"')
        with pytest.raises(StoreError, match="no such database"):
            reported.mark()
        Writer(postgresql_url).close()
        assert reported.mark()
        server.dispose()
