"""Curves of what is told against a baseline: which baseline, what has none, and the interval of the
ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.pivot import Label, Table, lines, pivot
from analysis.results import Baseline, BaselineRule, Place, Result, with_baselines
from analysis.text.numbers import number
from analysis.text.titles import headings, notes, row_title
from plots.looks import Looks
from plots.pictures.curves import Curve, Ideal, Values, draw_curves
from plots.pictures.drawing import NothingToShow, Picture
from plots.pictures.file_names import file_names
from plots.pictures.points import Point, failures, partly_failed
from plots.pictures.sheet import Sheet
from plots.pictures.theme import Palette
from plots.source import Source
from scalemark.stats.welch import known_ratio_interval

AGAINST = {
    BaselineRule.SAME: "the same strategy on {one}",
    BaselineRule.BEST: "the best strategy on {one}",
    BaselineRule.FEWEST: "the same strategy on the fewest {devices} it ran on",
}
"""Baselines, as axes name them."""


_BARS = "bars: 95 % intervals of the ratio, where both sides ran in two processes or more"

Where = tuple[Label, Label]
"""Row and column of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """What is drawn."""

    name: str  # as "speed-up"
    label: str  # of the y axis, with {baseline} and {devices}
    of: Callable[[Result], float | None]
    ideal: Callable[[int], float]  # of a GPU count, against 1
    values: Values


def draw_ratio(source: Source, palette: Palette, ratio: Ratio) -> Iterator[Picture]:
    """A picture per model, setting and machine where something can be told against something
    else.
    """
    tables = pivot(source.results, lines(source.results))
    shown = [(table, *_with_baselines(table, source.selection.baseline)) for table in tables]
    shown = [
        (table, of, rule)
        for table, of, rule in shown
        if any(_is_compared(result) for result in of.values())
    ]
    if not shown:
        raise NothingToShow(
            "no strategy completed on two GPU counts, so there is nothing to compare with"
        )
    for (table, results, rule), name in zip(
        shown, file_names([table for table, *_ in shown]), strict=True
    ):
        yield _picture(table, results, rule, ratio, name, palette, source)


def _with_baselines(table: Table, rule: BaselineRule) -> tuple[dict[Where, Result], BaselineRule]:
    """The results of its cells, against their baselines; where none has its baseline, against the
    fewest GPUs each ran on.
    """
    results = {where: cell.result for where, cell in table.cells.items()}
    if rule is BaselineRule.FEWEST or any(result.baseline for result in results.values()):
        return results, rule
    return dict(
        zip(results, with_baselines(results.values(), BaselineRule.FEWEST), strict=True)
    ), BaselineRule.FEWEST


def _is_compared(result: Result) -> bool:
    return (
        result.baseline is not None
        and result.speed_up is not None
        and result.baseline.trial_id != result.trial_id
    )


def _picture(
    table: Table,
    results: Mapping[Where, Result],
    rule: BaselineRule,
    ratio: Ratio,
    name: str,
    palette: Palette,
    source: Source,
) -> Picture:
    one = table.place.counted(1)
    curves, without = _curves(table, results, ratio, source.looks)
    sheet = Sheet(palette)
    sheet.heading(*headings(table, ratio.name))
    sheet.text(
        ratio.label.format(
            devices=table.place.devices, baseline=_named_baseline(results, rule, table.place)
        )
    )
    sheet.gap(0.05)
    ideal = _ideal(table, results, ratio)
    beyond = draw_curves(sheet, curves, ideal, ratio.values, f"number of {table.place.devices}")
    if rule is not source.selection.baseline:
        sheet.text(
            f"No number on {one} to compare with: told against the fewest that each strategy "
            "completed on."
        )
    elif without:
        sheet.text(
            f"Not drawn, for want of a number on {one} to compare with: "
            f"{', '.join(without)}. The alternative: --baseline fewest."
        )
    about = [*notes(table, bars=_BARS), *beyond, *partly_failed(results.values(), "ringed")]
    return Picture(name=name, figure=sheet.finished(), about=about)


def _curves(
    table: Table, results: Mapping[Where, Result], ratio: Ratio, looks: Looks
) -> tuple[list[Curve], list[str]]:
    """Curves, and names of strategies that have numbers but nothing to compare them with."""
    found, without = [], []
    for row in table.rows:
        of_row = [results[row, column] for column in table.columns if (row, column) in results]
        name = row_title(table, row)
        points = tuple(point for result in of_row if (point := _point(result, ratio)) is not None)
        if not points and any(result.throughput is not None for result in of_row):
            without.append(name)
        found.append(
            Curve(
                name=f"{name}{_own_baseline(of_row)}",
                points=points,
                failures=failures(of_row),
                look=looks[of_row[0].line],
            )
        )
    return [curve for curve in found if curve.points or curve.failures], without


def _own_baseline(results: Sequence[Result]) -> str:
    """As ` (1 = its 2)`, of a curve that does not begin at 1."""
    fewest = min(
        (result.baseline for result in results if result.baseline and result.baseline.num_gpus > 1),
        key=lambda baseline: baseline.num_gpus,
        default=None,
    )
    return f" (over its {fewest.width})" if fewest else ""


def _point(result: Result, ratio: Ratio) -> Point | None:
    value = ratio.of(result)
    if value is None or result.baseline is None or result.speed_up is None:
        return None
    low, high = _interval(result, result.baseline)
    per = value / result.speed_up
    return Point(
        at=result.num_gpus,
        value=value,
        low=None if low is None else low * per,
        high=None if high is None else high * per,
        is_valid=result.is_valid,
        is_whole=not result.failed,
    )


def _interval(result: Result, baseline: Baseline) -> tuple[float | None, float | None]:
    """Of the ratio of two trials that ran in two processes or more each: what one process would
    bring again, nobody knows.
    """
    if baseline.trial_id == result.trial_id:
        return None, None
    return known_ratio_interval(result.repeats, baseline.repeats)


def _ideal(table: Table, results: Mapping[Where, Result], ratio: Ratio) -> Ideal:
    base = min(result.baseline.num_gpus for result in results.values() if result.baseline)
    values = [
        (num_gpus, ratio.ideal(num_gpus) / ratio.ideal(base))
        for (num_gpus,) in table.columns
        if num_gpus >= base
    ]
    return Ideal(name="ideal" if base == 1 else f"ideal, over {base}", values=tuple(values))


def _named_baseline(results: Mapping[Where, Result], rule: BaselineRule, place: Place) -> str:
    """As `the best strategy on 1 GPU`; where all have the same one `ps_cpu on 1 GPU (113
    images/s)`.
    """
    found = {
        result.baseline.trial_id: result.baseline for result in results.values() if result.baseline
    }
    if len(found) != 1:
        return AGAINST[rule].format(one=place.counted(1), devices=place.devices)
    (baseline,) = found.values()
    where = place.counted(baseline.num_gpus, baseline.hosts)
    return f"{baseline.strategy} on {where} ({number(baseline.throughput)} images/s)"
