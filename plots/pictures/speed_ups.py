"""Curves against a baseline: speed-up and efficiency, with the interval of the ratio."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.pivot import pivot
from analysis.results import BaselineRule, Result, with_baselines
from analysis.tables.labels import Label, lines, with_variables
from analysis.tables.table import Table
from analysis.text.numbers import number
from analysis.text.titles import headings, step_notes
from plots.looks import Looks
from plots.pictures.axes import Values
from plots.pictures.curves import Curve, Ideal, draw_curves
from plots.pictures.drawing import NO_LINE, NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.footer import doubts
from plots.pictures.points import Point, failures, partly_failed
from plots.pictures.sheet import Sheet
from plots.pictures.theme import WIDE_IN, Palette
from plots.source import Source
from scalemark.stats.welch import known_ratio_interval

AGAINST = {
    BaselineRule.SAME: "the same strategy on {one}",
    BaselineRule.BEST: "the best strategy on {one}",
    BaselineRule.FEWEST: "the same strategy on the fewest {devices} it ran on",
}
"""Baselines, as axes name them."""

_BARS = "bars: of the ratio, where both sides ran in two processes or more"


_SEEN = 0.005  # from perfect scaling: less cannot be seen in a picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The ratio to draw."""

    name: str  # as "speed-up"
    label: str  # of the y axis, with {baseline} and {devices}
    of: Callable[[Result], float | None]
    ideal: Callable[[int], float]  # at a GPU count, against 1
    values: Values


Compared = Mapping[tuple[Label, Label], Result]
"""The results of a table by row and column, each with its baseline."""


def draw_ratio(source: Source, palette: Palette, ratio: Ratio) -> Iterator[Picture]:
    """Yield a picture per model, setting and machine that has a baseline, but where each strategy
    scales perfectly.
    """
    asked = source.selection.baseline
    every = pivot(source.results, with_variables(lines(source.results), source.results))
    tables, compared, rules = [], [], []
    for table in every:
        results, rule = _with_baselines(table, asked)
        if any(_is_compared(result, ratio) for result in results.values()):
            tables.append(table)
            compared.append(results)
            rules.append(rule)
    if not tables:
        raise NothingToShow("; ".join(step_notes(source.results)) or _why_none(every, ratio))
    for table, results, rule, name in zip(tables, compared, rules, file_names(tables), strict=True):
        sheet = Sheet(palette, WIDE_IN)
        marks = _draw(sheet, table, results, ratio, rule, source)
        one = table.environment.counted(1)
        without = _without_baseline(table, results)
        if rule is not asked:
            sheet.text(
                f"No number on {one} to compare with: against the fewest that each strategy "
                "completed on."
            )
        elif without:
            sheet.text(
                f"Not drawn, for want of a number on {one} to compare with: "
                f"{', '.join(without)}. The alternative: --baseline fewest."
            )
        yield Picture(
            name=name,
            figure=sheet.finished(),
            results=table.results,
            marks=[*marks, *doubts(table.results)],
            about=[_BARS, *partly_failed(results.values())],
        )
    if len(tables) < len(every):
        num = len(every) - len(tables)
        raise NothingToShow(f"{NO_LINE}, or all scale perfectly", num, len(every))


def _why_none(tables: Sequence[Table], ratio: Ratio) -> str:
    results = [result for table in tables for result in table.results]
    if any(result.baseline for result in results if result.num_gpus > 1):
        return f"each {ratio.name} is that of perfect scaling"
    return NO_LINE


def _with_baselines(table: Table, rule: BaselineRule) -> tuple[Compared, BaselineRule]:
    """Return the results of the cells with their baselines; where none has one, with the fewest
    GPUs that each ran on.
    """
    results = {where: cell.result for where, cell in table.cells.items()}
    if rule is BaselineRule.FEWEST or any(result.baseline for result in results.values()):
        return results, rule
    fewest = with_baselines(results.values(), BaselineRule.FEWEST)
    return dict(zip(results, fewest, strict=True)), BaselineRule.FEWEST


def _is_compared(result: Result, ratio: Ratio) -> bool:
    """Say whether a result has a ratio that is not the one of perfect scaling."""
    value, baseline = ratio.of(result), result.baseline
    if baseline is None or value is None or baseline.trial_id == result.trial_id:
        return False
    perfect = ratio.ideal(result.num_gpus) / ratio.ideal(baseline.num_gpus)
    return abs(value / perfect - 1) > _SEEN


def _draw(
    sheet: Sheet, table: Table, results: Compared, ratio: Ratio, rule: BaselineRule, source: Source
) -> list[str]:
    """Draw the picture but for its remarks. Return what its marks mean."""
    devices = table.environment.devices
    sheet.heading(*headings(table, ratio.name))
    baseline = _baseline_in_words(table, results, rule)
    sheet.text(ratio.label.format(devices=devices, baseline=baseline))
    sheet.gap(0.05)
    return draw_curves(
        sheet,
        _curves(table, results, ratio, rule, source.looks),
        _ideal(table, results, ratio),
        ratio.values,
        f"number of {devices}",
        is_log=source.is_log,
        last=f"on {table.counted(max(result.num_gpus for result in results.values()))}",
    )


def _of_row(table: Table, results: Compared, row: Label) -> list[Result]:
    return [results[row, column] for column in table.columns if (row, column) in results]


def _curves(
    table: Table, results: Compared, ratio: Ratio, rule: BaselineRule, looks: Looks
) -> list[Curve]:
    found = []
    for row in table.rows:
        of_row = _of_row(table, results, row)
        points = [_point(result, ratio) for result in of_row]
        curve = Curve(
            name=of_row[0].line + _own_baseline(of_row, rule),
            points=tuple(point for point in points if point is not None),
            failures=failures(of_row),
            look=looks[of_row[0].line],
        )
        if curve.points or curve.failures:
            found.append(curve)
    return found


def _without_baseline(table: Table, results: Compared) -> list[str]:
    """Return the strategies that have numbers, and nothing to compare them with."""
    found = []
    for row in table.rows:
        able = [one for one in _of_row(table, results, row) if one.throughput is not None]
        if able and not any(result.baseline for result in able):
            found.append(able[0].line)
    return found


def _own_baseline(results: Sequence[Result], rule: BaselineRule) -> str:
    """Return as ` (over its 2)` what a curve that does not begin at 1 begins at, and as
    ` (over ps_cpu)` the strategy that one which cannot run on 1 is compared with.
    """
    baselines = [result.baseline for result in results if result.baseline]
    wider = [baseline for baseline in baselines if baseline.num_gpus > 1]
    if not wider:
        others = {baseline.strategy for baseline in baselines}.difference({results[0].strategy})
        if rule is BaselineRule.BEST or not others:
            return ""
        return f" (over {', '.join(sorted(others))})"
    return f" (over its {min(wider, key=lambda baseline: baseline.num_gpus).width})"


def _point(result: Result, ratio: Ratio) -> Point | None:
    value, baseline = ratio.of(result), result.baseline
    if value is None or baseline is None or result.speed_up is None:
        return None
    low = high = None
    if baseline.trial_id != result.trial_id:
        # none where a side ran in a single process: what another would bring is not known
        low, high = known_ratio_interval(result.repeats, baseline.repeats)
    per = value / result.speed_up
    return Point(
        at=result.num_gpus,
        value=value,
        low=None if low is None else low * per,
        high=None if high is None else high * per,
        is_valid=result.is_valid,
        is_whole=not result.failed,
    )


def _ideal(table: Table, results: Compared, ratio: Ratio) -> Ideal:
    base = min(result.baseline.num_gpus for result in results.values() if result.baseline)
    counts = [num_gpus for (num_gpus,) in table.columns if num_gpus >= base]
    values = tuple((count, ratio.ideal(count) / ratio.ideal(base)) for count in counts)
    return Ideal(name="ideal" if base == 1 else f"ideal, over {base}", values=values)


def _baseline_in_words(table: Table, results: Compared, rule: BaselineRule) -> str:
    """Return as `the best strategy on 1 GPU`, or where all have the same baseline `ps_cpu on 1 GPU
    (113 images/s)`.
    """
    environment = table.environment
    baselines = [result.baseline for result in results.values() if result.baseline]
    if len({baseline.trial_id for baseline in baselines}) != 1:
        return AGAINST[rule].format(one=environment.counted(1), devices=environment.devices)
    baseline = baselines[0]
    where = environment.counted(baseline.num_gpus, baseline.hosts)
    return f"{baseline.strategy} on {where} ({number(baseline.throughput)} {table.unit})"
