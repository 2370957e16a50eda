"""`python -m analysis guard`: what changed the throughput of trials over nights, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from analysis.history import reports
from analysis.history.changes import Change, State, changes
from analysis.history.reading import histories
from analysis.history.record import Histories, Night, short_machines
from analysis.history.scan import LEAST
from analysis.history.text import COLUMNS, cells_of, headline, notes
from analysis.options import Filters, OriginOption, Sweep, say, say_command, select
from analysis.selection import Selection
from scalemark.cli.terminal import (
    READING_WIDTH,
    make_console,
    print_columns,
    print_json,
    reader_may_leave,
    reading_width,
)
from scalemark.host.own_code import typed
from scalemark.records.when import WHEN
from scalemark.text.redact import command_line
from scalemark.text.wording import as_typed
from store.command_line import Db, Json
from store.errors import StoreError
from store.filters.filter_values import escaped
from store.reading.nights import ACCEPTED

_REGRESSED = 1  # exit code
_ACCEPTED = "--accepted"
_NUMBERS = frozenset({"trials"})


def guard(
    db: Db,
    filters: Filters = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Only changes from this night on, as 2026-03-14; older ones are known.",
            show_default="all",
        ),
    ] = None,
    accepted: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="The levels of this night are intended: regressions up to it are accepted.",
            show_default="none",
        ),
    ] = None,
    min_change: Annotated[
        float,
        typer.Option(metavar="PERCENT", help="Smaller changes are no alarm.", min=0, max=90),
    ] = 100 * LEAST,
    across_machines: Annotated[
        bool,
        typer.Option(
            "--across-machines",
            help="Let a change of machine be a change like any other; else it begins a new "
            "history.",
        ),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.")
    ] = None,
    bmf: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write Bencher Metric Format (JSON).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say which changes there were over all nights, when, of which trials, and what else changed
    then.

    Exit code 1 while there is a regression that has not recovered, and that nobody accepted.
    """
    day, accepted_day = _day("--since", since), _day(_ACCEPTED, accepted)
    chosen = select(db, filters, sweep, origin)
    found = histories(chosen, across_machines=across_machines)
    every = [_judged(one, accepted_day) for one in changes(found.records, min_change / 100)]
    shown = [change for change in every if day is None or change.first >= day]
    if junit:
        reports.write(junit, reports.junit(found.records, shown))
    if bmf:
        reports.write(bmf, reports.bencher(found.records))
    with reader_may_leave():
        if as_json:
            print_json(_record(chosen, found, shown))
        else:
            _print(chosen, found, shown, day)
    if any(change.state is State.REGRESSION for change in shown):
        raise typer.Exit(_REGRESSED)


def _judged(change: Change, accepted: date | None) -> Change:
    """Mark a regression up to the night whose levels are accepted."""
    if accepted is None or change.first > accepted or change.state is not State.REGRESSION:
        return change
    return replace(change, accepted=f"{_ACCEPTED} {accepted}")


def _day(option: str, text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text is not None else None
    except ValueError:
        raise StoreError(f"{option} {text}: no date; wanted one as 2026-03-14") from None


def _print(
    chosen: Selection, found: Histories, shown: Sequence[Change], since: date | None
) -> None:
    console = make_console()
    say(console, headline(shown, found.records, since), "bold")
    if shown:
        console.print()
        machines = short_machines(found.records)
        rows = [cells_of(change, machines) for change in shown]
        print_columns(console, COLUMNS, rows, _NUMBERS, piped_width=reading_width(console))
        console.print()
    own_db = chosen.named_db
    open_ones = [change for change in shown if change.state is State.REGRESSION]
    if open_ones:
        newest = max(open_ones, key=lambda change: change.found)
        if command := _next(newest, chosen):
            say_command(console, f"next: {command}", "")
        say(console, f"the new level is intended? accept it: {_accept(open_ones[0], chosen)}")
    if shown:
        chart = command_line(["charts", *own_db, "--chart", "history"])
        say(console, f"chart: {typed('plots')} {chart}")
    for note in (*notes(found.records), *found.notes, *chosen.notes):
        say(console, note, "dim")


def _next(change: Change, chosen: Selection) -> str:
    """Return the command that compares its trials before and after, all trials where their names
    fill a line; none where nothing tells these nights apart, or they share no trial.
    """
    before, after = change.sides
    sides = _sweeps(change) if before.sweeps else _days(before, after)
    if not sides:
        return ""
    every = chosen.analysis("compare", *sides)
    of_trials = chosen.analysis("compare", *sides, *_filters(change))
    return of_trials if len(of_trials) < READING_WIDTH - len("next: ") else every


def _sweeps(change: Change) -> tuple[str, str] | None:
    """Return the sweeps before and after that share most of its trials, of equals the last ones."""
    before, after = change.sides
    own = {cell.trial_id for cell in change.cells}

    def num_shared(pair: tuple[str, str]) -> int:
        old, new = pair
        return len(own & before.trials[old] & after.trials[new]) if old != new else 0

    pairs = product(reversed(before.sweeps), reversed(after.sweeps))
    best = max(pairs, key=num_shared)
    return (f"sweep={best[0]}", f"sweep={best[1]}") if num_shared(best) else None


def _days(before: Night, after: Night) -> tuple[str, str] | None:
    """Return the nights of a table, of which a version is an axis; one that a side names may
    differ.
    """
    if before.day == after.day:
        return None
    changed = [
        f"{name}={escaped(value)}"
        for name, value in before.software.items()
        if after.software.get(name) != value
    ]
    return " ".join([f"{WHEN}={before.day}", *changed]), f"{WHEN}={after.day}"


def _filters(change: Change) -> list[str]:
    """Return filters that choose its trials; none where these are all, or of several groups."""
    if len(change.groups) > 1:
        return []
    (group,), cell = change.groups, change.cells[0]
    names = cell.named_by
    if group != cell.name:  # `all`, or an axis and its value
        axis, has_value, _ = group.partition("=")
        names = (axis,) if has_value else ()
    return [f"{name}={escaped(as_typed(cell.axes[name]))}" for name in names]


def _accept(change: Change, chosen: Selection) -> str:
    if change.sweeps:
        words = command_line(["tag", *chosen.named_db, change.sweeps[-1], ACCEPTED])
        return f"{typed('store')} {words}"
    return chosen.analysis("guard", _ACCEPTED, str(change.first), *chosen.filters)


def _record(chosen: Selection, found: Histories, shown: Sequence[Change]) -> dict[str, Any]:
    return {
        "histories": [
            {
                "machine": record.machine,
                "is_simulated": record.is_simulated,
                "num_nights": len(record.nights),
                "first_night": record.nights[0].day,
                "last_night": record.nights[-1].day,
                "trials": [cell.trial_id for cell in record.cells],
            }
            for record in found.records
        ],
        "changes": [{**_change_record(change), "next": _next(change, chosen)} for change in shown],
        "notes": [*notes(found.records), *found.notes],
    }


def _change_record(change: Change) -> dict[str, Any]:
    return {
        "state": change.state,
        "first_night": change.first,
        "after": change.after,
        "earliest": change.earliest,
        "latest": change.latest,
        "found": change.found,
        "change": change.share,
        "change_low": change.low,
        "change_high": change.high,
        "groups": change.groups,
        "trials": [cell.trial_id for cell in change.cells],
        "names": [cell.name for cell in change.cells],
        "machines": change.machines,
        "causes": change.causes,
        "sweeps": change.sweeps,
        "accepted": change.accepted,
        "recovered": change.recovered,
    }
