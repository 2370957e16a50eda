"""Notes below a table: how to read it, what its speed-ups are against, and what is in doubt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.results import BaselineRule, Origin, Result
from analysis.selection import Selection
from analysis.tables.table import Table
from analysis.text.numbers import number
from analysis.text.titles import model_notes, reported_notes, table_facts
from plots.tables import unknown_mfu
from plots.tables.quantities import QUANTITIES, THROUGHPUT
from plots.tables.symbols import PARTLY_FAILED, REPORTED, TIE, symbols_of_repeats
from scalemark.abilities import least_replicas
from scalemark.records.earlier_trial import ID_DIGITS
from scalemark.records.outcomes import Outcome

_MOST_NAMED = 3  # strategies or attempts in a note


def notes(table: Table, selection: Selection, wanted: Sequence[str]) -> Iterator[str]:
    """Yield what a reader of this table of this selection must know."""
    marked = reported_notes(table.results)
    yield from model_notes(table)
    yield from (line for line in table_facts(table) if line not in marked)
    yield from (f"{REPORTED} {line}" for line in marked)
    yield from selection.notes
    yield from _how_to_read(table, wanted, selection.baseline)
    if "mfu" in wanted:
        yield from unknown_mfu.reasons(table.results, selection.show_command)
    if table.environment.origin.is_ours:
        yield from _attempts_to_see(table.results, selection)


def _how_to_read(table: Table, quantities: Sequence[str], rule: BaselineRule) -> Iterator[str]:
    if not any(result.throughput for result in table.results):
        return
    yield f"cells: {_cells_in_words(quantities, table.unit)}"
    is_repeated = any(len(result.repeats) > 1 for result in table.results)
    for name in quantities:
        if name != THROUGHPUT:
            yield from _about(table, name, name)
        elif is_repeated:
            yield from _about(table, name, table.unit)
    if {"speed-up", "efficiency"}.intersection(quantities):
        yield from _baseline_notes(table, rule)
    ratios = [result.against for result in table.results if result.against]
    if "ratio" in quantities and any(ratio.is_tie for ratio in ratios):
        yield f"{TIE} before a ratio: its 95 % interval contains 1"


def _about(table: Table, name: str, shown_as: str) -> Iterator[str]:
    about = QUANTITIES[name].about
    if table.environment.origin is Origin.ELSEWHERE:
        about = _OF_ROWS.get(name, about)
    if about:
        yield f"{shown_as}: {about}"


_OF_ROWS = {
    THROUGHPUT: "geometric mean of the rows that agree in all axes",
    "interval": "95 %, by Student's t on logarithms of these rows' throughputs",
    "repeats": "rows that agree in all axes",
}
"""What quantities are of tables that were taken in: nobody knows how many processes made a row."""


def _cells_in_words(quantities: Sequence[str], unit: str) -> str:
    """Return the content of a cell, as `images/s [95 % interval] (speed-up)`."""
    if THROUGHPUT not in quantities:
        return ", ".join(quantities)
    others = [name for name in quantities if name not in (THROUGHPUT, "interval")]
    text = f"{unit} [95 % interval]" if "interval" in quantities else unit
    return f"{text} ({', '.join(others)})" if others else text


def _baseline_notes(table: Table, rule: BaselineRule) -> Iterator[str]:
    """Name what speed-ups are against, and the options that find a baseline where there is none."""
    able = [result for result in table.results if result.throughput is not None]
    with_one = [result for result in able if result.baseline]
    others = []
    if rule is BaselineRule.SAME:
        others = [one for one in with_one if least_replicas(one.axes["variable_update"]) > 1]
    own = [one for one in with_one if one not in others]
    if own:
        yield f"speed-up: against {_baseline_in_words(table, own, rule)}"
    for strategy in dict.fromkeys(one.strategy for one in others):
        of_it = [one for one in others if one.strategy == strategy]
        has_one = any(one.baseline and one.baseline.num_gpus == 1 for one in of_it)
        taken = BaselineRule.BEST if has_one else BaselineRule.FEWEST
        against = _baseline_in_words(table, of_it, taken)
        yield f"speed-up of {strategy}, which cannot run on 1: against {against}"
    without = [result for result in able if not result.baseline]
    if not without:
        return
    which = ""
    if rule is BaselineRule.SAME:
        strategies = list(dict.fromkeys(result.strategy for result in without))
        which = f" of {', '.join(strategies[:_MOST_NAMED])}"
        if strategies[_MOST_NAMED:]:
            which += f" and {len(strategies) - _MOST_NAMED} more"
    ways = []
    if rule is not BaselineRule.BEST and any(result.num_gpus == 1 for result in able):
        ways.append("--baseline best compares with the fastest on 1")
    if rule is not BaselineRule.FEWEST:
        ways.append("--baseline fewest compares with the fewest it ran on")
    yield "; ".join([f"no speed-up: no number{which} on {table.environment.counted(1)}", *ways])


def _baseline_in_words(table: Table, results: Sequence[Result], rule: BaselineRule) -> str:
    one = table.environment.counted(1)
    if rule is BaselineRule.SAME:
        on_one_host = " of one host" if any(result.hosts > 1 for result in results) else ""
        return f"the same strategy on {one}{on_one_host}"
    baselines = {result.baseline for result in results if result.baseline}
    if rule is BaselineRule.FEWEST:
        counts = sorted({(baseline.num_gpus, baseline.hosts) for baseline in baselines})
        fewest = " or ".join(table.environment.counted(*count) for count in counts)
        return f"the same strategy on the fewest it ran on: {fewest}"
    if len(baselines) > 1:
        return f"the fastest on {one} of the same model and setting"
    (baseline,) = baselines
    return f"the fastest on {one}: {baseline.strategy}, {number(baseline.throughput)} {table.unit}"


def _attempts_to_see(results: Sequence[Result], selection: Selection) -> Iterator[str]:
    """Yield a note for each kind of doubt, with the command that shows the attempts behind it."""
    numbers = [result for result in results if result.throughput is not None]
    suspect = [result for result in numbers if not result.is_valid]
    partly = [result for result in numbers if result.failed]
    invalid = [result for result in results if result.outcome == Outcome.INVALID]
    failed = [result for result in results if result.throughput is None]
    if not (suspect or partly or failed):
        return
    show = selection.show_command
    for what, which in (("* suspect", suspect), ("INVALID", invalid)):
        if which:
            attempts = [attempt for result in which for attempt in result.attempt_ids]
            yield f"{what}: {show} {_first_of(attempts)} says why"
    if partly:
        symbols = ", ".join(symbols_of_repeats(partly))
        trial = partly[0].trial_id[:ID_DIGITS]
        yield (
            f"{PARTLY_FAILED} failures: some of its repeats brought no number: {symbols} "
            f"({show} {trial} says what happened)"
        )
    if failed:
        yield f"no number: {show} {failed[0].attempt_ids[-1]} says what happened"


def _first_of(attempts: Sequence[int]) -> str:
    """Return the first attempt and the next ones, as `3 (or 4, 5, ...)`."""
    others = [str(attempt) for attempt in attempts[1:_MOST_NAMED]]
    if attempts[_MOST_NAMED:]:
        others.append("...")
    return f"{attempts[0]} (or {', '.join(others)})" if others else str(attempts[0])
