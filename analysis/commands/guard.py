"""`scalemark guard`: which trials changed their throughput over nights, when, and what else did."""

from collections.abc import Sequence
from itertools import product
from typing import Annotated, Any

import typer

from analysis.guard.changes import COLUMNS, Change, ChangeState, cells_of, changes, headline, notes
from analysis.guard.histories import Record, histories
from analysis.guard.scan import LEAST
from analysis.options import select
from analysis.screen import say, say_command
from analysis.selection import Selection
from scalemark.cli import terminal
from scalemark.host.own_code import typed
from scalemark.text.untrusted import command_line
from scalemark.text.wording import as_typed
from store.command_line import Db, Filters, Json, OriginOption, Sweep
from store.filters import escaped
from store.reading.sweeps import ACCEPTED

_REGRESSED = 1  # exit code
# of a change, by --json
_PRINTED = (
    *("state", "after", "earliest", "latest", "found", "groups", "machines", "causes", "sweeps"),
    *("accepted", "recovered"),
)


def guard(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    min_change: Annotated[
        float,
        typer.Option(metavar="PERCENT", help="Smaller changes are no alarm.", min=0, max=90),
    ] = 100 * LEAST,
    as_json: Json = False,
) -> None:
    """Say which trials got slower or faster over the nights, when, and what else changed then.

    Exit code 1 while there is a regression that has not recovered and that nobody accepted.
    """
    chosen = select(db, filters, sweep, origin)
    records = histories(chosen)
    shown = list(changes(records, min_change / 100))
    with terminal.reader_may_leave():
        if as_json:
            terminal.print_json(_answer(chosen, records, shown))
        else:
            _print(chosen, records, shown)
    if any(change.state is ChangeState.REGRESSION for change in shown):
        raise typer.Exit(_REGRESSED)


def _print(chosen: Selection, records: Sequence[Record], shown: Sequence[Change]) -> None:
    console = terminal.make_console()
    say(console, headline(shown, records), "bold")
    if shown:
        console.print()
        names_machines = len({record.machine for record in records}) > 1
        rows = [cells_of(change, names_machines=names_machines) for change in shown]
        width = terminal.reading_width(console)
        terminal.print_columns(console, COLUMNS, rows, frozenset({"trials"}), piped_width=width)
        console.print()
    regressions = [change for change in shown if change.state is ChangeState.REGRESSION]
    if regressions:
        newest = max(regressions, key=lambda change: change.found)
        command = next_command(newest, chosen)
        if command:
            say_command(console, f"next: {command}", "")
        words = command_line([*chosen.named_db, newest.sweeps[-1], "--tag", ACCEPTED])
        accept = f"{typed('db mark')} {words}"
        say(console, f"are the levels of {newest.first} intended? accept them: {accept}")
    if shown:
        chart = command_line([*chosen.named_db, "--chart", "history"])
        say(console, f"chart: {typed('chart')} {chart}")
    for note in (*notes(records), *chosen.notes):
        say(console, note, "dim")


def next_command(change: Change, chosen: Selection) -> str:
    """Return the command that compares nights surely before and after a change; empty where these
    nights share none of its trials.
    """
    sides = _sweeps(change)
    if not sides:
        return ""
    if len(change.groups) == 1 and len(change.cells) > 1:
        axis, has_value, _ = change.groups[0].partition("=")
        if has_value and axis in change.cells[0].axes:
            choice = f"{axis}={escaped(as_typed(change.cells[0].axes[axis]))}"
            narrowed = chosen.analysis("compare", *sides, choice)
            if len(f"next: {narrowed}") < terminal.READING_WIDTH:
                return narrowed
    return chosen.analysis("compare", *sides)


def _sweeps(change: Change) -> tuple[str, ...]:
    """Return the last sweeps before and after that share most of its trials."""
    before, after = change.sides
    own = {cell.trial_id for cell in change.cells}
    best: tuple[str, ...] = ()
    most_shared = 0
    for old, new in product(reversed(list(before.trials)), reversed(list(after.trials))):
        num_shared = len(own.intersection(before.trials[old], after.trials[new]))
        if old != new and num_shared > most_shared:
            best, most_shared = (f"sweep={old}", f"sweep={new}"), num_shared
    return best


def _answer(
    chosen: Selection, records: Sequence[Record], shown: Sequence[Change]
) -> dict[str, Any]:
    known, answers = [], []
    for record in records:
        history: dict[str, Any] = {"machine": record.machine, "is_simulated": record.is_simulated}
        history["num_nights"] = len(record.nights)
        history["first_night"], history["last_night"] = record.nights[0].day, record.nights[-1].day
        history["trials"] = [cell.trial_id for cell in record.cells]
        known.append(history)
    for change in shown:
        answer = {name: getattr(change, name) for name in _PRINTED}
        answer["first_night"] = change.first
        answer["change"] = change.share
        answer["change_low"], answer["change_high"] = change.low, change.high
        answer["trials"] = [cell.trial_id for cell in change.cells]
        answer["names"] = [cell.name for cell in change.cells]
        answers.append(answer | {"next": next_command(change, chosen)})
    return {"histories": known, "changes": answers, "notes": list(notes(records))}
