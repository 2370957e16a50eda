"""A process that is killed before or after any statement leaves a database that opens, fits together, and holds attempts whole."""

import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from store.checks import check
from store.database import open_for_reading
from store.reading import queries
from store.sqlite import SqliteFile
from store.writer import Writer
from tests.filled import NOON, PLACEMENT, attempt, begin
from tests.specs import small

pytestmark = pytest.mark.integration

EVERY_POINT = bool(
    os.environ.get("SCALEMARK_EVERY_CRASH_POINT")
)  # takes minutes; else some of them, others in each test
OF_FILES = ("sqlite3.connect", "os.rename", "os.remove")
Work = Callable[[], None]


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed")


@contextmanager
def killed_at(point: int) -> Iterator[None]:
    """At the point with this number, counted from 1: before and after every statement, before every commit, before a file appears,
    gets another name, or goes."""
    num_passed = 0

    def tick(*_: object) -> None:
        nonlocal num_passed
        num_passed += 1
        if num_passed == point:
            die()

    def audited(name: str, _: object) -> None:
        if name in OF_FILES:
            tick()

    for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
        event.listen(sa.Engine, name, tick)
    sys.addaudithook(audited)  # it cannot be taken away: this process ends soon
    yield


def survives(work: Work, point: int) -> bool:
    """Whether a child process that is to be killed at this point got through all the work before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with killed_at(point):
                work()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), f"point {point}: {status}"
    return status == 0


def crash_points(work: Work, every: int) -> Iterator[int]:
    """Kills the work at one point after another, and goes on when it was; in the end it gets through."""
    for point in range(1, sys.maxsize, 1 if EVERY_POINT else every):
        if survives(work, point):
            return
        yield point


def record() -> None:
    """All that an orchestrator writes."""
    writer = Writer("r.db")
    spec, failing = small(seed=70), small(seed=71)
    ledger = begin(writer, {spec: 1, failing: 1}, name="crash")
    for repeat in ledger.open_repeats():
        ledger.claim(repeat)
        number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        ledger.started(repeat.repeat_id, 1, 1)
        ended = (
            attempt(spec, 7.0, number=number)
            if repeat.trial_id == spec.trial_id
            else attempt(failing, None, number=number)
        )
        ledger.finish(repeat.repeat_id, ended, again=ended.result.measurement is None)
    ledger.beat(NOON)
    ledger.end(NOON, finished=True)
    writer.close()


def restore(source: Path) -> None:
    for path in Path().glob("r.db*"):
        path.unlink()
    shutil.copy(source, "r.db")


HALF = (
    "SELECT attempts.id FROM attempts LEFT JOIN measurements ON measurements.attempt_id = attempts.id"
    " LEFT JOIN step_arrays ON step_arrays.attempt_id = attempts.id"
    " WHERE (outcome = 'completed') <> (measurements.attempt_id IS NOT NULL) OR (outcome = 'completed') <> (step_arrays.attempt_id IS NOT NULL)"
)


def test_who_records_can_be_killed_at_any_statement(empty_database):
    states = set()
    restore(empty_database)
    for point in crash_points(record, 6):
        assert list(check("r.db")) == [], point
        reader = open_for_reading("r.db")
        assert queries.rows(reader, HALF) == []
        states.add(
            tuple(sorted(row["state"] for row in queries.rows(reader, "SELECT state FROM repeats")))
        )
        restore(empty_database)
    assert list(check("r.db")) == []
    assert states >= {
        (),
        ("pending", "pending"),
        ("pending", "running"),
        ("completed", "pending"),
        ("completed", "running"),
    }


def test_who_makes_a_database_can_be_killed_at_any_statement():
    def make() -> None:
        Writer("r.db").close()

    def prepare() -> None:
        for path in Path().glob("r.db*"):
            path.unlink()

    prepare()
    num_killed = 0
    for point in crash_points(make, 7):
        num_killed += 1
        SqliteFile(Path("r.db")).is_made()  # raises when some of its tables are missing
        make()  # the second run completes
        assert list(check("r.db")) == [], point
        prepare()
    assert num_killed >= 3


def test_writers_that_are_killed_at_any_moment_leave_whole_attempts(empty_database):
    """Between statements and within: the parent kills, after as many attempts as it was reported of."""
    restore(empty_database)
    chance, num_reported = random.Random(5), 0
    for number in range(4):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(read)
                endless(f"sweep{number}", write)
            finally:
                os._exit(1)
        os.close(write)
        for _ in range(chance.randrange(1, 12)):
            num_reported += len(os.read(read, 1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(read, 4096):
            num_reported += len(more)
        os.close(read)
        assert list(check("r.db")) == []
        (found,) = queries.rows(open_for_reading("r.db"), "SELECT count(*) AS num FROM attempts")
        assert found["num"] - num_reported in range(
            number + 2
        )  # what was reported is there; what was not may be, once for each killed
        assert queries.rows(open_for_reading("r.db"), HALF) == []


def endless(name: str, reported: int) -> None:
    writer = Writer("r.db")
    spec = small(seed=72)
    ledger = begin(writer, {spec: 10_000}, name=name, rerun=True)
    for repeat in ledger.open_repeats():
        ledger.claim(repeat)
        number = ledger.run(repeat, "/runs/x", PLACEMENT, NOON)
        ledger.finish(repeat.repeat_id, attempt(spec, 7.0, repeat=repeat.repeat, number=number))
        os.write(reported, b".")
