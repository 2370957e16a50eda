"""Charts with a row per trial: the attempt that stands for it, and its name at the left."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from analysis.results import Result
from analysis.tables.table import Table
from plots.pictures.figure import label
from plots.pictures.lines import line_name
from plots.pictures.theme import SMALL_PT
from plots.source import Source
from scalemark.records.outcomes import Outcome
from scalemark.text.wording import natural
from store.reading.queries import Row

MOST_TRIALS = 24


def completed(source: Source, result: Result) -> list[Row]:
    """Return its completed attempts, oldest first; details as `Source.attempts` has them."""
    rows = (source.attempts[attempt_id] for attempt_id in result.attempt_ids)
    return [attempt for attempt in rows if attempt["outcome"] == Outcome.COMPLETED]


def typical(source: Source, result: Result) -> Row:
    """Return the completed attempt with the median throughput (of an even number the slower of
    both), else the newest attempt. Nothing is averaged over processes.
    """
    able = sorted(completed(source, result), key=lambda attempt: float(attempt["throughput"] or 0))
    return able[(len(able) - 1) // 2] if able else source.attempts[result.attempt_ids[-1]]


def at_most(results: Sequence[Result]) -> tuple[list[Result], list[str]]:
    """Sort by number of GPUs and strategy, and keep `MOST_TRIALS`, those on the most GPUs; return
    them and a note on the others.
    """
    ordered = sorted(results, key=lambda result: (result.num_gpus, natural(result.strategy)))
    num_others = max(len(ordered) - MOST_TRIALS, 0)
    if not num_others:
        return ordered, []
    note = f"not drawn: {num_others} of {len(ordered)} trials, on the fewest devices"
    return ordered[num_others:], [note]


def row_names(table: Table) -> dict[str, str]:
    """Return the name of each trial's row, as `ps_cpu x 4`."""
    names = {}
    for (row, _), cell in table.cells.items():
        result = cell.result
        names[result.trial_id] = f"{line_name(table, row)} x {result.num_gpus}"
    return names


def rows_in(names: Sequence[str]) -> float:
    """Return the height of rows that leave room for the longest of these names."""
    most_lines = max(label(name).count("\n") + 1 for name in names)
    return len(names) * max(0.24, 0.135 * most_lines + 0.09)


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Put the names at the left of so many rows, the first at the top."""
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), [label(name) for name in names], fontsize=SMALL_PT - 1)
    axes.grid(visible=False, axis="y")
