"""Trials that differ from another in one thing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.records.axes import AxisValue, Engine
from scalemark.records.free_axes import is_free
from scalemark.records.outcomes import injected_on_one_host
from scalemark.records.trial import STRATEGY_AXES, TrialSpec


def with_num_gpus(spec: TrialSpec, num_gpus: int) -> TrialSpec:
    """Return it on so many GPUs, over as many hosts where these can share them, else on one.

    Strong scaling keeps the batch of all GPUs.
    """
    hosts = spec.hosts if num_gpus % spec.hosts == 0 else 1
    batch_size = spec.batch_size
    if spec.scaling == "strong":
        batch_size = max(1, batch_size * spec.num_gpus // num_gpus)
    return replace(with_hosts(spec, hosts), num_gpus=num_gpus, batch_size=batch_size)


def with_hosts(spec: TrialSpec, hosts: int) -> TrialSpec:
    """Return it over so many hosts, which must divide its GPUs; one host has no links."""
    injected = spec.injected if hosts > 1 else injected_on_one_host(spec.injected)
    return replace(spec, hosts=hosts, injected=injected)


def with_batch(spec: TrialSpec, batch_size: int) -> TrialSpec:
    return replace(spec, batch_size=batch_size)


def with_strategy(
    spec: TrialSpec, variable_update: str, local_parameter_device: str, all_reduce: str
) -> TrialSpec:
    """Stage variables only where the variable update can."""
    update = VARIABLE_UPDATES.get(variable_update)
    return replace(
        spec,
        variable_update=variable_update,
        local_parameter_device=local_parameter_device,
        all_reduce=all_reduce,
        staged_vars=spec.staged_vars and update is not None and update.stages,
    )


def with_way(spec: TrialSpec, axes: Mapping[str, AxisValue | None]) -> TrialSpec:
    """Return it with other values of the axes that its strategy stands for; None: without the free
    axis.
    """
    if spec.engine != Engine.command:
        return with_strategy(spec, *(str(axes[axis]) for axis in STRATEGY_AXES))
    own: dict[str, Any] = {axis: value for axis, value in axes.items() if not is_free(axis)}
    free = dict(spec.free) | {axis: value for axis, value in axes.items() if axis not in own}
    there = {axis: value for axis, value in free.items() if value is not None}
    return replace(spec, **own, free=tuple(there.items()))
