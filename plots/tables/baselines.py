"""What speed-ups are told against, in words; and where there is nothing to tell them against, what
would help.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.neighbors import with_num_gpus
from analysis.pivot import Table
from analysis.results import BaselineRule, Result
from analysis.text.numbers import number
from scalemark.records.overrides import command

_MOST_NAMED = 3  # strategies in a note


def baseline_notes(table: Table, rule: BaselineRule) -> Iterator[str]:
    able = [result for result in table.results if result.throughput is not None]
    with_one = [result for result in able if result.baseline]
    if with_one:
        yield f"speed-up: against {_described(table, with_one, rule)}"
    without = [result for result in able if not result.baseline]
    if without:
        yield from _missing(table, able, without, rule)


def _described(table: Table, results: Sequence[Result], rule: BaselineRule) -> str:
    if rule is BaselineRule.SAME:
        on_one_host = " of one host" if any(result.hosts > 1 for result in results) else ""
        return f"the same strategy on {table.place.counted(1)}{on_one_host}"
    baselines = {result.baseline for result in results if result.baseline}
    if rule is BaselineRule.FEWEST:
        counts = sorted({(baseline.num_gpus, baseline.hosts) for baseline in baselines})
        return (
            "the same strategy on the fewest it ran on: "
            f"{' or '.join(table.place.counted(*count) for count in counts)}"
        )
    fastest = f"the fastest on {table.place.counted(1)}"
    if len(baselines) > 1:
        return f"{fastest} of the same model and setting"
    (baseline,) = baselines
    return f"{fastest}: {baseline.strategy}, {number(baseline.throughput)} images/s"


def _missing(
    table: Table, able: Sequence[Result], without: Sequence[Result], rule: BaselineRule
) -> Iterator[str]:
    """No number on 1 GPU: said, with the other rules where they would find something, and the
    command that would run it.
    """
    strategies = list(dict.fromkeys(str(result.strategy) for result in without))
    more = f" and {len(strategies) - _MOST_NAMED} more" if len(strategies) > _MOST_NAMED else ""
    which = f" of {', '.join(strategies[:_MOST_NAMED])}{more}" if rule is BaselineRule.SAME else ""
    ways = []
    on_1 = [result for result in able if result.num_gpus == 1]
    if rule is not BaselineRule.BEST and on_1:
        best = max(on_1, key=lambda result: result.throughput or 0.0)
        ways.append(
            f"--baseline best compares with the fastest on 1 ({best.strategy}, "
            f"{number(best.throughput or 0)} images/s)"
        )
    if rule is not BaselineRule.FEWEST:
        fewest = min(without, key=lambda result: (result.num_gpus, result.hosts))
        ways.append(f"--baseline fewest compares with the fewest it ran on ({fewest.counted})")
    if table.place.origin.is_ours:
        ways.append(
            f"this would run it: {command(with_num_gpus(without[0].spec, 1), table.place.hardware)}"
        )
    yield f"no speed-up: no number{which} on {table.place.counted(1)}; {'; '.join(ways)}"
