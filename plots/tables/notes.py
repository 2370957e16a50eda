"""Notes below a table: how to read it, what its speed-ups are against, and what is in doubt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.results import BaselineRule, Result
from analysis.selection import Selection
from analysis.tables.table import Table
from analysis.text.numbers import number
from analysis.text.titles import model_notes, reported_notes, table_facts
from plots.tables.cells import (
    PARTLY_FAILED,
    QUANTITIES,
    REPORTED,
    SUSPECT,
    THROUGHPUT,
    symbols_of_repeats,
)
from scalemark.abilities import least_replicas
from scalemark.own_model import is_own
from scalemark.records.origin import Origin
from scalemark.records.outcomes import Outcome, Verdict
from scalemark.records.overrides import ID_DIGITS
from store.database import open_for_reading
from store.reading import queries

_MOST_NAMED = 3  # strategies or reasons in a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """Why numbers are in doubt."""

    of: Mapping[str, tuple[str, ...]]  # by trial; only of trials in doubt
    shared: tuple[str, ...]  # reasons against every number, which are said once

    def own(self, result: Result) -> list[str]:
        """Return the reasons against this number that others do not share."""
        return [reason for reason in self.of.get(result.trial_id, ()) if reason not in self.shared]

    def is_marked(self, result: Result) -> bool:
        """Return whether its cell needs a mark of its own."""
        return not result.is_valid and (bool(self.own(result)) or not self.of.get(result.trial_id))


def doubts_of(results: Sequence[Result], selection: Selection) -> Doubts:
    """Read the reasons against numbers of ours; sources of other numbers give none."""
    numbers = [result for result in results if result.throughput is not None]
    suspect = [result for result in numbers if not result.is_valid]
    if not suspect or not selection.origin.is_ours:
        return Doubts(of={}, shared=())
    attempt_ids = [attempt for result in suspect for attempt in result.attempt_ids]
    rows = queries.attempt_details(open_for_reading(selection.db), attempt_ids)
    attempts = {row["attempt"]: row for row in rows}
    reasons: dict[str, tuple[str, ...]] = {}
    for result in suspect:
        texts: list[str] = []
        for attempt_id in result.attempt_ids:
            attempt = attempts[attempt_id]
            if attempt["verdict"] == Verdict.SUSPECT:
                texts += map(str, attempt["verdict_reasons"] or ["its verdict is suspect"])
            elif not attempt["verdict"] and not attempt["steady"]:
                texts.append("warm-up had not ended when measuring began")
        reasons[result.trial_id] = tuple(dict.fromkeys(texts))
    shared: tuple[str, ...] = ()
    if len(suspect) == len(numbers) > 1:
        common = set.intersection(*(set(of) for of in reasons.values()))
        shared = tuple(reason for reason in reasons[suspect[0].trial_id] if reason in common)
    return Doubts(of=reasons, shared=shared)


def notes(
    table: Table, selection: Selection, wanted: Sequence[str], doubts: Doubts
) -> Iterator[str]:
    """Yield what a reader of this table of this selection must know."""
    marked = reported_notes(table.results)
    yield from model_notes(table)
    yield from (line for line in table_facts(table) if line not in marked)
    yield from (f"{REPORTED} {line}" for line in marked)
    yield from selection.notes
    yield from _how_to_read(table, wanted, selection.baseline)
    if "mfu" in wanted:
        yield from _unknown_mfu(table.results, selection.show_command)
    if table.environment.origin.is_ours:
        yield from _attempts_to_see(table.results, selection, doubts)


def _how_to_read(table: Table, quantities: Sequence[str], rule: BaselineRule) -> Iterator[str]:
    if not any(result.throughput for result in table.results):
        return
    yield f"cells: {_cells_in_words(quantities, table.unit)}"
    is_repeated = any(len(result.repeats) > 1 for result in table.results)
    for name in quantities:
        if name == THROUGHPUT and not is_repeated:
            continue
        about = QUANTITIES[name].about
        if table.environment.origin is Origin.ELSEWHERE:
            about = _OF_ROWS.get(name, about)
        if about:
            yield f"{table.unit if name == THROUGHPUT else name}: {about}"
    if {"speed-up", "efficiency"}.intersection(quantities):
        yield from _baseline_notes(table, rule)


_OF_ROWS = {
    THROUGHPUT: "geometric mean of the rows that agree in all axes",
    "interval": "95 % confidence interval over these rows; below four, their range",
}
"""What quantities are in imported tables: nobody knows how many processes made a row."""


def _cells_in_words(quantities: Sequence[str], unit: str) -> str:
    """Return the content of a cell, as `images/s [interval] (speed-up)`."""
    if THROUGHPUT not in quantities:
        return ", ".join(quantities)
    others = [name for name in quantities if name not in (THROUGHPUT, "interval")]
    text = f"{unit} [interval]" if "interval" in quantities else unit
    return f"{text} ({', '.join(others)})" if others else text


def _baseline_notes(table: Table, rule: BaselineRule) -> Iterator[str]:
    """Name what speed-ups are against, and the options that find a baseline where there is none."""
    able = [result for result in table.results if result.throughput is not None]
    compared = [result for result in able if result.baseline]
    others = []
    if rule is BaselineRule.SAME:
        others = [one for one in compared if least_replicas(one.axes["variable_update"]) > 1]
    own = [result for result in compared if result not in others]
    if own:
        yield f"speed-up: against {_baseline_in_words(table, own, rule)}"
    for strategy in dict.fromkeys(result.strategy for result in others):
        of_strategy = [result for result in others if result.strategy == strategy]
        has_one = any(one.baseline and one.baseline.num_gpus == 1 for one in of_strategy)
        taken = BaselineRule.BEST if has_one else BaselineRule.FEWEST
        against = _baseline_in_words(table, of_strategy, taken)
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


def _attempts_to_see(
    results: Sequence[Result], selection: Selection, doubts: Doubts
) -> Iterator[str]:
    """Yield a note for each kind of doubt, with the command that shows an attempt behind it."""
    show = selection.show_command
    numbers = [result for result in results if result.throughput is not None]
    by_reason: dict[str, list[Result]] = {}
    for result in numbers:
        if doubts.is_marked(result):
            for reason in doubts.own(result):
                by_reason.setdefault(reason, []).append(result)
    for reason, of_reason in list(by_reason.items())[:_MOST_NAMED]:
        yield f"{SUSPECT} {reason}: see {show} {of_reason[0].attempt_ids[0]}"
    if len(by_reason) > _MOST_NAMED:
        yield f"{SUSPECT} {len(by_reason) - _MOST_NAMED} more reasons: see {show}"
    invalid = [result for result in results if result.outcome == Outcome.INVALID]
    if invalid:
        yield f"INVALID: {show} {invalid[0].attempt_ids[0]} says why"
    partly = [result for result in numbers if result.failed]
    if partly:
        symbols = ", ".join(symbols_of_repeats(partly))
        trial = partly[0].trial_id[:ID_DIGITS]
        yield f"{PARTLY_FAILED} some repeats have no number: {symbols}; see {show} {trial}"
    failed = [result for result in results if result.throughput is None]
    if failed:
        yield f"no number: {show} {failed[0].attempt_ids[-1]} says what happened"


def _unknown_mfu(results: Sequence[Result], show_command: str) -> list[str]:
    """Return a line for each reason that numbers have no MFU, with the first such trial."""
    lines: dict[str, str] = {}
    for result in results:
        if result.throughput is None or result.usage.mfu is not None:
            continue
        reason = ""
        if not result.environment.origin.is_ours:
            reason = "the source does not report it"
        elif result.is_of_program:
            reason = "the FLOPs of a program are not counted"
        elif is_own(str(result.axes["model"])):
            reason = "the FLOPs of a model of your own are not counted"
        text = reason or f"log.txt of {show_command} {result.attempt_ids[-1]} says why"
        lines.setdefault(reason, f"mfu unknown: {text}")
    return list(lines.values())
