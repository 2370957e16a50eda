"""What browsers are given is made when results have changed, not before; and what is wrong with the database is said."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from analysis.selection import Selection
from plots.serve import current
from plots.serve.current import Current, Makers, Now, What
from plots.source import Source
from scalemark.host.process_identity import this_process
from store import engine
from store.writer import Writer
from tests.filled import NOON, PLACEMENT, attempt, begin, fill
from tests.specs import small

PATIENCE_S = 300  # it costs nothing where all is well, and a busy machine may need much


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks waits for the answer, however slow this machine is."""
    monkeypatch.setattr(current, "_PATIENCE_S", dict.fromkeys(What, PATIENCE_S))


class Made:
    """Pages and reports that tell what they were made of, and how many there were."""

    def __init__(self, db: str) -> None:
        self.num_pages = self.num_reports = 0
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.makers = Makers(
            source=lambda: Source(selection=Selection(db=db), command=""),
            page=self._page,
            report=self._report,
        )

    def _page(self, source: Source, mark: str) -> str:
        self.num_pages += 1
        return f"page of {[result.throughput for result in source.results]}"

    def _report(self, source: Source) -> dict[str, object]:
        assert self.may_go_on.wait(PATIENCE_S)
        self.num_reports += 1
        return {"results": [result.throughput for result in source.results]}


@pytest.fixture(params=["sqlite", "postgresql"])
def db(request: pytest.FixtureRequest) -> str:
    return "r.db" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")


def results(now: Now) -> object:
    assert now.problem is None
    reported = json.loads(now.to_json())
    assert (reported["problem"], reported["mark"]) == (None, now.report_mark)
    return reported["report"]["results"]


def test_what_lands_is_seen_and_made_once_for_all_who_ask(db):
    fill(db, [(small(), 100.0)])
    made = Made(db)
    shown = Current(db, made.makers, every_s=0)
    before = shown.ask(What.REPORT)
    assert results(before) == [100.0]
    assert shown.ask(What.REPORT).to_json() == before.to_json()
    fill(db, [(small(num_gpus=2), 190.0)], name="second")
    after = shown.ask(What.REPORT)
    assert results(after) == [100.0, 190.0]
    assert after.report_mark != before.report_mark
    assert (made.num_reports, made.num_pages) == (2, 0)
    assert shown.ask(What.PAGE).page == "page of [100.0, 190.0]"
    assert shown.ask(What.PAGE).page_mark == after.report_mark
    assert (made.num_reports, made.num_pages) == (2, 1)


def test_between_two_looks_nothing_is_read():
    fill("r.db", [(small(), 100.0)])
    clock = [0.0]
    shown = Current("r.db", Made("r.db").makers, every_s=2, clock=lambda: clock[0])
    assert results(shown.ask(What.REPORT)) == [100.0]
    fill("r.db", [(small(num_gpus=2), 190.0)], name="second")
    clock[0] = 1.9
    assert results(shown.ask(What.REPORT)) == [100.0]
    clock[0] = 2.0
    assert results(shown.ask(What.REPORT)) == [100.0, 190.0]


def test_a_missing_empty_or_new_database_is_said_and_recovered_from():
    made = Made("r.db")
    shown = Current("r.db", made.makers, every_s=0)
    reported = shown.ask(What.PAGE)
    assert (
        reported.problem
        == "r.db: no such database; run a sweep first, or name another with --db FILE or SCALEMARK_DB"
    )
    assert (reported.page, reported.report, reported.report_mark) == ("", "null", None)
    Writer("r.db").close()
    assert shown.ask(What.PAGE).problem == "r.db: no attempt in it yet; run a sweep first"
    fill("r.db", [(small(), 100.0)])
    assert shown.ask(What.PAGE).page == "page of [100.0]"
    for path in Path().glob("r.db*"):
        path.unlink()
    reported = shown.ask(What.REPORT)
    assert reported.problem.startswith("r.db: no such database")
    assert (reported.page, reported.report) == ("", "null")
    fill("r.db", [(small(), 50.0)])
    assert results(shown.ask(What.REPORT)) == [50.0]
    assert shown.ask(What.PAGE).page == "page of [50.0]"
    Path("r.db").write_bytes(b"nonsense" * 1000)
    assert "not a database" in shown.ask(What.REPORT).problem


def test_a_locked_database_is_said_at_once_and_when_nobody_waits_any_more(monkeypatch):
    fill("r.db", [(small(), 100.0)])
    with closing(sqlite3.connect("r.db", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")  # in which who writes keeps readers out
        other.execute("BEGIN EXCLUSIVE")
        monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", PATIENCE_S)
        waiting = Current("r.db", Made("r.db").makers, every_s=0, clock=lambda: 0.0)
        with monkeypatch.context() as impatient:
            impatient.setattr(current, "_PATIENCE_S", {What.REPORT: 0.1})
            assert waiting.ask(What.REPORT).problem == (
                "reading the database and making the report has taken 0 s so far: it is large, or locked by another program"
            )
        monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", 1)
        reported = Current("r.db", Made("r.db").makers, every_s=0).ask(What.REPORT)
        assert reported.problem.startswith("r.db: database is locked; another program kept it so")
    assert results(waiting.ask(What.REPORT)) == [100.0]


def test_nothing_runs_while_nobody_asks(monkeypatch):
    fill("r.db", [(small(), 100.0)])
    monkeypatch.setattr(current, "IDLE_S", 0.0)
    shown = Current("r.db", Made("r.db").makers, every_s=0)
    before = set(threading.enumerate())
    for _ in range(2):
        assert results(shown.ask(What.REPORT)) == [100.0]
        for thread in set(threading.enumerate()) - before:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()


def test_old_results_are_shown_while_new_ones_take_their_time(monkeypatch):
    fill("r.db", [(small(), 100.0)])
    made = Made("r.db")
    shown = Current("r.db", made.makers, every_s=0)
    assert shown.ask(What.PAGE).page == "page of [100.0]"
    made.may_go_on.clear()
    fill("r.db", [(small(num_gpus=2), 190.0)], name="second")
    with monkeypatch.context() as impatient:
        impatient.setattr(current, "_PATIENCE_S", {What.PAGE: 0.1})
        reported = shown.ask(What.PAGE)
    assert "it is large, or locked" in reported.problem
    assert reported.page == "page of [100.0]"
    made.may_go_on.set()
    assert shown.ask(What.PAGE).page == "page of [100.0, 190.0]"


def test_a_report_that_cannot_be_made_is_said_and_the_next_one_is_made(capsys):
    fill("r.db", [(small(), 100.0)])
    made = Made("r.db")
    made.may_go_on = None  # nothing can be made without
    shown = Current("r.db", made.makers, every_s=0)
    for _ in range(2):
        assert shown.ask(What.REPORT).problem.startswith(
            "the report cannot be made: AttributeError: 'NoneType' object has no"
        )
    assert capsys.readouterr().err.count("Traceback") == 1
    made.may_go_on = threading.Event()
    made.may_go_on.set()
    assert results(shown.ask(What.REPORT)) == [100.0]


def test_a_sweep_that_runs_is_reported_until_it_has_ended(db):
    fill(db, [(small(model="vgg16"), 10.0)], name="before")
    shown = Current(db, Made(db).makers, every_s=0)
    assert shown.ask(What.REPORT).sweeps == ()
    with running(db) as ledger:
        first, _ = ledger.open_repeats()
        ledger.claim(first, NOON)
        ledger.run(first, "/runs/1", PLACEMENT, datetime.now(UTC))
        label = f"trivial-replicated_none-x1 {small().trial_id[:8]}"
        assert shown.ask(What.REPORT).sweeps == (f"sweep mine: 0 of 2 done; now: {label} repeat 1",)
        ledger.finish(first.repeat_id, attempt(small(), None), NOON)
        assert shown.ask(What.REPORT).sweeps == (
            "sweep mine: 1 of 2 done (1 failed); now: nothing",
        )
        ledger.end(NOON, finished=True)
    assert shown.ask(What.REPORT).sweeps == ()


@contextmanager
def running(db: str) -> Iterator[object]:
    writer = Writer(db)
    try:
        yield begin(
            writer, {small(): 2}, name="mine", process=this_process(), started_at=datetime.now(UTC)
        )
    finally:
        writer.close()
