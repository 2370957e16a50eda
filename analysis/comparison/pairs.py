"""Whole trials of two sides that are equal but for what is compared: nothing is averaged over
another axis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.comparison.sides import Side
from analysis.results import Result, axes_of, global_batch
from scalemark.host.own_code import typed
from scalemark.records.strategies import STRATEGY_AXES
from store.errors import StoreError

_FOLLOWERS = {
    "precision": ("loss_scale", "data_format"),
    "optimizer": ("learning_rate", "momentum"),
    "data": ("data_dir", "distortions", "cache"),
}
"""Axes that follow from another one, unless they are told: who compares that one means them, too,
where none is equal in them.
"""

_USUAL = ("model", "num_gpus")
_MOST_TRIED = 200  # of each side, to find the closest


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One trial of A, and the one of B that it is compared with."""

    a: Result
    b: Result
    # what both have alike: their model and GPU count, and what other pairs have not
    setting: Mapping[str, object]
    compared: tuple[str, ...]  # axes in which they differ
    notes: tuple[str, ...]  # of machine and software, where they differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """All that two sides have in common, and what they have not."""

    pairs: tuple[Pair, ...]
    only_a: tuple[Result, ...]
    only_b: tuple[Result, ...]


def paired(a: Side, b: Side) -> Paired:
    """Of one machine and software, unless the sides name them; what has no partner that is equal in
    all that follows from what is compared (`_FOLLOWERS`) gets one that is not. Raises StoreError
    when nothing is left, with the reason.
    """
    free = (
        {*axes_of([*a.results, *b.results])} if a.is_by_name and b.is_by_name else a.axes | b.axes
    )
    anywhere = a.names_a_place or b.names_a_place
    found, fixed, by_key = _found(a.results, b.results, free, anywhere=anywhere)
    if followers := {axis for name in free for axis in _FOLLOWERS.get(name, ())} - free:
        without = (
            _without(a.results, [one for one, _ in found]),
            _without(b.results, [other for _, other in found]),
        )
        more, loosely_fixed, by_loose_key = _found(*without, free | followers, anywhere=anywhere)
        if more or not found:
            found, fixed, by_key, free = (
                [*found, *more],
                loosely_fixed,
                by_loose_key,
                free | followers,
            )
    different = [
        (one, other) for one, other in found if set(one.attempt_ids).isdisjoint(other.attempt_ids)
    ]
    if not different:
        raise StoreError(_why_none(a, b, found, fixed, by_key, free))
    return Paired(
        pairs=tuple(_pairs(different, fixed)),
        only_a=_without(a.results, [one for one, _ in found]),
        only_b=_without(b.results, [other for _, other in found]),
    )


def _found(
    of_a: Sequence[Result],
    of_b: Sequence[Result],
    free: frozenset[str] | set[str],
    *,
    anywhere: bool,
) -> tuple[list[tuple[Result, Result]], list[str], dict[tuple[object, ...], list[Result]]]:
    """Pairs that differ in the free axes alone; the others, and those of B by them."""
    fixed = [axis for axis in axes_of([*of_a, *of_b]) if axis not in free]
    by_key: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in of_b:
        by_key[_key(result, fixed, free)].append(result)
    pairs = [
        (one, other)
        for one in of_a
        for other in _partners(one, by_key[_key(one, fixed, free)], anywhere=anywhere)
    ]
    return pairs, fixed, by_key


def _key(
    result: Result, fixed: Sequence[str], free: frozenset[str] | set[str]
) -> tuple[object, ...]:
    """Under strong scaling the batch of all GPUs is what trials of other counts share."""
    is_strong = result.axes["scaling"] == "strong" and "num_gpus" in free
    return tuple(
        global_batch(result) if is_strong and axis == "batch_size" else result.axes.get(axis)
        for axis in fixed
    )


def _partners(result: Result, others: Sequence[Result], *, anywhere: bool) -> list[Result]:
    """Those of the same place; where the sides name places and there is none, all."""
    beside = [other for other in others if other.place.key == result.place.key]
    return list(others) if anywhere and not beside else beside


def _pairs(found: Sequence[tuple[Result, Result]], fixed: Sequence[str]) -> Iterator[Pair]:
    told = [
        axis
        for axis in fixed
        if axis not in STRATEGY_AXES and (axis in _USUAL or _varies(axis, found))
    ]
    for one, other in sorted(
        found, key=lambda pair: (str(pair[0].axes["model"]), pair[0].num_gpus)
    ):
        yield Pair(
            a=one,
            b=other,
            setting={axis: one.axes[axis] for axis in told},
            compared=tuple(
                axis for axis in axes_of([one, other]) if one.axes.get(axis) != other.axes.get(axis)
            ),
            notes=tuple(_places(one, other)),
        )


def _varies(axis: str, found: Sequence[tuple[Result, Result]]) -> bool:
    """Within a model: what each model has its own of is said by its name."""
    return len({(one.axes["model"], one.axes[axis]) for one, _ in found}) > len(
        {one.axes["model"] for one, _ in found}
    )


def _places(one: Result, other: Result) -> Iterator[str]:
    if one.place.key == other.place.key:
        return
    if one.place.machine != other.place.machine:
        yield f"different machines: {one.place.machine} against {other.place.machine}"
    if one.place.versions != other.place.versions:
        yield f"different software: {one.place.versions} against {other.place.versions}"
    if one.place.shares_host != other.place.shares_host:
        yield f"others ran beside {'A' if one.place.shares_host else 'B'} alone"
    if one.place.machine == other.place.machine and one.place.versions == other.place.versions:
        yield f"the machine or its software is not quite the same: see {typed('store')} diff"


def _without(results: Sequence[Result], taken: Sequence[Result]) -> tuple[Result, ...]:
    known = {(one.trial_id, one.place.key) for one in taken}
    return tuple(one for one in results if (one.trial_id, one.place.key) not in known)


def _why_none(
    a: Side,
    b: Side,
    found: Sequence[tuple[Result, Result]],
    fixed: Sequence[str],
    by_key: Mapping[tuple[object, ...], Sequence[Result]],
    free: frozenset[str] | set[str],
) -> str:
    if found:
        return (
            f"{a.told} and {b.told}: the same attempts on both sides; name what differs, as "
            "strategy=ps_cpu and strategy=ps_gpu"
        )
    elsewhere = [
        (one, other) for one in a.results for other in by_key.get(_key(one, fixed, free), ())
    ]
    if elsewhere:
        return _apart(a, b, *elsewhere[0])
    return _closest(a, b, fixed)


def _apart(a: Side, b: Side, one: Result, other: Result) -> str:
    how = "with host=, software_key=, sweep= or shares_host= on both sides"
    if one.place.host != other.place.host:
        how = f"as 'host={one.place.host} {a.told}' and 'host={other.place.host} {b.told}'"
    return f"{'; '.join(_places(one, other))}: name the two {how}, to compare them nonetheless"


def _closest(a: Side, b: Side, fixed: Sequence[str]) -> str:
    tried = [(one, other) for one in a.results[:_MOST_TRIED] for other in b.results[:_MOST_TRIED]]
    differing = [
        [axis for axis in fixed if one.axes[axis] != other.axes[axis]] for one, other in tried
    ]
    (one, other), axes = min(zip(tried, differing, strict=True), key=lambda pair: len(pair[1]))
    told = ", ".join(f"{axis} (A {one.axes[axis]}, B {other.axes[axis]})" for axis in axes)
    remedy = (
        (
            f"name it on both sides, as '{a.told} {axes[0]}={one.axes[axes[0]]}', or run what is "
            "missing"
        )
        if axes
        else "run more"
    )
    return (
        f"{a.told} and {b.told} have no setting in common; the closest differ in {told}: {remedy}"
    )
