"""Finds where more GPUs make training slower: by throughput, and by the time of a fixed number of
steps, which is another question.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from analysis.conclusions.cases import Compared, as_run, by_speed, model
from analysis.conclusions.conclusion import Conclusion, rows_of, shortened
from analysis.results import Origin, Result, items_per_step, scales_strongly
from analysis.text.numbers import number
from analysis.text.ties import SINGLE_RUN
from scalemark.stats.welch import Relation, known_ratio_interval, relation_by

_LONGER = 1.05  # times a step's time: less is not worth a sentence


def slowdown(results: Sequence[Result]) -> Iterator[Conclusion]:
    """Only weak scaling counts, where a step on N GPUs takes N batches."""
    by_environment: dict[str, list[list[Result]]] = defaultdict(list)
    for curve in _curves(results):
        by_environment[curve[0].environment.key].append(curve)
    for environment, curves in by_environment.items():
        by_id = {one.trial_id: one for one in results if one.environment.key == environment}
        yield from _falling(curves)
        yield from _longer_steps([curve[-1] for curve in curves], by_id)


def _curves(results: Sequence[Result]) -> list[list[Result]]:
    """Group by number of hosts and links, each ordered by number of GPUs."""
    found: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in sorted(results, key=lambda one: one.num_gpus):
        if result.throughput and not scales_strongly(result):
            found[result.environment.key, result.course].append(result)
    return [curve for curve in found.values() if len(curve) > 1]


def _falling(curves: Sequence[Sequence[Result]]) -> Iterator[Conclusion]:
    fallen: list[Compared] = []
    for *fewer, last in curves:
        best = max(fewer, key=lambda one: one.throughput or 0.0)
        compared = by_speed(last, best)
        is_less = compared is not None and compared.relation is Relation.LESS
        if compared and is_less and best.num_gpus < last.num_gpus:
            fallen.append(compared)
    if fallen:
        environment = fallen[0].first.environment
        texts = "; ".join(one.text(_curve, _on) for one in fallen)
        yield Conclusion(
            topic="slowdown",
            environment=environment,
            sentence=f"More {environment.devices} bring fewer {_units(fallen)}: {texts}.",
            rows=rows_of(fallen),
        )


def _units(fallen: Sequence[Compared]) -> str:
    return " and ".join(sorted({one.first.unit for one in fallen}))


def _longer_steps(last: Sequence[Result], by_id: Mapping[str, Result]) -> Iterator[Conclusion]:
    """`last` are the ends of curves, `by_id` the results of the environment with their
    baselines."""
    able = {one.trial_id: one for one in last if _is_longer(one)}
    longer = sorted(able.values(), key=_growth, reverse=True)
    if not longer:
        return
    rows = []
    for one in longer:
        # filters may have left the baseline out
        if one.baseline and one.baseline.trial_id in by_id:
            rows.append(by_id[one.baseline.trial_id])
        rows.append(one)
    items = sorted({one.item for one in longer})
    environment = longer[0].environment
    yield Conclusion(
        topic="slowdown",
        environment=environment,
        sentence=(
            f"A fixed number of steps takes longer on more {environment.devices}, for each step "
            f"takes more {' and '.join(items)}: {shortened([_step_times(one) for one in longer])}."
        ),
        rows=tuple(rows),
    )


def _is_longer(result: Result) -> bool:
    if not items_per_step(result):
        return False
    return _growth(result) > _LONGER and _relation(result) in (Relation.MORE, Relation.UNKNOWN)


def _growth(result: Result) -> float:
    """Return a step's time over the baseline's: its batch grows with GPUs, its rate by speed-up."""
    return 1 / (result.efficiency or 1.0)


def _relation(result: Result) -> Relation:
    """Compare a step's time with the baseline's."""
    baseline = result.baseline
    if baseline is None or baseline.trial_id == result.trial_id:
        return Relation.LESS
    if result.environment.origin is Origin.PUBLISHED:
        return Relation.MORE
    low, high = known_ratio_interval(baseline.repeats, result.repeats)
    if low is None or high is None:
        return Relation.UNKNOWN
    items = result.num_gpus / baseline.num_gpus  # of a step, times the baseline's
    return relation_by(items * low, items * high)


def _step_times(result: Result) -> str:
    """Return `...: 778 ms a step on 1, 947 ms here: 1.22x, at 4.93x the images/s`."""
    baseline = result.baseline
    assert baseline is not None  # else its steps would not be longer than those
    growth = _growth(result)
    items = items_per_step(result) / result.num_gpus * baseline.num_gpus
    before = 1e3 * items / baseline.throughput
    whose = "" if baseline.strategy == result.strategy else f" of {baseline.strategy}"
    what = f"{as_run(result)}, {result.axes['data'] or 'unreported'} data"
    step = f"{number(before)} ms a step{whose} on {baseline.num_gpus}"
    doubt = f" ({SINGLE_RUN})" if _relation(result) is Relation.UNKNOWN else ""
    return (
        f"{what}: {step}, {number(before * growth)} ms here: {growth:.2f}x, "
        f"at {result.speed_up:.2f}x the {result.unit}{doubt}"
    )


def _on(result: Result) -> str:
    return f"on {result.width}"


def _curve(result: Result) -> str:
    return f"{model(result)} {result.strategy}, {result.axes['data']} data"
