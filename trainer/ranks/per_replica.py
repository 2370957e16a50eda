"""Gives every replica of a trial a process, where its variable update wants that on one host."""

from __future__ import annotations

from dataclasses import replace

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.records.axes import Engine
from scalemark.records.trial import TrialSpec
from trainer.errors import UnsupportedTrialError


def with_processes(spec: TrialSpec) -> TrialSpec:
    """Return the trial as its ranks take it: each process stands for a host of one replica.

    Raises UnsupportedTrialError for a trial over several real hosts.
    """
    update = VARIABLE_UPDATES.get(spec.variable_update)
    if spec.engine != Engine.tensorflow or update is None or not update.is_of_one_host:
        return spec
    if spec.hosts not in (1, spec.num_gpus):
        raise UnsupportedTrialError(
            f"hosts={spec.hosts}: variable_update={spec.variable_update} is of one host; leave it "
            "out, or choose variable_update=multi_worker_mirrored"
        )
    return replace(spec, hosts=spec.num_gpus)
