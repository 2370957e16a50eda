"""A choice in words: strategy, GPUs, batch, precision, and whatever else is unusual about it."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.results import Result
from analysis.text.titles import named
from scalemark.records.trial import unusual_axes

_TOLD_APART = ("precision", "scaling", "data_dir", "distortions", "optimizer", "hosts", "planted")


def described(result: Result, *, against: Result | None = None) -> str:
    """As `replicated_nccl on 8 GPUs, batch_size 64, fp16`; `against` another, only what differs
    beside strategy and GPUs.
    """
    axes = result.axes
    told = [f"{result.strategy} on {result.counted}"]
    for axis in (
        "batch_size",
        "precision",
        *(axis for axis in unusual_axes(axes) if axis not in _TOLD_APART),
    ):
        if against is None or against.axes.get(axis) != axes.get(axis):
            told.append(named(axis, axes[axis]))
    if against is not None:
        told += [f"{axis} {axes[axis]}" for axis in _unusual_in(against.axes, axes)]
    return ", ".join(told)


def _unusual_in(of: Mapping[str, object], axes: Mapping[str, object]) -> list[str]:
    """Axes in which another choice is unusual and this one is not."""
    own = unusual_axes(axes)
    return [
        axis
        for axis in unusual_axes(of)
        if axis not in (*own, *_TOLD_APART) and axes.get(axis) != of.get(axis)
    ]
