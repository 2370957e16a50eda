"""Describe a choice: strategy, GPUs, batch, precision, and what else is unusual about it."""

from __future__ import annotations

from analysis.results import Origin, Result, over
from analysis.text.titles import named
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


def described(result: Result, *, against: Result | None = None, is_cell: bool = False) -> str:
    """Return as `replicated_nccl on 8 GPUs, batch_size 64, fp16`.

    With `against` another choice, name only what differs beside strategy and GPUs. A cell below
    `column_heading` has the number of devices alone.
    """
    axes = result.axes
    says_less = result.environment.origin is not Origin.PUBLISHED
    unusual = [axis for axis in unusual_axes(axes) if axis not in _NAMED_APART]
    where = f"{result.num_gpus}{over(result.hosts)}" if is_cell else result.counted
    reported = [f"{result.strategy} on {where}"]
    told = result.strategy_axes
    for axis in ("batch_size", "precision", *unusual):
        if axis in told or (axes.get(axis) in _UNSAID and says_less):
            continue
        if against is None or against.axes.get(axis) != axes.get(axis):
            reported.append(named(axis, axes[axis]))
    if against is None:
        return ", ".join(reported)
    # what is unusual about the other, and usual here
    for axis in unusual_axes(against.axes):
        is_named = axis in unusual or axis in _NAMED_APART or axis in told or axis not in axes
        if not is_named and axes.get(axis) != against.axes.get(axis):
            reported.append(f"{axis} {axes[axis]}")
    return ", ".join(reported)
