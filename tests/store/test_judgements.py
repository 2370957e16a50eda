"""Proposals of a database are numbered in turn, and what they found is kept."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from scalemark.stats.welch import level_of
from store import judgements
from store.checks import check
from store.database import open_for_reading, open_for_writing, writing
from store.judgements import SeriesPlace
from store.reading import queries

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
BETTER = {
    "verdict": "better",
    "num_attempts": 14,
    "gain": 0.03,
    "gain_low": 0.01,
    "gain_high": 0.05,
}
WORSE = {"verdict": "worse", "num_attempts": 4, "gain": -0.3}
NEW = {
    "sweep": "judge-1",
    "baseline_trial": "aa",
    "change_trial": "bb",
    "change": "batch_size=128",
    "margin": 0.02,
    "started_at": NOON,
}


def begin(url: str) -> SeriesPlace:
    engine = open_for_writing(url)
    try:
        return judgements.begin(engine, **NEW)
    finally:
        engine.dispose()


def end(url: str, number: int, found: dict[str, object]) -> None:
    engine = open_for_writing(url)
    judgements.end(engine, number, ended_at=NOON + timedelta(minutes=1), **found)
    engine.dispose()


def test_each_proposal_has_the_next_number_and_the_wins_before_it(db):
    assert begin(db) == SeriesPlace(number=1, num_wins=0)
    end(db, 1, BETTER)
    assert begin(db) == SeriesPlace(number=2, num_wins=1)
    end(db, 2, WORSE)
    assert begin(db) == SeriesPlace(number=3, num_wins=1)


def test_one_that_was_killed_has_spent_its_number(db):
    begin(db)
    assert begin(db).number == 2


def test_a_database_goes_on_with_the_share_that_it_began_with(db):
    """Earlier versions had --false-wins and --series."""
    begin(db)
    engine = open_for_writing(db)
    with writing(engine) as connection:
        connection.execute(sa.text("UPDATE judgements SET allowed = 0.01"))
    engine.dispose()
    place = begin(db)
    assert (place.number, place.allowed) == (2, 0.01)
    assert place.level == level_of(2, 0, 0.01)


def test_a_plan_takes_no_number(db):
    open_for_writing(db).dispose()
    reader = open_for_reading(db)
    for _ in range(2):
        assert judgements.next_place(reader).number == 1
    begin(db)
    assert judgements.next_place(reader).number == 2


def test_what_was_found_can_be_queried(db):
    begin(db)
    end(db, 1, BETTER)
    reader = open_for_reading(db)
    (row,) = queries.rows(reader, "SELECT change, verdict, gain FROM judgements")
    assert (row["change"], row["verdict"], row["gain"]) == ("batch_size=128", "better", 0.03)


def test_proposals_that_begin_at_once_have_numbers_of_their_own(tmp_path):
    url = str(tmp_path / "results.db")
    open_for_writing(url).dispose()
    with ThreadPoolExecutor(8) as pool:
        places = list(pool.map(lambda _: begin(url), range(8)))
    assert sorted(place.number for place in places) == list(range(1, 9))


def test_a_database_with_judgements_is_sound(tmp_path):
    url = str(tmp_path / "results.db")
    begin(url)
    assert list(check(url)) == []
