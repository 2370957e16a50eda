"""Pairs whole trials of two sides that are equal but for what is compared.

Nothing is averaged over another axis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.comparison.sides import Side
from analysis.results import Result, axes_of, global_batch
from analysis.text.versions import differing
from scalemark.host.own_code import typed
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.text.natural import natural
from store.errors import StoreError

# Axes that `auto` derives from another one: they may differ where that one is compared and no
# trial is equal in them.
_FOLLOWERS = {
    "precision": ("loss_scale", "data_format"),
    "optimizer": ("learning_rate", "momentum", "weight_decay"),
    "data": ("data_dir", "distortions", "cache"),
}
_USUAL = ("model", "num_gpus")
_UNSAID = (None, "?")
_MOST_TRIED = 200  # of each side, to find the closest


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One trial of A, and the one of B that it is compared with."""

    a: Result
    b: Result
    # what both have alike: their model and GPU count, and what other pairs have not
    setting: Mapping[str, object]
    compared: tuple[str, ...]  # axes in which they differ
    notes: tuple[str, ...]  # on machine and software, where they differ


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """All that two sides have in common, and what they have not."""

    pairs: tuple[Pair, ...]
    only_a: tuple[Result, ...]
    only_b: tuple[Result, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Matched:
    """Pairs of equal trials but for the free axes, and the trials of B by the fixed ones."""

    pairs: list[tuple[Result, Result]]
    free: frozenset[str]
    fixed: list[str]
    by_key: dict[tuple[object, ...], list[Result]]


def paired(a: Side, b: Side) -> Paired:
    """Pair trials of one machine and software, unless the sides name these.

    What has no partner that is equal in all that follows from what is compared (`_FOLLOWERS`) gets
    one that is not. Raises StoreError when nothing is left, with the reason.
    """
    free = _with_strategies(a.axes | b.axes, [*a.results, *b.results])
    if a.is_by_name and b.is_by_name:
        free = frozenset(axes_of([*a.results, *b.results]))
    anywhere = a.names_an_environment or b.names_an_environment
    found = _match(a.results, b.results, free, anywhere=anywhere)
    pairs = found.pairs
    followers = {axis for name in free for axis in _FOLLOWERS.get(name, ())} - free
    if followers:
        left_a, left_b = _left(a, b, pairs)
        loose = _match(left_a, left_b, free | followers, anywhere=anywhere)
        if loose.pairs or not pairs:
            found, pairs = loose, [*pairs, *loose.pairs]
    different = [(one, other) for one, other in pairs if not _share_attempts(one, other)]
    if not different:
        if pairs:
            raise StoreError(
                f"{a.text} and {b.text}: the same attempts on both sides; name what differs, as "
                "strategy=ps_cpu and strategy=ps_gpu"
            )
        raise StoreError(_why_none(a, b, found))
    only_a, only_b = _left(a, b, pairs)
    return Paired(pairs=tuple(_pairs(different, found.fixed)), only_a=only_a, only_b=only_b)


def _share_attempts(one: Result, other: Result) -> bool:
    """Return whether both are made of the same attempts; of tables nobody knows attempts."""
    if not one.environment.origin.is_ours:
        return one.trial_id == other.trial_id
    return not set(one.attempt_ids).isdisjoint(other.attempt_ids)


def _with_strategies(free: frozenset[str], results: Sequence[Result]) -> frozenset[str]:
    """Return them with what goes with them: a strategy may be the name of free axes."""
    parts = {axis for one in results if one.is_named_by_free_axes for axis in one.strategy_axes}
    if "strategy" in free:
        return free | parts
    return free | {"strategy"} if free & parts else free


def _match(
    of_a: Sequence[Result], of_b: Sequence[Result], free: frozenset[str], *, anywhere: bool
) -> _Matched:
    fixed = [axis for axis in axes_of([*of_a, *of_b]) if axis not in free]
    by_key: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in of_b:
        by_key[_key(result, fixed, free)].append(result)
    pairs = []
    for one in of_a:
        others = by_key[_key(one, fixed, free)]
        beside = [other for other in others if other.environment.key == one.environment.key]
        # where the sides name environments, their trials need not share one
        partners = others if anywhere and not beside else beside
        pairs += [(one, other) for other in partners if _counts_alike(one, other)]
    return _Matched(pairs=pairs, free=free, fixed=fixed, by_key=by_key)


def _key(result: Result, fixed: Sequence[str], free: Collection[str]) -> tuple[object, ...]:
    """Trials of other GPU counts share the batch of all GPUs under strong scaling."""
    axes = {axis: result.axes.get(axis) for axis in fixed}
    if result.axes.get("scaling") == "strong" and "num_gpus" in free and "batch_size" in axes:
        axes["batch_size"] = global_batch(result)
    return tuple(axes.values())


def _counts_alike(one: Result, other: Result) -> bool:
    """Return whether their numbers are of one item; a result without a number has none."""
    return one.throughput is None or other.throughput is None or one.item == other.item


def _pairs(found: Sequence[tuple[Result, Result]], fixed: Sequence[str]) -> Iterator[Pair]:
    shown = [axis for axis in fixed if axis not in STRATEGY_AXES]
    shown = [axis for axis in shown if axis in _USUAL or _varies(axis, found)]
    ordered = sorted(found, key=lambda pair: _place(pair[0]))
    environments = _environment_names([one for one, _ in ordered])
    for one, other in ordered:
        axes = axes_of([one, other])
        # a table that was taken in need not say them
        setting = {axis: one.axes[axis] for axis in shown if one.axes.get(axis) not in _UNSAID}
        if len(environments) > 1:
            setting["environment"] = environments[one.environment.key]
        yield Pair(
            a=one,
            b=other,
            setting=setting,
            compared=tuple(axis for axis in axes if one.axes.get(axis) != other.axes.get(axis)),
            notes=tuple(_environments(one, other)),
        )


def _environment_names(results: Sequence[Result]) -> dict[str, str]:
    """Name each environment by what not all have alike, as `program commit 3f2a1c`."""
    found = {one.environment.key: one.environment for one in results}
    facts = [
        {"host": one.host, "shares_host": str(one.shares_host), "devices": one.devices}
        | dict(one.software)
        for one in found.values()
    ]
    return dict(zip(found, differing(facts), strict=True))


def _place(one: Result) -> tuple[object, ...]:
    """Return the key to sort pairs by: also by the free axes of which a strategy is the name."""
    own = natural(one.strategy) if one.is_named_by_free_axes else ()
    return str(one.axes["model"]), one.num_gpus, own


def _varies(axis: str, found: Sequence[tuple[Result, Result]]) -> bool:
    """Say whether it varies within a model, whose name implies what is its own."""
    models = {one.axes["model"] for one, _ in found}
    return len({(one.axes["model"], one.axes.get(axis)) for one, _ in found}) > len(models)


def _environments(one: Result, other: Result) -> Iterator[str]:
    a, b = one.environment, other.environment
    if a.key == b.key:
        return
    if a.machine != b.machine:
        yield f"different machines: {a.machine} against {b.machine}"
    own_a, own_b = differing([a.software, b.software])
    if not own_a:
        own_a, own_b = a.versions, b.versions
    if own_a != own_b:
        yield f"different software: {own_a} against {own_b}"
    if a.shares_host != b.shares_host:
        yield f"others ran beside {'A' if a.shares_host else 'B'} alone"
    if (a.machine, own_a) == (b.machine, own_b):
        yield f"the machine or its software is not quite the same: see {typed('store')} diff"


def _left(
    a: Side, b: Side, pairs: Sequence[tuple[Result, Result]]
) -> tuple[tuple[Result, ...], tuple[Result, ...]]:
    """Return the results of both sides that are in no pair."""
    taken_a = {(one.trial_id, one.environment.key) for one, _ in pairs}
    taken_b = {(other.trial_id, other.environment.key) for _, other in pairs}
    left_a = (one for one in a.results if (one.trial_id, one.environment.key) not in taken_a)
    left_b = (one for one in b.results if (one.trial_id, one.environment.key) not in taken_b)
    return tuple(left_a), tuple(left_b)


def _why_none(a: Side, b: Side, found: _Matched) -> str:
    pairs = []
    for one in a.results:
        others = found.by_key.get(_key(one, found.fixed, found.free), ())
        pairs += [(one, other) for other in others]
    for one, other in pairs:
        if _counts_alike(one, other):
            return _apart(a, b, one, other)
    if pairs:
        one, other = pairs[0]
        return (
            f"{a.text} is measured in {one.unit} and {b.text} in {other.unit}, which are never "
            "compared: choose trials that count the same"
        )
    return _closest(a, b, found.fixed)


def _apart(a: Side, b: Side, one: Result, other: Result) -> str:
    how = "with host=, software_key=, sweep= or shares_host= on both sides"
    if one.environment.host != other.environment.host:
        hosts = one.environment.host, other.environment.host
        how = f"as 'host={hosts[0]} {a.text}' and 'host={hosts[1]} {b.text}'"
    why = "; ".join(_environments(one, other))
    return f"{why}: name the two {how}, to compare them nonetheless"


def _closest(a: Side, b: Side, fixed: Sequence[str]) -> str:
    found = []
    for one in a.results[:_MOST_TRIED]:
        for other in b.results[:_MOST_TRIED]:
            differing = [axis for axis in fixed if one.axes.get(axis) != other.axes.get(axis)]
            found.append((differing, one, other))
    axes, one, other = min(found, key=lambda each: len(each[0]))
    reported = ", ".join(
        f"{axis} (A {one.axes.get(axis)}, B {other.axes.get(axis)})" for axis in axes
    )
    remedy = "run more"
    if axes:
        of_a, of_b = (f"{axes[0]}={side.axes.get(axes[0])}" for side in (one, other))
        remedy = f"name it on both sides, as '{a.text} {of_a}' '{b.text} {of_b}', or run the rest"
    why = f"{a.text} and {b.text} have no setting in common; the closest differ in {reported}"
    return f"{why}: {remedy}"
