"""The answer of scaling on one screen: from how many devices on more do not pay, a line a curve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from analysis.scaling.curves import Curve, Point, Scaling
from analysis.text import badges
from analysis.text.titles import named
from scalemark.records.earlier_trial import OF_PRECISION
from scalemark.text.decimals import fixed
from scalemark.text.wording import counted

COLUMNS = (
    "work",
    "strategy",
    "pays up to",
    "speed-up there",
    "efficiency",
    "each further brings",
    "doubts",
)
RIGHT = frozenset(("efficiency", "each further brings"))


def rows(found: Sequence[Scaling]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each curve that tells what more devices bring."""
    axes = _differing(found)
    places = _places(found)
    for scaling in found:
        setting = scaling.table.setting
        words = [_named(axis, setting.get(axis)) for axis in axes]
        place = places[scaling.table.environment.key]
        work = ", ".join([*words, *([place] if len(places) > 1 else [])]) or "all"
        for curve in scaling.curves if scaling.speaks_of_gpus else ():
            if len(curve.points) > 1:
                yield work, curve.strategy, *_of_curve(curve), ", ".join(doubts(curve))


def _places(found: Sequence[Scaling]) -> dict[str, str]:
    """Return a name for each environment: its host, with its software where a host has several."""
    environments = {one.table.environment.key: one.table.environment for one in found}
    hosts = Counter(one.host for one in environments.values())
    places = {}
    for key, one in environments.items():
        places[key] = one.host if hosts[one.host] == 1 else f"{one.host} ({one.versions})"
    return places


def doubts(curve: Curve) -> list[str]:
    """Return the badges of its numbers, each once."""
    return list(dict.fromkeys(one for at in curve.points for one in badges.of_result(at.result)))


def _named(axis: str, value: object) -> str:
    return str(value) if axis == "model" else named(axis, value)


def left_out(found: Sequence[Scaling]) -> str:
    """Say how many curves have no row; empty where all have."""
    curves = [(one.speaks_of_gpus, curve) for one in found for curve in one.curves]
    silent = sum(not (speaks and len(curve.points) > 1) for speaks, curve in curves)
    if not silent:
        return ""
    return (
        f"{counted(silent, 'more curve')} of one number of devices, of CPU devices or of steps: "
        "--all has them"
    )


def _differing(found: Sequence[Scaling]) -> list[str]:
    """Return the axes that name a setting: the model, and others in which settings differ but for
    what follows from a precision.
    """
    settings = [one.table.setting for one in found]
    axes = dict.fromkeys(axis for setting in settings for axis in setting)
    apart = [axis for axis in axes if len({str(one.get(axis)) for one in settings}) > 1]
    if "precision" in apart:
        apart = [axis for axis in apart if axis not in OF_PRECISION]
    return [axis for axis in axes if axis == "model" or axis in apart]


def _of_curve(curve: Curve) -> tuple[str, ...]:
    stop, last = curve.stop, curve.points[-1]
    if stop is None:
        perhaps = "" if last.added is None or last.added.is_sure else "perhaps "
        return f"{perhaps}{last.result.width}, the most tried", *_reached(last), "not tried"
    perhaps = "" if stop.is_sure else "perhaps "
    (point,) = [one for one in curve.points if one.result.num_gpus == stop.num_gpus]
    return (
        f"{perhaps}{point.result.width}",
        *_reached(point),
        f"{stop.added.share:.0%} of a first",
    )


def _reached(point: Point) -> tuple[str, str]:
    """Return its speed-up with the interval, and its efficiency; empty where they are not known."""
    result, interval = point.result, ""
    if result.speed_up is None:
        return "", ""
    if point.speed_up_low is not None:
        interval = f" [{point.speed_up_low:.2f}, {point.speed_up_high:.2f}]"
    efficiency = "" if result.efficiency is None else f"{100 * result.efficiency:.0f} %"
    return f"{fixed(result.speed_up, 2)}x{interval}", efficiency
