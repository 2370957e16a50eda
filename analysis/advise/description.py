"""Describe a choice: strategy, GPUs, batch, precision, and what else is unusual about it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from analysis.results import Result, over, setting
from analysis.text.titles import named
from scalemark.records.overrides import OF_PRECISION
from scalemark.records.references import Origin
from scalemark.records.trial import unusual_axes

_NAMED_APART = (
    "precision",
    "scaling",
    "data_dir",
    "distortions",
    "optimizer",
    "hosts",
    "injected",
    "model_digest",
)

_UNSAID = (None, "")  # of a program, or of a table that was taken in


def column_heading(result: Result) -> str:
    """Return the heading over `described(..., is_cell=True)`."""
    return f"choice, on N {result.environment.devices}"


def cells(results: Sequence[Result], against: Result) -> list[str]:
    """Describe each for a cell, without what another precision brings along, as its loss scale,
    unless two would look the same.
    """
    short = [
        described(one, against=against, is_cell=True, leaves_out=with_precision(one, against))
        for one in results
    ]
    if len(set(short)) == len(short):
        return short
    return told_apart([described(one, against=against, is_cell=True) for one in results], results)


def told_apart(texts: Sequence[str], results: Sequence[Result]) -> list[str]:
    """Add to what looks the same the axes in which it differs."""
    alike: dict[str, list[Result]] = defaultdict(list)
    for text, result in zip(texts, results, strict=True):
        alike[text].append(result)
    found = []
    for text, result in zip(texts, results, strict=True):
        said = [text]
        for axis, value in setting(result).items():
            if any(setting(other).get(axis) != value for other in alike[text]):
                said.append(named(axis, value))
        found.append(", ".join(said))
    return found


def with_precision(result: Result, against: Result) -> tuple[str, ...]:
    """Return the axes that follow from a precision, where that differs."""
    if result.axes.get("precision") == against.axes.get("precision"):
        return ()
    return OF_PRECISION


def unlike(result: Result, others: Sequence[Result]) -> list[str]:
    """Name what is rarely said of a choice, as its variables, where others had another value."""
    left_out = {*_NAMED_APART, *result.strategy_axes}
    for other in others:
        left_out.update(with_precision(other, result))
    axes = dict.fromkeys(axis for one in (result, *others) for axis in unusual_axes(one.axes))
    varied = [axis for axis in axes if len({one.axes.get(axis) for one in others}) > 1]
    return [named(axis, result.axes.get(axis)) for axis in varied if axis not in left_out]


def described(
    result: Result,
    *,
    against: Result | None = None,
    is_cell: bool = False,
    leaves_out: Sequence[str] = (),
) -> str:
    """Return as `replicated_nccl on 8 GPUs, batch_size 64, fp16`.

    With `against` another choice, name only what differs beside strategy and GPUs, but for axes
    that it `leaves_out`. A cell below `column_heading` has the number of devices alone.
    """
    axes = result.axes
    says_less = result.environment.origin is not Origin.PUBLISHED
    unusual = [axis for axis in unusual_axes(axes) if axis not in _NAMED_APART]
    where = f"{result.num_gpus}{over(result.hosts)}" if is_cell else result.counted
    reported = [f"{result.strategy} on {where}"]
    of_strategy = result.strategy_axes
    for axis in ("batch_size", "precision", *unusual):
        if axis in (*of_strategy, *leaves_out) or (axes.get(axis) in _UNSAID and says_less):
            continue
        if against is None or against.axes.get(axis) != axes.get(axis):
            reported.append(named(axis, axes[axis]))
    if against is None:
        return ", ".join(reported)
    # what is unusual about the other, and usual here
    for axis in unusual_axes(against.axes):
        named_already = (*unusual, *_NAMED_APART, *of_strategy, *leaves_out)
        is_named = axis in named_already or axis not in axes
        if not is_named and axes.get(axis) != against.axes.get(axis):
            is_lacking = axes[axis] is None
            reported.append(named(axis, None) if is_lacking else f"{axis} {axes[axis]}")
    is_one_way = (result.strategy, result.width) == (against.strategy, against.width)
    if is_one_way and len(reported) == 1:  # they differ in what is rarely said, as their effort
        others = setting(against)
        reported += [
            named(axis, value)
            for axis, value in setting(result).items()
            if others.get(axis) != value and axis not in leaves_out
        ]
    return ", ".join(reported)
