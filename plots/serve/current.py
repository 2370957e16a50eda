"""The newest page and report of one choice of results: made again when somebody asks and results
have changed, by one thread for all who ask.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from plots.source import Source
from scalemark.cli.terminal import finite
from scalemark.text.untrusted import quoted
from scalemark.text.wording import duration_text
from store.database import open_for_reading
from store.errors import StoreError
from store.reading.changes import Changes
from store.sweeps.sweep_status import SweepState, SweepStatus, sweep_status


class What(Enum):
    """Things to ask for."""

    PAGE = auto()
    REPORT = auto()


IDLE_S = 60.0
"""How long after nobody has asked any more the thread ends; the next who asks starts another."""

_PATIENCE_S = {What.PAGE: 10.0, What.REPORT: 2.0}
"""How long who asks waits for what is being made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Makers:
    """Functions that make things of the results."""

    source: Callable[[], Source]  # each time from the database as it is then
    page: Callable[[Source, str], str]  # and their mark
    report: Callable[[Source], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """Everything there is at one moment."""

    problem: str | None = None  # why results cannot be read, or may be old
    sweeps: tuple[str, ...] = ()  # a line for each that runs
    report: str = "null"  # JSON
    # of the results that it is made of; None as long as there is none
    report_mark: str | None = None
    page: str = ""
    page_mark: str | None = None

    def to_json(self) -> str:
        """Return `problem`, `sweeps`, `report` and its `mark`, which browsers poll."""
        reported = json.dumps(
            {"problem": self.problem, "sweeps": self.sweeps, "mark": self.report_mark}
        )
        return f'{reported[:-1]}, "report": {self.report}}}'


class Current:
    """Answers any number of threads; one thread reads the database, and only when somebody asks.

    Of the sweeps that run it names all, or `sweep` alone.
    """

    def __init__(
        self,
        db: str,
        make: Makers,
        every_s: float,
        *,
        sweep: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._db, self._make, self._every_s, self._clock = db, make, every_s, clock
        self._sweep = sweep
        self._condition = threading.Condition()
        self._now = Now(problem="the database was not read yet")
        self._looked_s: float | None = None  # when the newest look that is over began
        self._begun_s: float | None = None  # when the one that lasts began
        self._num_looks = 0  # that are over
        self._wanted: set[What] = set()
        self._last_write: str | None = None
        self._is_kept = False  # by a thread

    def ask(self, what: What) -> Now:
        """Return the newest results, or the problem why they are older or missing."""
        with self._condition:
            if self._is_recent() and self._is_made(what):
                return self._now
            seen, asked_s = self._num_looks, self._clock()
            self._wanted.add(what)
            if not self._is_kept:
                self._is_kept = True
                threading.Thread(target=self._keep, daemon=True).start()
            self._condition.notify_all()
            if self._condition.wait_for(
                lambda: self._num_looks > seen and self._is_made(what), _PATIENCE_S[what]
            ):
                return self._now
            since_s = asked_s if self._begun_s is None else self._begun_s
            lasting = (
                "reading the database and making the report has taken "
                f"{self._clock() - since_s:.0f} s so far"
            )
            return replace(
                self._now, problem=f"{lasting}: it is large, or locked by another program"
            )

    def _is_recent(self) -> bool:
        return self._looked_s is not None and self._clock() - self._looked_s < self._every_s

    def _is_made(self, what: What) -> bool:
        """Return whether it is made of the newest results, if there are any."""
        return (
            self._now.problem is not None
            or what is What.REPORT
            or self._now.page_mark == self._now.report_mark
        )

    def _keep(self) -> None:
        with closing(Changes(self._db)) as changes:
            while True:
                with self._condition:
                    if not self._condition.wait_for(lambda: self._wanted, IDLE_S):
                        self._is_kept = False
                        return
                    wanted, self._wanted = self._wanted, set()
                    begun_s = self._begun_s = self._clock()
                now = self._look(changes, wanted)
                with self._condition:
                    self._now, self._looked_s, self._begun_s = now, begun_s, None
                    self._num_looks += 1
                    self._condition.notify_all()

    def _look(self, changes: Changes, wanted: set[What]) -> Now:
        try:
            return self._newest(changes, wanted)
        except StoreError as error:
            problem = quoted(str(error))
        except Exception as error:  # said on the page; the next results may do better
            problem = f"the report cannot be made: {type(error).__name__}: {quoted(str(error))}"
            if problem != self._now.problem:
                traceback.print_exc(file=sys.stderr)
        return Now(problem=problem)

    def _newest(self, changes: Changes, wanted: set[What]) -> Now:
        mark = hashlib.sha256(changes.mark().encode()).hexdigest()[:16]
        now, source = replace(self._now, problem=None), self._make.source()
        if now.report_mark != mark:
            now = replace(
                now, report=json.dumps(finite(self._make.report(source))), report_mark=mark
            )
        if What.PAGE in wanted and now.page_mark != mark:
            now = replace(now, page=self._make.page(source, mark), page_mark=mark)
        if now.sweeps or self._last_write is None or changes.last_write != self._last_write:
            now = replace(now, sweeps=self._running())
            self._last_write = changes.last_write
        return now

    def _running(self) -> tuple[str, ...]:
        found = sweep_status(open_for_reading(self._db))
        running = [sweep for sweep in found if sweep.state is SweepState.RUNNING]
        return tuple(in_a_line(one) for one in running if self._sweep in (None, one.name))


def in_a_line(sweep: SweepStatus) -> str:
    """Describe progress; the line stays the same as long as nothing begins or ends."""
    running = ", ".join(running_in(sweep))
    return f"sweep {sweep.name}: {progress_of(sweep)}; now: {running or 'nothing'}"


def progress_of(sweep: SweepStatus) -> str:
    """Return how much is done, and how long the rest will take where that is known."""
    failed = f" ({sweep.num_failed} failed)" if sweep.num_failed else ""
    done = f"{sweep.num_done} of {sweep.counts.total()} done{failed}"
    eta_s = sweep.eta_s if sweep.state is SweepState.RUNNING else None
    return done if eta_s is None else f"{done}, about {duration_text(eta_s)} left"


def running_in(sweep: SweepStatus) -> list[str]:
    return [f"{one.label} repeat {one.repeat}" for one in sweep.running]
