"""Pairs whole trials of two sides that are equal but for what is compared.

Nothing is averaged over another axis.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.compare.published import matched
from analysis.compare.sides import ComparedSide
from analysis.results import Result, axes_of, global_batch
from analysis.text.versions import differing
from scalemark.records.trial import STRATEGY_AXES
from scalemark.text.wording import natural
from store.errors import StoreError

# Axes that `auto` derives from another one: they may differ where that one is compared and no
# trial is equal in them.
_FOLLOWERS = {
    "precision": ("loss_scale", "data_format"),
    "optimizer": ("learning_rate", "momentum", "weight_decay"),
    "data": ("data_dir", "distortions", "cache"),
}
_STRATEGY = ("strategy", *STRATEGY_AXES)
_USUAL = ("model", "num_gpus")
_UNKNOWN = (None, "?")
_MOST_TRIED = 200  # of each side, to find the closest


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPair:
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

    pairs: tuple[TrialPair, ...]
    only_a: tuple[Result, ...]
    only_b: tuple[Result, ...]
    notes: tuple[str, ...] = ()


def paired(a: ComparedSide, b: ComparedSide) -> Paired:
    """TrialPair trials of one machine and software, unless the sides name these.

    Axes that follow from what is compared (`_FOLLOWERS`) may differ where nothing else is equal;
    so may the one axis in which two sweeps differ. Raises StoreError when nothing is left.
    """
    if b.is_published:
        return _with_published(a, b)
    free = _with_strategies(a.axes | b.axes, [*a.results, *b.results])
    if a.is_by_name and b.is_by_name:
        free = frozenset(axes_of([*a.results, *b.results]))
    anywhere = a.names_an_environment or b.names_an_environment
    notes = []
    pairs = _match(a.results, b.results, free, anywhere=anywhere)
    followers = _followers(free)
    if followers:
        left_a, left_b = _left(a, b, pairs)
        loose = _match(left_a, left_b, free | followers, anywhere=anywhere)
        if loose:
            free, pairs = free | followers, [*pairs, *loose]
    if not pairs and not free and (axis := _only_difference(a, b)):
        free = frozenset(_STRATEGY) if axis == "strategy" else frozenset({axis})
        free |= _followers(free)
        pairs = _match(a.results, b.results, free, anywhere=anywhere)
        of_a, of_b = _listed(_values(a, axis)), _listed(_values(b, axis))
        notes.append(f"the two differ in {axis}, by which they are compared: A {of_a}, B {of_b}")
    different = [pair for pair in pairs if not _share_attempts(*pair)]
    if not different:
        if pairs:
            raise StoreError(
                f"{a.text} and {b.text}: the same attempts on both sides; name what differs, as "
                "strategy=ps_cpu and strategy=ps_gpu"
            )
        raise StoreError(_why_none(a, b, free))
    only_a, only_b = _left(a, b, pairs)
    shown = _pairs(different, _fixed(a.results, b.results, free))
    return Paired(pairs=tuple(shown), only_a=only_a, only_b=only_b, notes=tuple(notes))


def _with_published(a: ComparedSide, b: ComparedSide) -> Paired:
    """TrialPair our trials with the figures of a source, which says less of each."""
    found = matched(a.results, b.results)
    taken = {result.trial_id for result, _ in found.pairs}
    shown = [axis for axis in axes_of(a.results) if axis not in STRATEGY_AXES]
    pairs = []
    for pair in _pairs(found.pairs, shown):
        environment = pair.b.environment
        setting = {**pair.setting, "published for": environment.machine}
        pairs.append(TrialPair(a=pair.a, b=pair.b, setting=setting, compared=(), notes=()))
    only_a = [result for result in a.results if result.trial_id not in taken]
    return Paired(pairs=tuple(pairs), only_a=tuple(only_a), only_b=(), notes=found.notes)


def _followers(free: Collection[str]) -> frozenset[str]:
    return frozenset(axis for name in free for axis in _FOLLOWERS.get(name, ())).difference(free)


def _only_difference(a: ComparedSide, b: ComparedSide) -> str:
    """Return the only axis of which the sides share no value; empty where there are several."""
    apart = []
    for axis in axes_of([*a.results, *b.results]):
        if not _values(a, axis) & _values(b, axis):
            apart.append("strategy" if axis in _STRATEGY else axis)
    axes = set(apart).difference(_followers(apart))
    return axes.pop() if len(axes) == 1 else ""


def _values(side: ComparedSide, axis: str) -> set[object]:
    return {result.axes.get(axis) for result in side.results}


def _listed(values: set[object]) -> str:
    return ", ".join(sorted(map(str, values)))


def _fixed(of_a: Sequence[Result], of_b: Sequence[Result], free: Collection[str]) -> list[str]:
    """Return the axes that both results of a pair must have alike."""
    return [axis for axis in axes_of([*of_a, *of_b]) if axis not in free]


def _share_attempts(of_a: Result, of_b: Result) -> bool:
    """Return whether both are made of the same attempts; attempts of tables are unknown."""
    if not of_a.environment.origin.is_ours:
        return of_a.trial_id == of_b.trial_id
    return not set(of_a.attempt_ids).isdisjoint(of_b.attempt_ids)


def _with_strategies(free: frozenset[str], results: Sequence[Result]) -> frozenset[str]:
    """Return them with what goes with them: a strategy may be the name of free axes."""
    parts: set[str] = set()
    for result in results:
        if result.is_named_by_free_axes:
            parts.update(result.strategy_axes)
    if "strategy" in free:
        return free | parts
    return free | {"strategy"} if free & parts else free


def _match(
    of_a: Sequence[Result], of_b: Sequence[Result], free: frozenset[str], *, anywhere: bool
) -> list[tuple[Result, Result]]:
    pairs = []
    for result, partners in _alike(of_a, of_b, free):
        beside = [other for other in partners if other.environment.key == result.environment.key]
        if beside or not anywhere:
            partners = beside
        # where the sides name environments, their trials need not share one
        pairs += [(result, other) for other in partners if _counts_alike(result, other)]
    return pairs


def _alike(
    of_a: Sequence[Result], of_b: Sequence[Result], free: frozenset[str]
) -> Iterator[tuple[Result, list[Result]]]:
    """Yield each result of A with those of B that equal it but for the free axes."""
    fixed = _fixed(of_a, of_b, free)
    by_key: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in of_b:
        by_key[_key(result, fixed, free)].append(result)
    for result in of_a:
        yield result, by_key.get(_key(result, fixed, free), [])


def _key(result: Result, fixed: Sequence[str], free: Collection[str]) -> tuple[object, ...]:
    """Trials of other GPU counts share the batch of all GPUs under strong scaling."""
    axes = {axis: result.axes.get(axis) for axis in fixed}
    if result.axes.get("scaling") == "strong" and "num_gpus" in free and "batch_size" in axes:
        axes["batch_size"] = global_batch(result)
    return tuple(axes.values())


def _counts_alike(of_a: Result, of_b: Result) -> bool:
    """Return whether their numbers are of one item; a result without a number has none."""
    return of_a.throughput is None or of_b.throughput is None or of_a.item == of_b.item


def _pairs(pairs: Sequence[tuple[Result, Result]], fixed: Sequence[str]) -> Iterator[TrialPair]:
    shown = []
    for axis in fixed:
        if axis not in STRATEGY_AXES and (axis in _USUAL or _varies(axis, pairs)):
            shown.append(axis)
    ordered = sorted(pairs, key=lambda pair: _place(pair[0]))
    environments = _environment_names([result for result, _ in ordered])
    for of_a, of_b in ordered:
        # a table that was imported need not say them
        setting = {axis: of_a.axes[axis] for axis in shown if of_a.axes.get(axis) not in _UNKNOWN}
        if len(environments) > 1:
            setting["environment"] = environments[of_a.environment.key]
        yield TrialPair(
            a=of_a,
            b=of_b,
            setting=setting,
            compared=tuple(_apart(of_a, of_b, axes_of([of_a, of_b]))),
            notes=tuple(_environments(of_a, of_b)),
        )


def _apart(of_a: Result, of_b: Result, axes: Iterable[str]) -> list[str]:
    return [axis for axis in axes if of_a.axes.get(axis) != of_b.axes.get(axis)]


def _environment_names(results: Sequence[Result]) -> dict[str, str]:
    """Name each environment by what not all have alike, as `program commit 3f2a1c`."""
    by_key = {result.environment.key: result.environment for result in results}
    facts = []
    for environment in by_key.values():
        shares_host = str(environment.shares_host)
        own = {"host": environment.host, "shares_host": shares_host, "devices": environment.devices}
        facts.append(own | dict(environment.software))
    return dict(zip(by_key, differing(facts), strict=True))


def _place(result: Result) -> tuple[object, ...]:
    """Return the key to sort pairs by: also by the free axes of which a strategy is the name."""
    own = natural(result.strategy) if result.is_named_by_free_axes else ()
    return str(result.axes["model"]), result.num_gpus, own


def _varies(axis: str, pairs: Sequence[tuple[Result, Result]]) -> bool:
    """Return whether it varies within a model, whose name implies what is its own."""
    models = {of_a.axes["model"] for of_a, _ in pairs}
    return len({(of_a.axes["model"], of_a.axes.get(axis)) for of_a, _ in pairs}) > len(models)


def _environments(of_a: Result, of_b: Result) -> Iterator[str]:
    a, b = of_a.environment, of_b.environment
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
        yield "the machine or its software is not quite the same"


def _left(
    a: ComparedSide, b: ComparedSide, pairs: Sequence[tuple[Result, Result]]
) -> tuple[tuple[Result, ...], tuple[Result, ...]]:
    """Return the results of both sides that are in no pair."""
    taken_a, taken_b = set(), set()
    for of_a, of_b in pairs:
        taken_a.add(_identity(of_a))
        taken_b.add(_identity(of_b))
    left_a = [result for result in a.results if _identity(result) not in taken_a]
    left_b = [result for result in b.results if _identity(result) not in taken_b]
    return tuple(left_a), tuple(left_b)


def _identity(result: Result) -> tuple[str, str]:
    return result.trial_id, result.environment.key


def _why_none(a: ComparedSide, b: ComparedSide, free: frozenset[str]) -> str:
    pairs = []
    for of_a, partners in _alike(a.results, b.results, free):
        for of_b in partners:
            pairs.append((of_a, of_b))
    for of_a, of_b in pairs:
        if _counts_alike(of_a, of_b):
            how = "with host=, software_key=, sweep= or shares_host= on both sides"
            hosts = of_a.environment.host, of_b.environment.host
            if hosts[0] != hosts[1]:
                how = f"as 'host={hosts[0]} {a.text}' and 'host={hosts[1]} {b.text}'"
            why = "; ".join(_environments(of_a, of_b))
            return f"{why}: name the two {how}, to compare them nonetheless"
    if pairs:
        of_a, of_b = pairs[0]
        return (
            f"{a.text} is measured in {of_a.unit} and {b.text} in {of_b.unit}, which are never "
            "compared: choose trials that count the same"
        )
    fixed = _fixed(a.results, b.results, free)
    candidates = []
    for of_a in a.results[:_MOST_TRIED]:
        for of_b in b.results[:_MOST_TRIED]:
            candidates.append((_apart(of_a, of_b, fixed), of_a, of_b))
    axes, of_a, of_b = min(candidates, key=lambda candidate: len(candidate[0]))
    differences = [f"{axis} (A {of_a.axes.get(axis)}, B {of_b.axes.get(axis)})" for axis in axes]
    remedy = "run more"
    if axes:
        own_a, own_b = (f"{axes[0]}={result.axes.get(axes[0])}" for result in (of_a, of_b))
        remedy = f"name it on both sides, as '{a.text} {own_a}' '{b.text} {own_b}', or run the rest"
    return (
        f"{a.text} and {b.text} have no setting in common; the closest differ in "
        f"{', '.join(differences)}: {remedy}"
    )
