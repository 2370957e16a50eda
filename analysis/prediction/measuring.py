"""The command that measures a cell, with the axes of trials that are like it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis import again
from analysis.neighbors import with_strategy
from analysis.results import Result
from costs.work import Work
from scalemark.abilities import OPTIMIZERS
from scalemark.records import overrides
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import TrialSpec

_USUAL = {
    "gradient_repacking": 0,
    "compact_gradients": False,
    "staged_vars": False,
    "steps_per_execution": 1,
    "gradient_accumulation": 1,
    "optimizer": "momentum",
    "recompute": False,
}
_SHARED = ("num_gpus", "batch_size", "precision", "distortions", *_USUAL)
"""Axes that work and trials name alike."""


_OF_AN_OPTIMIZER = ("learning_rate", "momentum", "weight_decay")
"""Axes that `auto` gives a value of each optimizer's own."""


def measuring(work: Work, alike: Sequence[Result]) -> str:
    """Return the command; `alike` are results of the same environment. It is empty where our
    trainer has no such optimizer.

    Published ones have not all axes, so that for them only those of the work are named, and the
    optimizer only where it is one of ours.
    """
    ours = [result for result in alike if result.environment.origin.is_ours]
    if not ours:
        return overrides.sweep(overrides.of_axes(_axes(work)))
    if work.optimizer not in OPTIMIZERS:
        return ""
    same_model = [result for result in ours if result.axes["model"] == work.network.name]
    like = (same_model or ours)[0]
    own = _OF_AN_OPTIMIZER if work.optimizer != like.axes["optimizer"] else ()
    return again.command(_changed(like.spec, work), same_model or [like], without=own)


def _axes(work: Work) -> dict[str, object]:
    axes: dict[str, object] = {"model": work.network.name}
    for axis in ("num_gpus", "batch_size", "precision", *STRATEGY_AXES):
        axes[axis] = getattr(work, axis)
    for axis in ("image_px", "seq_len"):
        if size := getattr(work.network, axis):
            axes[axis] = size
    axes["xla"] = "on" if work.xla else "off"
    axes["data"] = _data(work)
    axes["distortions"] = _distorts(work)
    for axis, usual in _USUAL.items():
        value = getattr(work, axis)
        # sources name optimizers that none of ours is
        if value != usual and (axis != "optimizer" or value in OPTIMIZERS):
            axes[axis] = value
    return axes


def _data(work: Work) -> str:
    """Return a data set of what the model takes."""
    if not work.real_data:
        return "synthetic"
    return "text" if work.network.seq_len else "imagenet"


def _distorts(work: Work) -> bool:
    """Return whether images are distorted; tokens never are."""
    return work.distortions and not work.network.seq_len


def _changed(spec: TrialSpec, work: Work) -> TrialSpec:
    shared = {axis: getattr(work, axis) for axis in _SHARED} | {"distortions": _distorts(work)}
    network = work.network
    shared |= {"image_px": network.image_px, "seq_len": network.seq_len}
    spec = replace(spec, model=network.name, **shared)
    if work.xla != (spec.xla != "off"):
        spec = replace(spec, xla="on" if work.xla else "off")
    if work.real_data != (spec.data != "synthetic"):
        spec = replace(spec, data=_data(work), data_dir="")
    return with_strategy(spec, *(getattr(work, axis) for axis in STRATEGY_AXES))
