"""Words of `scaling` for people: the headline, and the cells of its two tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from analysis.results import over
from analysis.scaling.curves import CurvePoint, Scaling, ScalingCurve
from analysis.titles import named, number, spread
from scalemark.records.overrides import OF_PRECISION
from scalemark.records.references import Origin
from scalemark.text.wording import counted, fixed, listed, shortened

_MOST_NAMED = 6

OVERVIEW = ("work", "strategy", "pays up to", "speed-up", "efficiency", "each more adds")
POINTS = ("strategy", "num_gpus", "throughput", "speed-up", "efficiency", "each added", "n")


def headline(answers: Sequence[Scaling]) -> str:
    """Say for how many strategies more GPUs pay, and how sure that is."""
    curves = [curve for scaling in answers for curve in told(scaling)]
    if not curves:
        return "Whether more devices pay is not known: no strategy ran on two numbers of GPUs."
    num_stopped = sum(curve.stops_paying is not None for curve in curves)
    if len(curves) == 1:
        text = f"{curves[0].strategy}: {_pays(curves[0])}."
    elif not num_stopped:
        text = f"More GPUs pay for all {len(curves)} strategies, up to the most tried."
    else:
        text = f"More GPUs stop paying for {num_stopped} of {len(curves)} strategies."
    is_ours = all(scaling.origin.is_ours for scaling in answers)
    if is_ours and any(len(point.repeats) == 1 for curve in curves for point in curve.points):
        text += " Single runs: repeat before deciding."
    return text


def told(scaling: Scaling) -> list[ScalingCurve]:
    """Return the curves that tell whether more GPUs pay."""
    if not scaling.tells_what_pays:
        return []
    return [curve for curve in scaling.curves if len(curve.points) > 1]


def left_out(answers: Sequence[Scaling]) -> str:
    """Say how many curves do not tell whether more pay; empty where all do."""
    num = sum(len(scaling.curves) - len(told(scaling)) for scaling in answers)
    if not num:
        return ""
    what = counted(num, "more curve")
    return f"{what} of one number of devices, of CPU devices or of steps: --all has them"


def overview(answers: Sequence[Scaling]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each curve that tells whether more GPUs pay: the cells of OVERVIEW, and
    doubts. The work stands in the first of its rows alone.
    """
    axes = _differing(answers)
    places = _places(answers)
    for scaling in answers:
        words = []
        for axis in axes:
            value = scaling.setting.get(axis)
            words.append(str(value) if axis == "model" else named(axis, value))
        if len(places) > 1:
            words.append(places[scaling.environment])
        work = ", ".join(words) or "all"
        for curve in told(scaling):
            yield work, *_overview_row(curve), ", ".join(doubts(curve))
            work = ""


def doubts(curve: ScalingCurve) -> list[str]:
    """Return the badges of its numbers, each once."""
    return list(dict.fromkeys(badge for point in curve.points for badge in point.doubts))


def facts(scaling: Scaling) -> list[str]:
    """Say what failed, how the batch grows, and what is missing."""
    sentences = []
    if not scaling.curves:
        sentences.append("No trial has a number.")
    if scaling.failures:
        failures = listed(shortened(scaling.failures, _MOST_NAMED))
        sentences.append(f"Without a number: {failures}.")
    if scaling.scaling == "strong":
        sentences.append("Strong scaling: all GPUs share one batch of constant size.")
    elif scaling.scaling == "weak":
        sentences.append("Weak scaling: the batch grows with the number of GPUs.")
    points = [point for curve in scaling.curves for point in curve.points]
    if len({point.num_gpus for point in points}) == 1:
        sentences.append("One number of devices was tried, which tells nothing about scaling.")
    elif all(point.speed_up is None for point in points):
        sentences.append("Speed-ups need a number on 1; --baseline fewest takes another.")
    return sentences


def rows(scaling: Scaling) -> Iterator[tuple[str, ...]]:
    """Yield the cells of POINTS for every number."""
    for curve in scaling.curves:
        for point in curve.points:
            rate = number(point.throughput, exactly=scaling.origin is Origin.PUBLISHED)
            ends = point.throughput_low, point.throughput_high
            around = spread(point.repeats, *ends, point.throughput)
            efficiency, added = "", ""
            if point.efficiency is not None:
                efficiency = f"{fixed(100 * point.efficiency, 1)} %"
            if point.added_share is not None:
                added = f"{100 * point.added_share:.0f} %"
            width = f"{point.num_gpus}{over(point.hosts)}"
            cells = (f"{rate} {around}".rstrip(), _speed_up(point), efficiency, added)
            yield curve.strategy, width, *cells, str(len(point.repeats))


def _pays(curve: ScalingCurve) -> str:
    stop, last = curve.stops_paying, curve.points[-1]
    if stop is None:
        perhaps = "" if last.added_is_sure else "perhaps "
        return f"{perhaps}all {last.num_gpus} GPUs pay, the most tried"
    perhaps = "" if stop.is_sure else "perhaps "
    first, share = stop.num_gpus + 1, f"{100 * stop.share:.0f} % of a first GPU's throughput"
    adds = f"GPUs {first} to {stop.up_to} add {share} each"
    if stop.up_to == first:
        adds = f"GPU {first} adds {share}"
    return f"{perhaps}more than {counted(stop.num_gpus, 'GPU')} do not pay, since {adds}"


def _overview_row(curve: ScalingCurve) -> tuple[str, ...]:
    stop, point = curve.stops_paying, curve.points[-1]
    is_sure, adds = bool(point.added_is_sure), ""
    if stop is not None:
        point = next(each for each in curve.points if each.num_gpus == stop.num_gpus)
        is_sure, adds = stop.is_sure, f"{100 * stop.share:.0f} %"
    pays = f"{point.num_gpus}{over(point.hosts)}"
    if not is_sure and len(point.repeats) > 1:
        pays = f"perhaps {pays}"
    efficiency = "" if point.efficiency is None else f"{100 * point.efficiency:.0f} %"
    return curve.strategy, pays, _speed_up(point), efficiency, adds


def _speed_up(point: CurvePoint) -> str:
    if point.speed_up is None:
        return ""
    text = f"{fixed(point.speed_up, 2)}x"
    if point.speed_up_low is None:
        return text
    return f"{text} [{point.speed_up_low:.2f}, {point.speed_up_high:.2f}]"


def _differing(answers: Sequence[Scaling]) -> list[str]:
    """Return the axes that name a setting: the model, and others in which settings of one model
    differ but for what follows from a precision.
    """
    values: dict[str, dict[object, set[str]]] = defaultdict(lambda: defaultdict(set))
    for scaling in answers:
        for axis, value in scaling.setting.items():
            values[axis][scaling.setting.get("model")].add(str(value))
    apart = {axis for axis, by_model in values.items() if max(map(len, by_model.values())) > 1}
    if "precision" in apart:
        apart.difference_update(OF_PRECISION)
    return [axis for axis in values if axis == "model" or axis in apart]


def _places(answers: Sequence[Scaling]) -> dict[str, str]:
    """Name each environment by its host, and its software where a host has several."""
    environments = {scaling.environment: scaling for scaling in answers}
    hosts = Counter(scaling.host for scaling in environments.values())
    places = {}
    for key, scaling in environments.items():
        is_alone = hosts[scaling.host] == 1
        places[key] = scaling.host if is_alone else f"{scaling.host} ({scaling.versions})"
    return places
