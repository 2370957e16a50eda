"""Matches our trials with published figures of the same trials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.published import precision_as_published, usual_image_px, usual_seq_len
from analysis.results import Result
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import STRATEGY_AXES, unusual_axes
from store.errors import StoreError

_OPEN = ("", "n/a", "?")  # what a source leaves open
_MOST_TRIED = 200  # of each side, to find the closest


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """Our results, each with the published figure of the same trial."""

    pairs: tuple[tuple[Result, Result], ...]
    notes: tuple[str, ...]  # what a reader of the ratios must know


def matched(results: Sequence[Result], figures: Sequence[Result]) -> Matched:
    """Pair our results with the figures of each environment that a source has.

    Of several figures of a trial the most complete is taken. Raises StoreError without a pair.
    """
    by_work: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for figure in figures:
        if figure.throughput:
            by_work[repr(_work(figure))][figure.environment.key].append(figure)
    pairs: list[tuple[Result, Result]] = []
    sizes: dict[str, None] = {}
    for result in results:
        if result.throughput is None:
            continue
        for of_environment in by_work[repr(_work(result))].values():
            able = [figure for figure in of_environment if _may_be(result, figure)]
            if not able:
                continue
            figure = min(able, key=lambda each: len(_open_axes(each)))
            size = _other_size(figure, result)
            if size:
                sizes[size] = None
            else:
                pairs.append((result, figure))
    if not pairs:
        raise StoreError(f"nothing in common with the source; {_closest(results, figures)}")
    return Matched(pairs=tuple(pairs), notes=(*_notes(pairs), *sizes))


def _work(result: Result) -> dict[str, object]:
    axes = result.axes
    is_ours = result.environment.origin.is_ours
    hosts: int | str = result.hosts
    if hosts == 1 and not result.is_on_one_host:
        hosts = "not reported"  # which is not compared with one host
    data = str(axes["data"] or "synthetic")  # unknown of a program
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
    """Return the sizes that a source tells, or means; None where they are unknown."""
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


def _open_axes(figure: Result) -> set[str]:
    """Return axes that the source does not report, or leaves in doubt."""
    axes = {axis: str(value or "") for axis, value in figure.axes.items() if axis != "strategy"}
    return {axis for axis, value in axes.items() if value in _OPEN or value.endswith("?")}


def _sure(value: Any) -> Any:
    return value.removesuffix("?") if isinstance(value, str) else value


def _notes(pairs: Sequence[tuple[Result, Result]]) -> Iterator[str]:
    results, matches = [result for result, _ in pairs], [figure for _, figure in pairs]
    kinds = {result.environment.device_kind for result in results}
    if DeviceKind.SIMULATED_GPU in kinds:
        yield "SIMULATED AGAINST PUBLISHED: these ratios say how near the cost model comes"
    elif DeviceKind.CPU_DEVICE in kinds:
        yield "CPU DEVICES AGAINST GPUs: these ratios say nothing of strategies"
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


def _closest(results: Sequence[Result], figures: Sequence[Result]) -> str:
    """Say in what those differ that have the most in common, as `the closest differ in precision
    (here fp32, there fp16)`.
    """
    candidates = []
    for here in _settings(results):
        for there in _settings(figures):
            names = dict.fromkeys([*here, *there])
            axes = [name for name in names if there.get(name) not in (here.get(name), *_OPEN)]
            candidates.append((axes, here, there))
    axes, here, there = min(candidates, key=lambda each: ("model" in each[0], len(each[0])))
    if not axes:
        return "where they are the same, one of the two has no number"
    differing = [f"{axis} (here {here.get(axis)}, there {there.get(axis)})" for axis in axes]
    return f"the closest differ in {', '.join(differing)}"


def _settings(results: Sequence[Result]) -> list[dict[str, object]]:
    """Return the different settings of axes that must be the same on both sides."""
    settings = {}
    for result in results:
        sizes = {size: value or "" for size, value in _sizes_of(result).items()}
        strategy = {axis: _sure(result.axes[axis]) for axis in STRATEGY_AXES}
        setting = {**_work(result), **sizes, **strategy}
        settings[repr(setting)] = setting
    return list(settings.values())[:_MOST_TRIED]
