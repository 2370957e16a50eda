"""Trials that differ from another in one thing: what else could be run."""

from __future__ import annotations

from dataclasses import replace

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.records.planted import planted_on_one_host
from scalemark.records.trial import TrialSpec


def with_num_gpus(spec: TrialSpec, num_gpus: int) -> TrialSpec:
    """On so many, over as many hosts where these can share them, else on one, which has no links;
    under strong scaling with the same batch in all.
    """
    hosts = spec.hosts if num_gpus % spec.hosts == 0 else 1
    batch_size = (
        max(1, spec.batch_size * spec.num_gpus // num_gpus)
        if spec.scaling == "strong"
        else spec.batch_size
    )
    return replace(
        spec, num_gpus=num_gpus, hosts=hosts, planted=_planted(spec, hosts), batch_size=batch_size
    )


def with_hosts(spec: TrialSpec, hosts: int) -> TrialSpec:
    """Over so many, which must divide its GPUs; on one without links."""
    return replace(spec, hosts=hosts, planted=_planted(spec, hosts))


def _planted(spec: TrialSpec, hosts: int) -> str:
    return spec.planted if hosts > 1 else planted_on_one_host(spec.planted)


def with_batch(spec: TrialSpec, batch_size: int) -> TrialSpec:
    """Of so many images per GPU."""
    return replace(spec, batch_size=batch_size)


def with_strategy(
    spec: TrialSpec, variable_update: str, local_parameter_device: str, all_reduce: str
) -> TrialSpec:
    """What only a parameter server can do is left out elsewhere."""
    update = VARIABLE_UPDATES.get(variable_update)
    return replace(
        spec,
        variable_update=variable_update,
        local_parameter_device=local_parameter_device,
        all_reduce=all_reduce,
        staged_vars=spec.staged_vars and update is not None and update.stages,
    )
