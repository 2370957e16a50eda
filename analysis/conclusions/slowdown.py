"""Do more GPUs make training slower? Of images/s, and of a fixed number of steps, which is another
question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from analysis.conclusions.cases import Compared, as_run, by_speed, model, with_number
from analysis.conclusions.conclusion import Conclusion, rows_of
from analysis.results import Origin, Result
from analysis.text.numbers import number
from scalemark.stats.welch import Relation, known_ratio_interval, relation_by

_LONGER = 1.05  # of a step's time: less is not worth a sentence
_MOST_TOLD = 6
_LONGER_OR_UNKNOWN = (Relation.MORE, Relation.UNKNOWN)


def conclude(results: Sequence[Result]) -> Iterator[Conclusion]:
    """Per place; of weak scaling alone, where a step on N GPUs takes N batches."""
    by_place: dict[str, list[list[Result]]] = defaultdict(list)
    for curve in _curves(results):
        by_place[curve[0].place.key].append(curve)
    for place, curves in by_place.items():
        yield from _falling(curves)
        yield from _longer_steps(
            curves, {one.trial_id: one for one in results if one.place.key == place}
        )


def _curves(results: Sequence[Result]) -> list[list[Result]]:
    """By number of GPUs, each over as many hosts with the same links."""
    found: dict[tuple[str, tuple[str, int, object]], list[Result]] = defaultdict(list)
    for result in with_number(results):
        if result.axes.get("scaling") != "strong":
            found[result.place.key, result.course].append(result)
    return [
        sorted(curve, key=lambda one: one.num_gpus) for curve in found.values() if len(curve) > 1
    ]


def _falling(curves: Sequence[Sequence[Result]]) -> Iterator[Conclusion]:
    fallen: list[Compared] = []
    for curve in curves:
        *fewer, last = curve
        best = max(fewer, key=lambda one: one.throughput or 0.0)
        if (
            (compared := by_speed(last, best))
            and compared.relation is Relation.LESS
            and best.num_gpus < last.num_gpus
        ):
            fallen.append(compared)
    if fallen:
        told = "; ".join(one.told(_curve, _on) for one in fallen)
        yield Conclusion(
            topic="slowdown",
            place=fallen[0].first.place,
            sentence=f"More GPUs bring fewer images/s: {told}.",
            rows=rows_of(fallen),
        )


def _longer_steps(
    curves: Sequence[Sequence[Result]], by_id: Mapping[str, Result]
) -> Iterator[Conclusion]:
    """`by_id`: the results of the place, baselines among them."""
    last = {curve[-1].trial_id: curve[-1] for curve in curves if curve[-1].axes["batch_size"]}
    able = [
        one
        for one in last.values()
        if _growth(one) > _LONGER and _relation(one) in _LONGER_OR_UNKNOWN
    ]
    longer = sorted(able, key=_growth, reverse=True)
    if longer:
        told = "; ".join(
            f"{as_run(one)}, {one.axes['data'] or 'untold'} data: {_step_times(one)}"
            for one in longer[:_MOST_TOLD]
        )
        more = f"; and {len(longer) - _MOST_TOLD} more" if len(longer) > _MOST_TOLD else ""
        yield Conclusion(
            topic="slowdown",
            place=longer[0].place,
            sentence=(
                "A fixed number of steps takes longer on more GPUs, for each step takes more "
                f"images: {told}{more}."
            ),
            rows=tuple(row for one in longer for row in (*_baseline(one, by_id), one)),
        )


def _baseline(result: Result, by_id: Mapping[str, Result]) -> list[Result]:
    """None where filters have left it out."""
    found = by_id.get(result.baseline.trial_id) if result.baseline else None
    return [] if found is None else [found]


def _growth(result: Result) -> float:
    """Of a step's time over the baseline's: its images grow with the GPUs, its images/s with the
    speed-up.
    """
    return 1 / (result.efficiency or 1.0)


def _relation(result: Result) -> Relation:
    """Of a step's time to the baseline's; less where it has none, or is it."""
    baseline = result.baseline
    if baseline is None or baseline.trial_id == result.trial_id:
        return Relation.LESS
    if result.place.origin is Origin.PUBLISHED:
        return Relation.MORE
    low, high = known_ratio_interval(baseline.repeats, result.repeats)
    images = result.num_gpus / baseline.num_gpus  # of a step, times the baseline's
    return relation_by(
        None if low is None else images * low, None if high is None else images * high
    )


def _step_times(result: Result) -> str:
    """As `778 ms a step on 1, 947 ms here: 1.22x, at 4.93x the images/s`."""
    batch_size, baseline = int(result.axes["batch_size"]), result.baseline
    if baseline is None:
        return ""
    before = 1e3 * batch_size * baseline.num_gpus / baseline.throughput
    here = before * _growth(result)
    whose = "" if baseline.strategy == result.strategy else f" of {baseline.strategy}"
    times = f"{number(before)} ms a step{whose} on {baseline.num_gpus}, {number(here)} ms here"
    unsure = " (a process alone cannot tell)" if _relation(result) is Relation.UNKNOWN else ""
    return f"{times}: {_growth(result):.2f}x, at {result.speed_up:.2f}x the images/s{unsure}"


def _on(result: Result) -> str:
    return f"on {result.width}"


def _curve(result: Result) -> str:
    return f"{model(result)} {result.strategy}, {result.axes['data']} data"
