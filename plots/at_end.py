"""What a sweep shows when it has ended: tables on stdout, pictures and a report in a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from analysis.pivot import usual_tables
from analysis.results import Origin
from analysis.selection import Selection
from plots import again
from plots.commands.report import write
from plots.parts import in_words
from plots.source import Source
from plots.tables import formats
from plots.tables.document import document
from scalemark.cli.terminal import silence
from scalemark.text.redact import masked
from store.errors import LostDatabaseError

MOST_TABLES = 30
MOST_PICTURES = 12  # of each chart
REPORT = {Origin.MEASURED: "report.html", Origin.SIMULATED: "report-simulated.html"}

Tell = Callable[[str], None]


def show(url: str, sweep: str, folder: Path, tell: Tell, origin: Origin = Origin.MEASURED) -> bool:
    """False when something could not be drawn or written, which is told, and does not keep the rest
    from it.

    Whoever interrupts it is told that the results are stored; raises KeyboardInterrupt then.
    """
    doing = "tables"
    selection = Selection(db=url, sweep=sweep, origin=origin)
    try:
        is_well = _print_tables(selection, tell)
        doing = "report"
        is_well &= _write_report(selection, folder, tell)
        doing = "charts"
        from plots.pictures import drawing  # here, because matplotlib is slow to import

        source = _source(selection, "charts")
        for doing in drawing.names():
            is_well &= _draw(source, folder, doing, tell)
        secret = " (with the password for ***)" if masked(url) != url else ""
        tell(f"ask what it means: {_command('advise', selection, 'analysis')}{secret}")
    except LostDatabaseError as error:
        tell(f"sweep: nothing more is drawn: {in_words(error)}")
        return False
    except KeyboardInterrupt:
        again = f"{_command('report', selection)} and {_command('charts', selection)} draw them"
        tell(f"sweep: drawing was interrupted at {doing}; the results are stored, {again}")
        raise
    return is_well


def _print_tables(selection: Selection, tell: Tell) -> bool:
    failures: dict[str, Exception] = {}
    see = _command("tables", selection)
    try:
        source = _source(selection, "tables")
        found = usual_tables(source.results)
        told = document(found[:MOST_TABLES], selection, failed=failures.setdefault)
        formats.chosen(None)([told], sys.stdout)
        sys.stdout.flush()
    except OSError as error:
        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            tell(f"sweep: the tables cannot be written: {error.strerror}; see {see}")
            return False
    except LostDatabaseError:
        raise
    except Exception as error:  # whatever it is, the report and the charts are worth trying
        tell(f"sweep: no tables: {in_words(error)}")
        return False
    finally:
        for name, reason in failures.items():
            tell(f"sweep: no {name}: {in_words(reason)}; the results are stored, see {see}")
    if len(found) > MOST_TABLES:
        num = len(found) - MOST_TABLES
        tell(f"{num} more table{'' if num == 1 else 's'}: {see}")
    return not failures


def _write_report(selection: Selection, folder: Path, tell: Tell) -> bool:
    from plots.report.page import render  # here, because it takes its time to import

    command = _command("report", selection)
    failures: dict[str, Exception] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        source = _source(selection, "report")
        write(
            folder / REPORT[selection.origin],
            render(source, datetime.now(UTC), failed=failures.setdefault),
        )
    except OSError as error:
        tell(
            f"sweep: no report: {folder}: {error.strerror}; the results are stored, write it "
            f"with {command} --out FILE"
        )
        return False
    except LostDatabaseError:
        raise
    except Exception as error:  # whatever it is, charts are worth trying
        tell(
            f"sweep: no report: {in_words(error)}; the results are stored, write it with "
            f"{command} --out FILE"
        )
        return False
    tell(f"report: {folder / REPORT[selection.origin]}")
    for name, reason in failures.items():
        tell(
            f"sweep: not in the report: {name}: {in_words(reason)}; the results are stored, "
            f"write it with {command} --out FILE"
        )
    return not failures


def _draw(source: Source, folder: Path, chart: str, tell: Tell) -> bool:
    from plots.pictures import drawing  # here, as above

    command = f"{source.command} --chart {chart}"
    further: list[str] = []
    try:
        for path in drawing.draw(
            source, folder, [chart], most=MOST_PICTURES, cut_short=further.append
        ):
            tell(f"chart: {path}")
    except LostDatabaseError:
        raise
    except Exception as error:  # whatever it is, the other charts are worth trying
        tell(
            f"sweep: no chart {chart}: {in_words(error)}; the results are stored, draw it "
            f"with {command} --out FOLDER"
        )
        return False
    for text in further:
        tell(f"chart: {text}; all are drawn by {command}")
    return True


def _source(selection: Selection, command: str) -> Source:
    return Source(selection=selection, command=_command(command, selection))


def _command(name: str, selection: Selection, room: str = "plots") -> str:
    """Shows the same again."""
    assert selection.sweep is not None
    is_simulated = selection.origin is Origin.SIMULATED
    return again.command(name, selection.db, selection.sweep, is_simulated=is_simulated, room=room)
