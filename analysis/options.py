"""Options that commands about results share, and what they choose."""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import typer

from analysis.results import BaselineRule
from analysis.selection import Newest, Selection, Source, choose, newest
from scalemark.records.references import Origin
from scalemark.text.untrusted import visible
from scalemark.text.wording import counted
from store.database import open_for_reading, own_command, reading
from store.reading.listing import origin_note
from store.reading.sweeps import NotRun, newest_sweeps, not_run, without_number

All = Annotated[bool, typer.Option("--all", help="Everything that is known, at length.")]
SourceOption = Annotated[
    str | None,
    typer.Option(
        "--source",
        help=(
            "Only these published figures, as tf-benchmarks-2017 or tf-benchmarks-2017/k80, or "
            "this table."
        ),
    ),
]
BaselineOption = Annotated[
    BaselineRule,
    typer.Option(
        "--baseline",
        help=(
            "What speed-ups are against: the same strategy on 1 GPU, the best on 1, or the same "
            "on the fewest it ran on."
        ),
    ),
]


def select(
    db: str,
    filters: Sequence[str] | None,
    sweep: str | None,
    origin: Origin | None,
    source: str | None = None,
    baseline: BaselineRule = BaselineRule.SAME,
) -> Selection:
    """Choose results as `analysis.selection.choose`, and say on stderr how to see other origins."""
    chosen = choose(db, filters or (), sweep, origin, source, baseline)
    tell(origin_note(chosen.origin, chosen.newest, chosen.others))
    return chosen


def tell_all_sweeps(selection: Selection) -> None:
    """Say on stderr that numbers are of all sweeps, where there are several and nothing chose:
    other commands then take the newest.
    """
    if not selection.origin.is_ours or selection.sweep is not None or selection.filters:
        return
    with reading(open_for_reading(selection.db)) as connection:
        names = newest_sweeps(connection, 2, selection.origin)
    if len(names) > 1:
        tell(f"of all sweeps; --sweep {visible(names[0])} has the newest alone")


def tell(note: str) -> None:
    """Print a note on stderr, if it is any."""
    if note:
        print(note, file=sys.stderr)


def selected(
    db: str,
    filters: Sequence[str] | None,
    sweep: str | None,
    origin: Origin | None,
    source: str | None,
) -> tuple[Source, Newest | None]:
    """Return what the options choose. Where they choose nothing, return everything of the origin of
    the newest sweep, and that sweep.
    """
    if filters or origin or source or sweep is not None:
        return Source(selection=select(db, filters, sweep, origin, source)), None
    asked = newest(db)
    if asked is None:
        return Source(selection=choose(db, (), None, None)), None
    return (asked.everything if asked.has_numbers else asked.source), asked


def what_is_left(db: str, sweep: str | None) -> NotRun | None:
    """Return what a sweep has not run; None where none is asked about."""
    if sweep is None:
        return None
    return not_run(open_for_reading(db), sweep)


def trials_without_number(selection: Selection) -> str:
    """Return the line; empty where each has a number, and for numbers that are not ours."""
    if not selection.origin.is_ours:
        return ""
    missing = without_number(
        open_for_reading(selection.db),
        selection.filters,
        simulated=selection.origin is Origin.SIMULATED,
        sweep=selection.sweep,
    )
    num_trials = len(missing.outcomes) + missing.num_not_run
    if not num_trials:
        return ""
    how, todo = [], []
    for outcome, num in Counter(missing.outcomes).most_common():
        how.append(f"{num} {outcome.replace('_', ' ')}")
    if missing.first_attempt is not None:
        todo.append(f"{selection.show_command} {missing.first_attempt}")
    if missing.num_not_run:
        how.append(f"{missing.num_not_run} not run yet")
        todo.append(f"{own_command(selection.db, 'status')} has the command that runs the rest")
    trials = counted(num_trials, "trial")
    return f"{trials} without a number ({', '.join(how)}): {'; '.join(todo)}"
