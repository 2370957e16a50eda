"""Shows a sweep that has ended: tables on stdout, pictures and a report in a folder."""

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from analysis.pivot import varied_tables
from analysis.selection import Selection
from plots.layout import document
from plots.source import PlotSource, in_words, write_whole, wrote
from plots.writers import chosen
from scalemark.cli.terminal import silence
from scalemark.records.references import Origin
from scalemark.text.untrusted import masked
from scalemark.text.wording import counted
from store.database import open_for_reading, reading
from store.errors import LostDatabaseError
from store.reading.sweeps import newest_sweeps

MOST_TABLES = 30
# the first of these that have something to show; the report has all that a sweep tells
CHARTS = ("throughput", "scaling", "batch_sizes")
MOST_CHARTS = 2
_COMMANDS = {"tables": "table", "report": "report"}  # of parts; all others are charts

Tell = Callable[[str], None]


def show(url: str, sweep: str, folder: Path, tell: Tell, origin: Origin = Origin.MEASURED) -> bool:
    """Return False when something could not be drawn or written; `tell` is called with what and
    why, and the rest is still shown. Raises KeyboardInterrupt, after saying that the results are
    stored.
    """
    selection = Selection(db=url, sweep=sweep, origin=origin)
    ending = _Ending(selection, folder, tell)
    try:
        ending.attempt("tables", ending.print_tables)
        ending.attempt("report", ending.write_report)
        for name in CHARTS:
            if ending.num_charts < MOST_CHARTS:
                ending.attempt(f"chart {name}", partial(ending.draw, name))
        with reading(open_for_reading(url)) as connection:
            is_newest = newest_sweeps(connection, 1) == [sweep]
    except LostDatabaseError as error:
        ending.tell_written()
        tell(f"sweep: nothing more is drawn: {in_words(error)}")
        return False
    except KeyboardInterrupt:
        ending.tell_written()
        commands = f"{ending.command('report')} and {ending.command('chart')}"
        tell(
            f"sweep: drawing was interrupted at {ending.doing}; the results are stored, {commands} "
            "draw them"
        )
        raise
    if ending.why_none and ending.num_charts == 0:
        tell(f"no chart: {ending.why_none}")
    ending.tell_written()
    tell(f"all charts: {ending.command('chart')}")
    secret = " (with the password for ***)" if masked(url) != url else ""
    # of the newest sweep, and of what others measured of the same work; one that went on may be old
    ask = selection.analysis("advise") if is_newest else ending.command("advise")
    tell(f"ask what it means: {ask}{secret}")
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
        # of other sweeps, or of this one before it went on
        self._earlier = {path.name for path in folder.glob("*")}
        # tables, report and charts read the results once for all
        self._source = PlotSource(selection=selection, command=self.command("chart"))

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
            self._tell(wrote(self.paths, self._earlier))

    def print_tables(self) -> None:
        tables = varied_tables(self._source.results)
        try:
            laid_out = document(tables[:MOST_TABLES], self._selection, failed=self._failed)
            chosen(None)(laid_out, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:  # whoever read it has seen enough
            silence(sys.stdout)
        except OSError:
            silence(sys.stdout)
            raise
        num_more = len(tables) - MOST_TABLES
        if num_more > 0:
            self._tell(f"{counted(num_more, 'more table')}: {self.command('table')}")

    def write_report(self) -> None:
        from plots.report import render  # here, because it takes its time to import

        self._folder.mkdir(parents=True, exist_ok=True)
        source = replace(
            self._source, command=self.command("report"), read_already=self._source.results
        )
        page = render(source, datetime.now(UTC), failed=self._failed)
        path = self._folder / "report.html"  # the newest, whatever it is of
        write_whole(path, page)
        self.paths.append(path)

    def draw(self, chart: str) -> None:
        from plots import drawing

        num_before = len(self.paths)
        drawn = drawing.draw(self._source, self._folder, [chart], passed_over=self._passed_over)
        for path in drawn:
            self.paths.append(path)
        self.num_charts += len(self.paths) > num_before

    def _passed_over(self, chart: str, why: str) -> None:
        self.why_none = self.why_none or f"{chart}: {why}"

    def _failed(self, what: str, error: Exception) -> None:
        self.is_well = False
        again = self.command(_COMMANDS.get(self.doing, "chart"))
        self._tell(f"sweep: no {what}: {in_words(error)}; the results are stored, see {again}")

    def command(self, name: str) -> str:
        """Return the command that shows the same sweep again."""
        return self._selection.analysis(name, "--sweep", self._selection.sweep or "")
