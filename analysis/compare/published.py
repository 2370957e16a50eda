"""Matches our trials with the same trials elsewhere: published figures, or another machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.published import precision_as_published, usual_image_px, usual_seq_len
from analysis.reported_hosts import hosts_of
from analysis.results import Against, Environment, Origin, Result, axes_of
from scalemark.records.devices import DeviceKind
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import unusual_axes
from scalemark.stats.welch import known_ratio_interval
from scalemark.text.wording import counted
from store.errors import StoreError

_OPEN = ("", "n/a", "?")  # what a source leaves open
_ABOUT_MACHINES = ("device_kind", "strategy")
_MOST_TRIED = 200  # of each side, to find the closest


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """Our results, each with the same trial of the other side."""

    pairs: tuple[tuple[Result, Result], ...]
    notes: tuple[str, ...]  # what a reader of the ratios must know


@dataclass(frozen=True, slots=True, kw_only=True)
class Opposed:
    """Our results against one environment of the other side."""

    other: Environment
    results: tuple[Result, ...]  # with `against` where the other side has the same trial
    notes: tuple[str, ...]


def matched(results: Sequence[Result], others: Sequence[Result]) -> Matched:
    """Pair our results with the others of each environment. Raises StoreError without a pair."""
    pairs: list[tuple[Result, Result]] = []
    notes: list[str] = []
    for side in opposed(results, others):
        notes += side.notes
        pairs += [(result, result.against.other) for result in side.results if result.against]
    return Matched(pairs=tuple(pairs), notes=tuple(dict.fromkeys(notes)))


def opposed(results: Sequence[Result], others: Sequence[Result]) -> list[Opposed]:
    """Return one per environment of the other side that has something in common with ours.

    Raises StoreError when none has.
    """
    by_environment: dict[str, list[Result]] = defaultdict(list)
    for other in others:
        by_environment[other.environment.key].append(other)
    sides = [_opposed(results, of_environment) for of_environment in by_environment.values()]
    with_pairs = [side for side in sides if any(result.against for result in side.results)]
    if not with_pairs:
        raise StoreError(f"nothing in common with the other side; {_closest(results, others)}")
    return with_pairs


def _opposed(results: Sequence[Result], others: Sequence[Result]) -> Opposed:
    environment = others[0].environment
    is_published = environment.origin is Origin.PUBLISHED
    by_key: dict[str, list[Result]] = defaultdict(list)
    for other in others:
        if other.throughput:
            by_key[_key(other, is_published=is_published)].append(other)
    compared = []
    other_sizes: set[str] = set()
    num_ambiguous = 0
    for result in results:
        candidates = by_key.get(_key(result, is_published=is_published), [])
        if is_published:
            candidates = [other for other in candidates if _may_be(result, other)]
            candidates.sort(key=lambda other: len(_open_axes(other)))
            if candidates and (size := _other_size(candidates[0], result)):
                other_sizes.add(size)
                candidates = []
        num_ambiguous += len(candidates) > 1
        compared.append(replace(result, against=_against(result, candidates)))
    matches = [result.against.other for result in compared if result.against]
    notes = list(_notes([result for result in compared if result.against], environment, matches))
    if num_ambiguous:
        notes.append(
            f"the source has several figures for {counted(num_ambiguous, 'trial')}; the most "
            "complete is taken"
        )
    return Opposed(other=environment, results=tuple(compared), notes=(*notes, *sorted(other_sizes)))


def _against(result: Result, candidates: Sequence[Result]) -> Against | None:
    if not candidates or result.throughput is None:
        return None
    other = candidates[0]
    if other.throughput is None:
        return None
    low, high = known_ratio_interval(result.repeats, other.repeats)
    return Against(other=other, ratio=result.throughput / other.throughput, low=low, high=high)


def _key(result: Result, *, is_published: bool) -> str:
    """Return what both sides must have in common; sources know some axes alone."""
    return repr(_work(result) if is_published else _trial(result))


def _trial(result: Result) -> dict[str, object]:
    """Return what is counted, and all axes of a result of ours but the machine's."""
    axes = {axis: result.axes[axis] for axis in axes_of([result]) if axis not in _ABOUT_MACHINES}
    return axes | {"item": result.item}


def _work(result: Result) -> dict[str, object]:
    axes = result.axes
    is_ours = result.environment.origin.is_ours
    hosts: int | str = result.hosts
    if not is_ours and "hosts" not in axes:  # an open number is not compared with one host
        hosts = hosts_of(result.environment.machine, result.num_gpus) or "not reported"
    data = str(axes["data"] or "synthetic")  # of a program nobody knows
    is_real = data != "synthetic" if is_ours else data.startswith("real")
    return {
        "item": result.item,
        "model": _sure(axes["model"]),
        "batch_size": axes["batch_size"],
        "gradient_accumulation": axes.get("gradient_accumulation") or 1,
        "num_gpus": result.num_gpus,
        "hosts": hosts,
        "precision": precision_as_published(axes),
        "data": "real" if is_real else "synthetic",
    }


def _may_be(result: Result, other: Result) -> bool:
    """Return whether what the source reports of strategy, optimizer and free axes is ours."""
    for axis in (*STRATEGY_AXES, "optimizer"):
        reported = _sure(other.axes.get(axis, ""))
        if reported not in _OPEN and reported != result.axes[axis]:
            return False
    return other.free.items() <= result.free.items()


def _sizes_of(result: Result) -> dict[str, Any]:
    """Return the sizes that a source tells, or means; None where nobody knows."""
    axes, model = result.axes, str(result.axes["model"])
    if result.environment.origin.is_ours:
        return {"image_px": axes["image_px"], "seq_len": axes["seq_len"]}
    return {
        "image_px": axes.get("image_px") or usual_image_px(model),
        "seq_len": axes.get("seq_len") or usual_seq_len(model),
    }


def _other_size(other: Result, result: Result) -> str:
    """Say that images of another size, or sequences of another length, are other work."""
    for axis, size in _sizes_of(other).items():
        ours = result.axes[axis]
        if size not in (None, ours):
            what = "sequences" if axis == "seq_len" else "images"
            return (
                f"not compared: {result.axes['model']} of {axis} {ours} is other work than the "
                f"source's, whose {what} had {size}"
            )
    return ""


def _open_axes(other: Result) -> set[str]:
    """Return axes that the source does not report, or leaves in doubt."""
    if other.environment.origin is not Origin.PUBLISHED:
        return set()
    axes = {axis: str(value or "") for axis, value in other.axes.items() if axis != "strategy"}
    return {axis for axis, value in axes.items() if value in _OPEN or value.endswith("?")}


def _sure(value: Any) -> Any:
    return value.removesuffix("?") if isinstance(value, str) else value


def _notes(
    results: Sequence[Result], environment: Environment, matches: Sequence[Result]
) -> Iterator[str]:
    kinds = {result.environment.device_kind for result in results} | {environment.device_kind}
    if DeviceKind.SIMULATED_GPU in kinds and len(kinds) > 1:
        yield "SIMULATED AGAINST PUBLISHED: these ratios say how near the cost model comes"
    elif len(kinds) > 1:
        yield "CPU DEVICES AGAINST GPUs: these ratios say nothing of strategies"
    if environment.origin is not Origin.PUBLISHED or not results:
        return
    open_axes = {axis for other in matches for axis in _open_axes(other)}
    if open_axes:
        ordered = [axis for axis in results[0].axes if axis in open_axes]
        yield f"the source leaves open or in doubt: {', '.join(ordered)}"
    reported = {axis for other in matches for axis in (*other.free, *other.axes)}
    values: dict[str, set[str]] = defaultdict(set)
    for result in results:
        for axis in ("image_px", "optimizer", *unusual_axes(result.axes)):
            is_told = axis in reported or axis in ("xla", "precision", "hosts")
            if not is_told and result.axes[axis] is not None:
                values[axis].add(str(result.axes[axis]))
    if values:
        untold = [f"{axis} {' or '.join(sorted(of))}" for axis, of in values.items()]
        yield f"the source does not say what is here {', '.join(untold)}"
    datas = sorted({str(result.axes["data"]) for result in results} - {"synthetic", "None"})
    if datas:
        yield f"real data: here {', '.join(datas)}, there as the source had it"


def _closest(results: Sequence[Result], others: Sequence[Result]) -> str:
    """Say in what those differ that have the most in common, as `the closest differ in precision
    (here fp32, there fp16)`.
    """
    is_ours = others[0].environment.origin.is_ours
    candidates = []
    for here in _settings(results, is_ours=is_ours):
        for there in _settings(others, is_ours=is_ours):
            names = dict.fromkeys([*here, *there])
            axes = [name for name in names if there.get(name) not in (here.get(name), *_OPEN)]
            candidates.append((axes, here, there))
    axes, here, there = min(candidates, key=lambda each: ("model" in each[0], len(each[0])))
    if not axes:
        return "where they are the same, one of the two has no number"
    differing = [f"{axis} (here {here.get(axis)}, there {there.get(axis)})" for axis in axes]
    return f"the closest differ in {', '.join(differing)}"


def _settings(results: Sequence[Result], *, is_ours: bool) -> list[dict[str, object]]:
    """Return the different settings of axes that must be the same on both sides."""
    settings = {}
    for result in results:
        if is_ours:
            setting = _trial(result)
        else:
            sizes = {size: value or "" for size, value in _sizes_of(result).items()}
            strategy = {axis: _sure(result.axes[axis]) for axis in STRATEGY_AXES}
            setting = {**_work(result), **sizes, **strategy}
        settings[repr(setting)] = setting
    return list(settings.values())[:_MOST_TRIED]
