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
    if not _has_processes(spec):
        return spec
    if spec.hosts not in (1, spec.num_gpus):
        raise UnsupportedTrialError(
            f"hosts={spec.hosts}: variable_update={spec.variable_update} is of one host; leave it "
            "out, or choose variable_update=multi_worker_mirrored"
        )
    return replace(spec, hosts=spec.num_gpus)


def as_asked(spec: TrialSpec) -> TrialSpec:
    """Invert `with_processes`."""
    return replace(spec, hosts=1) if _has_processes(spec) else spec


def _has_processes(spec: TrialSpec) -> bool:
    update = VARIABLE_UPDATES.get(spec.variable_update)
    return spec.engine == Engine.tensorflow and update is not None and update.is_of_one_host
