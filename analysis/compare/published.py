"""Matches our trials with published figures of the same trials."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from analysis.published import precision_as_published, usual_image_px, usual_seq_len
from analysis.results import Result
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import STRATEGY_AXES, unusual_axes

OPEN = ("", "n/a", "?")  # what a source leaves open


_MAY_BE_OPEN = (*STRATEGY_AXES, "optimizer", "image_px", "seq_len")


def matched(results: Sequence[Result], figures: Sequence[Result]) -> list[tuple[Result, Result]]:
    """Pair our results with the figure of the same trial in each environment of a source; of
    several the most complete one.
    """
    by_size: dict[tuple[object, ...], list[tuple[Result, dict[str, Any]]]] = defaultdict(list)
    for figure in figures:
        if figure.throughput:
            work = work_of(figure)
            by_size[work["model"], work["batch_size"], figure.num_gpus].append((figure, work))
    pairs = []
    for result in results:
        if result.throughput is None:
            continue
        ours = work_of(result)
        best: dict[str, Result] = {}
        for figure, theirs in by_size[ours["model"], ours["batch_size"], result.num_gpus]:
            if _is_other_work(ours, theirs) or not figure.free.items() <= result.free.items():
                continue
            known = best.setdefault(figure.environment.key, figure)
            if len(_open_axes(figure)) < len(_open_axes(known)):
                best[figure.environment.key] = figure
        pairs += [(result, figure) for figure in best.values()]
    return pairs


def _is_other_work(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Return whether what the source reports, or means, is not ours."""
    for name, value in theirs.items():
        is_open = value in OPEN and name in _MAY_BE_OPEN
        if not is_open and value != ours[name]:
            return True
    return False


def work_of(result: Result) -> dict[str, Any]:
    """Return what must be the same on both sides, as far as a source reports or means it."""
    axes, is_ours = result.axes, result.environment.origin.is_ours
    model, hosts = _sure(axes["model"]), result.hosts
    data = str(axes["data"] or "synthetic")  # unknown of a program
    sizes = {name: axes.get(name) for name in ("image_px", "seq_len")}
    if not is_ours:
        sizes["image_px"] = sizes["image_px"] or usual_image_px(model)
        sizes["seq_len"] = sizes["seq_len"] or usual_seq_len(model)
    is_real = data != "synthetic" if is_ours else data.startswith("real")
    work = {
        "item": result.item,
        "model": model,
        "batch_size": axes["batch_size"],
        "gradient_accumulation": axes.get("gradient_accumulation") or 1,
        "num_gpus": result.num_gpus,
        # what is not reported is not compared with one host
        "hosts": "not reported" if hosts == 1 and not result.is_on_one_host else hosts,
        "precision": precision_as_published(axes),
        "data": "real" if is_real else "synthetic",
    }
    for name, size in sizes.items():
        work[name] = "" if size is None else size
    for name in (*STRATEGY_AXES, "optimizer"):
        work[name] = _sure(axes.get(name, ""))
    return work


def _sure(value: Any) -> Any:
    return value.removesuffix("?") if isinstance(value, str) else value


def _open_axes(figure: Result) -> set[str]:
    """Return axes that the source does not report, or leaves in doubt."""
    axes = {axis: str(value or "") for axis, value in figure.axes.items() if axis != "strategy"}
    return {axis for axis, value in axes.items() if value in OPEN or value.endswith("?")}


def notes(pairs: Sequence[tuple[Result, Result]]) -> Iterator[str]:
    """Yield what a reader of the ratios must know."""
    results, figures = [result for result, _ in pairs], [figure for _, figure in pairs]
    kinds = {result.environment.device_kind for result in results}
    if DeviceKind.SIMULATED_GPU in kinds:
        yield "SIMULATED AGAINST PUBLISHED: these ratios say how near the cost model comes"
    elif DeviceKind.CPU_DEVICE in kinds:
        yield "CPU DEVICES AGAINST GPUs: these ratios say nothing of strategies"
    left_open = {axis for figure in figures for axis in _open_axes(figure)}
    if left_open:
        ordered = [axis for axis in results[0].axes if axis in left_open]
        yield f"the source leaves open or in doubt: {', '.join(ordered)}"
    reported = {axis for figure in figures for axis in (*figure.free, *figure.axes)}
    reported |= {"xla", "precision", "hosts"}
    values: dict[str, set[str]] = defaultdict(set)
    for result in results:
        for axis in ("image_px", "optimizer", *unusual_axes(result.axes)):
            if axis not in reported and result.axes[axis] is not None:
                values[axis].add(str(result.axes[axis]))
    if values:
        untold = [f"{axis} {' or '.join(sorted(of))}" for axis, of in values.items()]
        yield f"the source does not say what is here {', '.join(untold)}"
    datas = sorted({str(result.axes["data"]) for result in results} - {"synthetic", "None"})
    if datas:
        yield f"real data: here {', '.join(datas)}, there as the source had it"
