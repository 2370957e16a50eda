"""Results beside those of another side: another machine, another time, or published figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.published import precision_as_published, usual_image_px, usual_seq_len
from analysis.reported_hosts import hosts_of
from analysis.results import (
    Against,
    Environment,
    Origin,
    Result,
    axes_of,
)
from scalemark.records.devices import DeviceKind
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import unusual_axes
from scalemark.stats.welch import known_ratio_interval
from scalemark.text.wording import counted
from store.errors import StoreError

_OPEN = ("", "n/a", "?")
_ABOUT_MACHINES = ("device_kind", "strategy")
_MOST_LISTED = 8
_MOST_TRIED = 200  # of each side, to find the closest


@dataclass(frozen=True, slots=True, kw_only=True)
class Opposed:
    """Our results, each against the same trial in one environment of the other side, if it is
    there."""

    other: Environment
    results: tuple[Result, ...]
    notes: tuple[str, ...]  # what a reader of the ratios must know


def opposed(results: Sequence[Result], others: Sequence[Result]) -> list[Opposed]:
    """Return one per environment of the other side that has something in common with ours.

    Raises StoreError when none has.
    """
    by_environment: dict[str, list[Result]] = defaultdict(list)
    for other in others:
        by_environment[other.environment.key].append(other)
    found = [_opposed(results, of_environment) for of_environment in by_environment.values()]
    if not any(found):
        sides = f"here {_described(results)}; there {_described(others)}"
        raise StoreError(
            f"nothing in common with the other side; {sides}; {_closest(results, others)}"
        )
    return [one for one in found if one is not None]


def _opposed(results: Sequence[Result], others: Sequence[Result]) -> Opposed | None:
    environment = others[0].environment
    is_published = environment.origin is Origin.PUBLISHED
    by_key: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for other in others:
        if other.throughput:
            by_key[_key(other, is_published=is_published)].append(other)
    matched, with_other, num_ambiguous = [], [], 0
    open_axes: set[str] = set()
    reported: set[str] = set()
    other_sizes: set[str] = set()
    for result in results:
        candidates = by_key.get(_key(result, is_published=is_published), [])
        if is_published:
            candidates = [one for one in candidates if _may_be(result, one)]
            candidates.sort(key=lambda one: len(_open(one)))
            if candidates and not _has_size_of(candidates[0], result):
                other_sizes.add(_sizes(result, candidates[0]))
                candidates = []
        num_ambiguous += len(candidates) > 1
        against = _against(result, candidates[0]) if candidates else None
        matched.append(replace(result, against=against))
        if against:
            with_other.append(result)
            open_axes |= _open(against.other)
            reported |= against.other.free.keys() | against.other.axes.keys()
    if not with_other:
        return None
    notes = (
        *_notes(with_other, environment, open_axes, reported, num_ambiguous),
        *sorted(other_sizes),
    )
    return Opposed(other=environment, results=tuple(matched), notes=notes)


def _against(result: Result, other: Result) -> Against | None:
    if result.throughput is None or other.throughput is None:
        return None
    low, high = known_ratio_interval(result.repeats, other.repeats)
    return Against(other=other, ratio=result.throughput / other.throughput, low=low, high=high)


def _key(result: Result, *, is_published: bool) -> tuple[object, ...]:
    """Return what both sides must have in common; sources know some axes alone."""
    axes = result.axes
    if not is_published:
        return tuple(_trial(result).items())
    work = (result.item, _sure(axes["model"]), axes["batch_size"])
    work_of_update = (*work, axes.get("gradient_accumulation") or 1, result.num_gpus)
    return (*work_of_update, _hosts(result), precision_as_published(axes), _is_real(result))


def _trial(result: Result) -> dict[str, object]:
    """Return what is counted, and all axes of a result of ours but the machine's."""
    axes = (axis for axis in axes_of([result]) if axis not in _ABOUT_MACHINES)
    return {axis: result.axes[axis] for axis in axes} | {"item": result.item}


def _hosts(result: Result) -> int | str:
    """A source may leave the number open: then it is compared with no figure of one host."""
    if result.environment.origin.is_ours or "hosts" in result.axes:
        return result.hosts
    return hosts_of(result.environment.machine, result.num_gpus) or "not reported"


def _is_real(result: Result) -> bool:
    data = str(result.axes["data"] or "synthetic")  # of a program nobody knows
    return data != "synthetic" if result.environment.origin.is_ours else data.startswith("real")


def _may_be(result: Result, other: Result) -> bool:
    """Say whether what the source reports of strategy, optimizer and free axes is ours."""
    reported = {axis: _sure(other.axes.get(axis, "")) for axis in (*STRATEGY_AXES, "optimizer")}
    known = {axis: value for axis, value in reported.items() if value not in _OPEN}
    if any(value != result.axes[axis] for axis, value in known.items()):
        return False
    return other.free.items() <= result.free.items()


def _has_size_of(other: Result, result: Result) -> bool:
    """Images of another size, and sequences of another length, are other work."""
    return all(theirs in (None, result.axes[size]) for size, theirs in _sizes_of(other).items())


def _sizes_of(other: Result) -> dict[str, Any]:
    """Return the sizes that a source tells, or means; None where nobody knows."""
    axes, model = other.axes, str(other.axes["model"])
    return {
        "image_px": axes.get("image_px") or usual_image_px(model),
        "seq_len": axes.get("seq_len") or usual_seq_len(model),
    }


def _sizes(result: Result, other: Result) -> str:
    ours = result.axes
    differing = [axis for axis, of in _sizes_of(other).items() if of not in (None, ours[axis])]
    axis, what = differing[0], "sequences" if "seq_len" in differing else "images"
    return (
        f"not compared: {ours['model']} of {axis} {ours[axis]} is other work than the source's, "
        f"whose {what} had {_sizes_of(other)[axis]}"
    )


def _open(other: Result) -> set[str]:
    """Return axes that the source does not report, or leaves in doubt."""
    if other.environment.origin is not Origin.PUBLISHED:
        return set()
    axes = {axis: str(value or "") for axis, value in other.axes.items() if axis != "strategy"}
    return {axis for axis, value in axes.items() if value in _OPEN or value.endswith("?")}


def _sure(value: Any) -> Any:
    return value.removesuffix("?") if isinstance(value, str) else value


def _notes(
    results: Sequence[Result],
    environment: Environment,
    open_axes: set[str],
    reported_axes: set[str],
    num_ambiguous: int,
) -> Iterator[str]:
    kinds = {result.environment.device_kind for result in results} | {environment.device_kind}
    if DeviceKind.SIMULATED_GPU in kinds and len(kinds) > 1:
        yield (
            "SIMULATED AGAINST PUBLISHED: these ratios tell how near the cost model comes, and "
            "nothing of any hardware of ours"
        )
    elif len(kinds) > 1:
        yield (
            "CPU DEVICES AGAINST GPUs: these ratios set cores beside graphics processors, and "
            "say nothing of strategies"
        )
    if environment.origin is not Origin.PUBLISHED:
        return
    if open_axes:
        ordered = [axis for axis in results[0].axes if axis in open_axes]
        yield f"the source leaves open or in doubt: {', '.join(ordered)}"
    if untold := _not_in_sources(results, reported_axes):
        yield f"the source does not tell what is here {', '.join(untold)}"
    datas = sorted({str(result.axes["data"]) for result in results} - {"synthetic", "None"})
    if datas:
        yield f"real data: here {', '.join(datas)}, there as the source had it"
    if num_ambiguous:
        yield (
            f"of {counted(num_ambiguous, 'trial')} the source has several figures; the one of "
            "which it tells most is taken"
        )


def _not_in_sources(results: Sequence[Result], reported_axes: set[str]) -> list[str]:
    """Return axes of ours that sources do not have, where they matter."""
    values: dict[str, set[str]] = {}
    left_out = {"xla", "precision", "hosts", *reported_axes}
    for result in results:
        for axis in ("image_px", "optimizer", *unusual_axes(result.axes)):
            if axis not in left_out and result.axes[axis] is not None:
                values.setdefault(axis, set()).add(str(result.axes[axis]))
    return [f"{axis} {' or '.join(sorted(of))}" for axis, of in values.items()]


def _closest(results: Sequence[Result], others: Sequence[Result]) -> str:
    """Say in what those differ that have the most in common, as `the closest differ in precision
    (here fp32, there fp16)`.
    """
    origin = others[0].environment.origin
    pairs = []
    for one in _compared(results, origin):
        for other in _compared(others, origin):
            names = dict.fromkeys([*one, *other])
            axes = [name for name in names if other.get(name) not in (one.get(name), *_OPEN)]
            pairs.append((axes, one, other))
    axes, one, other = min(pairs, key=lambda pair: ("model" in pair[0], len(pair[0])))
    if not axes:
        return "where they are the same, one of the two has no number"
    differing = (f"{axis} (here {one.get(axis)}, there {other.get(axis)})" for axis in axes)
    return f"the closest differ in {', '.join(differing)}"


def _compared(results: Sequence[Result], origin_of_others: Origin) -> list[dict[str, object]]:
    """Return the different settings of axes that must be the same on both sides."""
    found = {}
    for result in results:
        axes = result.axes
        if origin_of_others.is_ours:
            setting = _trial(result)
        else:
            model = _sure(axes["model"])
            setting = {
                "item": result.item,
                "model": model,
                **_sizes_to_compare(result),
                "batch_size": axes["batch_size"],
                "gradient_accumulation": axes.get("gradient_accumulation") or 1,
                "num_gpus": axes["num_gpus"],
                "hosts": _hosts(result),
                "precision": precision_as_published(axes),
                "data": "real" if _is_real(result) else "synthetic",
                **{axis: _sure(axes[axis]) for axis in STRATEGY_AXES},
            }
        found[repr(setting)] = setting
    return list(found.values())[:_MOST_TRIED]


def _sizes_to_compare(result: Result) -> dict[str, object]:
    """Return the sizes of a result, those that its source means where it tells none."""
    if result.environment.origin.is_ours:
        return {size: result.axes[size] for size in ("image_px", "seq_len")}
    return {size: value or "" for size, value in _sizes_of(result).items()}


def _described(results: Sequence[Result]) -> str:
    """Return the axes by which others look for the same."""
    found = []
    for axis in ("model", "num_gpus", "batch_size", "precision", "data"):
        values = sorted(
            {result.axes[axis] for result in results},
            key=lambda value: (isinstance(value, str), value or 0),
        )
        if values == [None] and results[0].environment.origin.is_ours:
            continue  # a program of the user's own has no such axis
        texts = [str(value or "not reported") for value in values[:_MOST_LISTED]]
        if len(values) > _MOST_LISTED:
            texts.append("...")
        name = f"{axis} " if axis in ("num_gpus", "batch_size") else ""
        found.append(f"{name}{', '.join(texts)}")
    devices = dict.fromkeys(result.environment.devices for result in results)
    return f"{'; '.join(found)} on {' and '.join(devices)}"
