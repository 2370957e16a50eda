"""Words of `scaling` for people: a sentence per finding, and the cells of its two tables."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from analysis.results import over
from analysis.scaling.curves import Curve, CurvePoint, Scaling
from analysis.scaling.paying import PayingStop
from analysis.text.numbers import number, rate_span
from analysis.text.titles import named
from scalemark.records.overrides import OF_PRECISION
from scalemark.records.references import Origin
from scalemark.text.wording import counted, fixed, listed, shortened

_MOST_NAMED = 6


def headline(answers: Sequence[Scaling]) -> str:
    """Say for how many strategies more GPUs pay, and how sure that is."""
    curves = [curve for one in answers for curve in told(one)]
    if not curves:
        return "Whether more devices pay is not known: no strategy ran on two numbers of GPUs."
    stopped = [curve for curve in curves if curve.stops_paying]
    if len(curves) == 1:
        text = f"{curves[0].strategy}: {_pays(curves[0])}."
    elif not stopped:
        text = f"More GPUs pay for all {len(curves)} strategies, up to the most tried."
    else:
        text = f"More GPUs stop paying for {len(stopped)} of {len(curves)} strategies."
    is_ours = all(one.origin.is_ours for one in answers)
    if is_ours and any(len(point.repeats) == 1 for curve in curves for point in curve.points):
        text += " Single runs: repeat before deciding."
    return text


def sentences(scaling: Scaling) -> list[str]:
    """Say what each curve shows, who leads from where, what failed, and how to read it."""
    found = []
    for curve in scaling.curves:
        if len(curve.points) > 1:
            found.append(_of_curve(scaling, curve))
            found += _negative(scaling, curve)
    found += [change.text(scaling.device_kind.counted) for change in scaling.crossovers]
    if not scaling.curves:
        found.append("No trial has a number.")
    if scaling.failures:
        failures = [
            f"{one.strategy} on {one.num_gpus}{over(one.hosts)} {one.outcome}"
            for one in scaling.failures
        ]
        found.append(f"Without a number: {listed(shortened(failures, _MOST_NAMED))}.")
    if scaling.scaling == "strong":
        found.append("Strong scaling: all GPUs share one batch of constant size.")
    elif scaling.scaling == "weak":
        found.append("Weak scaling: the batch grows with the number of GPUs.")
    if len({point.num_gpus for curve in scaling.curves for point in curve.points}) == 1:
        found.append("One number of devices was tried, which tells nothing about scaling.")
    elif all(point.speed_up is None for curve in scaling.curves for point in curve.points):
        found.append("Speed-ups need a number on 1; --baseline fewest takes another.")
    return found


def stop_text(stop: PayingStop) -> str:
    """Return `GPUs 5 to 8 add 31 % [25 %, 37 %] of a first GPU's throughput each`."""
    interval = ""
    if stop.share_low is not None and stop.share_high is not None:
        interval = f" [{100 * stop.share_low:.0f} %, {100 * stop.share_high:.0f} %]"
    share = f"{100 * stop.share:.0f} %{interval} of a first GPU's throughput"
    if stop.up_to == stop.num_gpus + 1:
        return f"GPU {stop.up_to} adds {share}"
    return f"GPUs {stop.num_gpus + 1} to {stop.up_to} add {share} each"


def _of_curve(scaling: Scaling, curve: Curve) -> str:
    last = curve.points[-1]
    where = f"on {scaling.device_kind.counted(last.num_gpus)}{over(last.hosts)}"
    if last.speed_up is None:
        gain = last.throughput / curve.points[0].throughput
        reached = f"{gain:.2f}x its throughput on {curve.points[0].num_gpus} {where}"
    else:
        speed_up = f"{last.speed_up:.2f}x{_interval(last)}"
        against = str(last.baseline_num_gpus)
        if last.baseline_strategy != curve.strategy:
            against = f"{last.baseline_strategy} on {against}"
        reached = f"{speed_up} the throughput of {against} {where}"
    if last.efficiency is not None:
        reached += f", efficiency {100 * last.efficiency:.0f} %"
    pays = f"; {_pays(curve)}" if scaling.tells_what_pays else ""
    return f"{curve.strategy}: {reached}{pays}."


def _pays(curve: Curve) -> str:
    stop, last = curve.stops_paying, curve.points[-1]
    if stop is None:
        perhaps = "" if last.added_is_sure else "perhaps "
        return f"{perhaps}all {last.num_gpus} GPUs pay, the most tried"
    perhaps = "" if stop.is_sure else "perhaps "
    return f"{perhaps}more than {stop.num_gpus} GPUs do not pay, since {stop_text(stop)}"


def _negative(scaling: Scaling, curve: Curve) -> Iterator[str]:
    """Name each run of points that are slower than the one before: negative scaling."""
    runs: list[list[int]] = []
    for place, point in enumerate(curve.points):
        if not point.is_slower:
            continue
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    for run in runs:
        best, worst = curve.points[run[0] - 1], curve.points[run[-1]]
        perhaps = "" if all(curve.points[at].is_surely_slower for at in run) else "perhaps "
        where = f"{scaling.device_kind.counted(worst.num_gpus)} than on {best.num_gpus}"
        rates = f"{number(worst.throughput)} against {number(best.throughput)} {scaling.unit}"
        yield f"Negative scaling: {curve.strategy} is {perhaps}slower on {where}, {rates}."


def told(scaling: Scaling) -> list[Curve]:
    """Return the curves that tell whether more GPUs pay."""
    if not scaling.tells_what_pays:
        return []
    return [curve for curve in scaling.curves if len(curve.points) > 1]


def left_out(answers: Sequence[Scaling]) -> str:
    """Say how many curves do not tell whether more pay; empty where all do."""
    num = sum(len(one.curves) - len(told(one)) for one in answers)
    if not num:
        return ""
    what = counted(num, "more curve")
    return f"{what} of one number of devices, of CPU devices or of steps: --all has them"


OVERVIEW = ("work", "strategy", "pays up to", "speed-up", "efficiency", "each more adds")


def overview(answers: Sequence[Scaling]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each curve that tells whether more GPUs pay: the cells of OVERVIEW, and
    doubts. The work stands in the first of its rows alone.
    """
    axes = _differing(answers)
    places = _places(answers)
    for one in answers:
        words = [_work(axis, one.setting.get(axis)) for axis in axes]
        if len(places) > 1:
            words.append(places[one.environment])
        work = ", ".join(words) or "all"
        for curve in told(one):
            yield work, *_overview_row(curve), ", ".join(doubts(curve))
            work = ""


def doubts(curve: Curve) -> list[str]:
    """Return the badges of its numbers, each once."""
    return list(dict.fromkeys(badge for point in curve.points for badge in point.doubts))


def _overview_row(curve: Curve) -> tuple[str, ...]:
    stop, point = curve.stops_paying, curve.points[-1]
    adds = ""
    if stop is None:
        pays = f"{point.num_gpus}{over(point.hosts)}"
        is_sure = bool(point.added_is_sure)
    else:
        (point,) = [one for one in curve.points if one.num_gpus == stop.num_gpus]
        pays = f"{point.num_gpus}{over(point.hosts)}"
        is_sure = stop.is_sure
        adds = f"{100 * stop.share:.0f} %"
    efficiency = "" if point.efficiency is None else f"{100 * point.efficiency:.0f} %"
    perhaps = "" if is_sure or len(point.repeats) == 1 else "perhaps "
    return curve.strategy, f"{perhaps}{pays}", _speed_up(point), efficiency, adds


POINTS = ("strategy", "num_gpus", "throughput", "speed-up", "efficiency", "each added", "n")


def rows(scaling: Scaling) -> Iterator[tuple[str, ...]]:
    """Yield the cells of POINTS for every number."""
    is_exact = scaling.origin is Origin.PUBLISHED
    for curve in scaling.curves:
        for point in curve.points:
            rate = number(point.throughput, exactly=is_exact)
            if point.throughput_low is not None and point.throughput_high is not None:
                ends = (point.throughput_low, point.throughput_high)
                rate += f" [{rate_span(*ends, point.throughput)}]"
            efficiency, added = "", ""
            if point.efficiency is not None:
                efficiency = f"{fixed(100 * point.efficiency, 1)} %"
            if point.added_share is not None:
                added = f"{100 * point.added_share:.0f} %"
            cells = (rate, _speed_up(point), efficiency, added, str(len(point.repeats)))
            yield curve.strategy, f"{point.num_gpus}{over(point.hosts)}", *cells


def _speed_up(point: CurvePoint) -> str:
    if point.speed_up is None:
        return ""
    return f"{fixed(point.speed_up, 2)}x{_interval(point)}"


def _interval(point: CurvePoint) -> str:
    if point.speed_up_low is None:
        return ""
    return f" [{point.speed_up_low:.2f}, {point.speed_up_high:.2f}]"


def _work(axis: str, value: object) -> str:
    return str(value) if axis == "model" else named(axis, value)


def _differing(answers: Sequence[Scaling]) -> list[str]:
    """Return the axes that name a setting: the model, and others in which settings of one model
    differ but for what follows from a precision.
    """
    values: dict[str, dict[object, set[str]]] = defaultdict(lambda: defaultdict(set))
    for one in answers:
        for axis, value in one.setting.items():
            values[axis][one.setting.get("model")].add(str(value))
    apart = {axis for axis, by_model in values.items() if max(map(len, by_model.values())) > 1}
    if "precision" in apart:
        apart.difference_update(OF_PRECISION)
    return [axis for axis in values if axis == "model" or axis in apart]


def _places(answers: Sequence[Scaling]) -> dict[str, str]:
    """Name each environment by its host, and its software where a host has several."""
    environments = {one.environment: one for one in answers}
    hosts = Counter(one.host for one in environments.values())
    places = {}
    for key, one in environments.items():
        places[key] = one.host if hosts[one.host] == 1 else f"{one.host} ({one.versions})"
    return places
