"""Says what is at which path: the list of sweeps at /, below it a page for each and one for all."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote, unquote

from analysis.origin import choose
from analysis.results import Origin
from analysis.selection import Selection
from plots.serve import page, sweeps
from plots.serve.current import Current, Makers, What
from plots.serve.server import Answer
from plots.source import Source

_MOST_KEPT = 16  # pages in memory, about a megabyte each
_PATH = re.compile(r"/(?:all|sweeps/(?P<sweep>[^/]+))/(?P<data>data\.json)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a server shows, of which database."""

    selection: Selection  # of all results; a page of a sweep has those of the sweep
    origin: Origin | None  # None: that of the newest sweep that matches
    command: str
    every_s: float  # between two looks at the database


def path_of(sweep: str | None) -> str:
    """Return the path of a sweep's page, or of the page of all results."""
    return "/all/" if sweep is None else f"/sweeps/{quote(sweep, safe='')}/"


class Site:
    """Answers any number of threads."""

    def __init__(self, shown: Shown, clock: Callable[[], float] = time.monotonic) -> None:
        self._shown, self._clock = shown, clock
        # apart, because reading the list may wait for a locked database
        self._lock, self._list_lock = threading.Lock(), threading.Lock()
        self._kept: OrderedDict[str | None, Current] = OrderedDict()  # least recently asked first
        self._list = sweeps.NO_LIST
        self._listed_s: float | None = None

    def answer(self, path: str) -> Answer | None:
        if path == "/":
            return Answer(body=self._newest_list().html, kind="text/html", policy=page.POLICY)
        if path == "/healthz":
            return self._health()
        found = _PATH.fullmatch(path)
        if found is None:
            return None
        current = self._current(found["sweep"] and unquote(found["sweep"]))
        if found["data"]:
            body = current.ask(What.REPORT).to_json()
            return Answer(body=body, kind="application/json")
        now = current.ask(What.PAGE)
        html = now.page or page.waiting_page(now.problem or "", self._shown.every_s)
        return Answer(body=html, kind="text/html", policy=page.POLICY)

    def _health(self) -> Answer:
        problem = self._newest_list().problem
        if problem:
            return Answer(body=f"{problem}\n", status=HTTPStatus.SERVICE_UNAVAILABLE)
        return Answer(body="ok\n")

    def _newest_list(self) -> sweeps.SweepList:
        """Look into the database, unless somebody just has."""
        with self._list_lock:
            now_s, shown = self._clock(), self._shown
            if self._listed_s is None or now_s - self._listed_s >= shown.every_s:
                self._list = sweeps.read(shown.selection, shown.origin, shown.every_s)
                self._listed_s = self._clock()
            return self._list

    def _current(self, sweep: str | None) -> Current:
        """Return what keeps the page of a sweep; those that nobody asks for any more are let go."""
        with self._lock:
            if sweep not in self._kept:
                self._kept[sweep] = self._begun(sweep)
            self._kept.move_to_end(sweep)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
            return self._kept[sweep]

    def _begun(self, sweep: str | None) -> Current:
        shown = self._shown
        make = Makers(
            source=lambda: _source(shown, sweep),
            page=lambda source, mark: page.live_page(source, mark, shown.every_s),
            report=page.report,
        )
        return Current(shown.selection.db, make, shown.every_s, sweep=sweep)


def _source(shown: Shown, sweep: str | None) -> Source:
    """Return the results as they are now. Raises StoreError as `analysis.selection.load`."""
    of_all = shown.selection
    chosen = choose(of_all.db, of_all.filters, sweep, shown.origin, baseline=of_all.baseline)
    return Source(selection=chosen.selection, command=shown.command)
