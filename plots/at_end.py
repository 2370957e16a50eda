"""Shows a sweep that has ended: tables on stdout, pictures and a report in a folder."""

from __future__ import annotations

import html
import re
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path

import sqlalchemy as sa

from analysis.pivot import usual_tables
from analysis.selection import Selection
from plots.commands.report import write
from plots.options import in_words, wrote
from plots.source import FastestFirst, PlotSource
from plots.tables import writers
from plots.tables.layout import document
from scalemark.cli.terminal import silence
from scalemark.host.own_code import typed
from scalemark.records.references import Origin
from scalemark.text.untrusted import masked
from scalemark.text.wording import counted
from store.database import default_url
from store.errors import LostDatabaseError, NoSweepError
from store.reading.queries import asked_for

_SWEEP = re.compile(r'<meta name="scalemark-sweep" content="([^"]*)">')
_HEAD = 4096  # characters of a page, which have it


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReport:
    """A report that stays as it is."""

    path: Path
    sweep: str
    num_trials: int


def kept_report(path: Path, engine: sa.Engine, sweep: str) -> KeptReport | None:
    """Return the report at `path` where it is of a sweep of more trials, and `sweep` ran only some
    of these again, or a single trial, whichever it is; else None.
    """
    there = _sweep_of(path)
    if there in ("", sweep):
        return None
    try:
        others = asked_for(engine, there).positions.keys()
    except NoSweepError:  # of another database
        return None
    own = asked_for(engine, sweep).positions.keys()
    if own < others or len(own) == 1 < len(others):
        return KeptReport(path=path, sweep=there, num_trials=len(others))
    return None


def _sweep_of(path: Path) -> str:
    """Return the sweep that a report is of; empty of any other file, and where there is none."""
    try:
        with path.open(encoding="utf-8") as file:
            found = _SWEEP.search(file.read(_HEAD))
    except (OSError, UnicodeDecodeError):
        return ""
    return html.unescape(found[1]) if found else ""


def command_again(name: str, url: str, sweep: str | None, *, room: str = "plots") -> str:
    """Return a command to paste; a password is masked in it. Without a sweep it is about what the
    command takes by itself.
    """
    database = [] if url == default_url() else ["--db", masked(url)]
    of_sweep = [] if sweep is None else ["--sweep", sweep]
    return f"{typed(room)} {shlex.join([name, *database, *of_sweep])}"


MOST_TABLES = 30
MOST_PICTURES = 12  # of each chart
# the first of these that have something to show; the report has all that a sweep tells
CHARTS = ("throughput", "scaling", "batch_sizes")
MOST_CHARTS = 2  # with a picture per model at most, of its fastest setting

Tell = Callable[[str], None]


def show(url: str, sweep: str, folder: Path, tell: Tell, origin: Origin = Origin.MEASURED) -> bool:
    """Return False when something could not be drawn or written; `tell` is called with what and
    why, and the rest is still shown. Raises KeyboardInterrupt, after saying that the results are
    stored.
    """
    ending = _Ending(Selection(db=url, sweep=sweep, origin=origin), folder, tell)
    try:
        ending.attempt("tables", ending.print_tables)
        ending.attempt("report", ending.write_report)
        for name in CHARTS:
            if ending.num_charts < MOST_CHARTS:
                ending.attempt(f"chart {name}", partial(ending.draw, name))
        if ending.why_none and ending.num_charts == 0:
            tell(f"no chart: {ending.why_none}")
    except LostDatabaseError as error:
        ending.tell_written()
        tell(f"sweep: nothing more is drawn: {in_words(error)}")
        return False
    except KeyboardInterrupt:
        ending.tell_written()
        commands = f"{ending.command('report')} and {ending.command('charts')}"
        tell(
            f"sweep: drawing was interrupted at {ending.doing}; the results are stored, {commands} "
            "draw them"
        )
        raise
    ending.tell_written()
    ending.tell_kept()
    tell(f"all charts: {ending.command('charts')}")
    secret = " (with the password for ***)" if masked(url) != url else ""
    # of the newest sweep, and of what others measured of the same work
    tell(f"ask what it means: {command_again('advise', url, None, room='analysis')}{secret}")
    return ending.is_well


class _Ending:
    """Shows one sweep part by part, and remembers whether all went well."""

    def __init__(self, selection: Selection, folder: Path, tell: Tell) -> None:
        self.is_well = True
        self.num_charts = 0  # drawn
        self.why_none = ""  # of the first chart that has nothing to show
        self.paths: list[Path] = []  # of the files that were written
        self.doing = ""
        self._selection, self._folder, self._tell = selection, folder, tell

    def attempt(self, what: str, make: Callable[[], None]) -> None:
        """Make one part; a failure is reported with the command that makes the part again."""
        self.doing = what
        try:
            make()
        except LostDatabaseError:
            raise
        except Exception as error:  # whatever it is, the other parts are worth trying
            self._failed(what, error)

    def tell_written(self) -> None:
        if self.paths:
            self._tell(wrote(self.paths))

    def tell_kept(self) -> None:
        """Say which files of a larger sweep stay, and how its report takes in what was run now."""
        if self.paths and (kept := self._kept):
            anew = command_again("report", self._selection.db, kept.sweep)
            self._tell(
                f"kept {kept.path}, of {counted(kept.num_trials, 'trial')} of sweep {kept.sweep}; "
                f"{anew} --out {shlex.quote(str(kept.path))} makes it anew"
            )

    def print_tables(self) -> None:
        source = self._source("tables")
        found = usual_tables(source.results)
        try:
            shown = document(found[:MOST_TABLES], self._selection, failed=self._failed)
            writers.chosen(None)([shown], sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:  # whoever read it has seen enough
            silence(sys.stdout)
        except OSError:
            silence(sys.stdout)
            raise
        num_more = len(found) - MOST_TABLES
        if num_more > 0:
            self._tell(f"{num_more} more table{'' if num_more == 1 else 's'}: {source.command}")

    def write_report(self) -> None:
        from plots.report.page import render  # here, because it takes its time to import

        self._folder.mkdir(parents=True, exist_ok=True)
        source = replace(self._source("report"), names_sweep=self._kept is not None)
        page = render(source, datetime.now(UTC), failed=self._failed)
        path = self._folder / f"{source.file_name('report')}.html"
        write(path, page)
        self.paths.append(path)

    def draw(self, chart: str) -> None:
        from plots import drawing

        source = self._of_charts
        further: list[str] = []
        num_before = len(self.paths)
        num_models = len({result.axes.get("model") for result in source.results})
        for path in drawing.draw(
            source,
            self._folder,
            [chart],
            passed_over=self._passed_over,
            most=min(num_models, MOST_PICTURES),
            cut_short=further.append,
        ):
            self.paths.append(path)
        self.num_charts += len(self.paths) > num_before
        for text in further:
            self._tell(f"chart: {text}; all are drawn by {source.command} --chart {chart}")

    def _passed_over(self, chart: str, why: str) -> None:
        self.why_none = self.why_none or f"{chart}: {why}"

    def _failed(self, what: str, error: Exception) -> None:
        self.is_well = False
        again = self.command("charts" if self.doing.startswith("chart ") else self.doing)
        self._tell(f"sweep: no {what}: {in_words(error)}; the results are stored, see {again}")

    @cached_property
    def _of_charts(self) -> PlotSource:
        """Read the results once for all charts."""
        return FastestFirst(
            selection=self._selection,
            command=self.command("charts"),
            names_sweep=self._kept is not None,
        )

    @cached_property
    def _kept(self) -> KeptReport | None:
        source = self._source("report")
        assert self._selection.sweep is not None
        path = self._folder / f"{source.file_name('report')}.html"
        return kept_report(path, source.engine, self._selection.sweep)

    def _source(self, name: str) -> PlotSource:
        return PlotSource(selection=self._selection, command=self.command(name))

    def command(self, name: str) -> str:
        """Return the command that shows the same sweep again."""
        selection = self._selection
        assert selection.sweep is not None
        return command_again(name, selection.db, selection.sweep)
