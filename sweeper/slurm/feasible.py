"""Refuses what a Slurm cluster could never give, in words of our settings: a job that asks for it
may wait for good.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from conf.schema import Config
from sweeper.errors import SweepRefusedError
from sweeper.launchers import gpus_of_hosts
from sweeper.slurm import nodes, options
from sweeper.slurm.commands import SlurmError, SlurmSilentError
from sweeper.slurm.nodes import Partition, num_gpus

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")

WARNING_S = 60  # before its time limit an agent is asked to end, or up to a minute earlier
LEAST_TIME_MIN = 3  # with less agents may be asked to end when they begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The hosts that agents can have."""

    gpus_per_host: int  # the most that each of as many as are wanted has
    partition: str  # that they are in, or several with commas between
    most_of_a_job: float


def hosts(config: Config) -> Hosts:
    """Return those that jobs could go to. Raises SweepRefusedError where launcher's settings ask
    for what there is none of.
    """
    options.check(config.launcher.slurm.options)
    for program in PROGRAMS:
        if not shutil.which(program):
            raise SweepRefusedError(
                f"launcher=slurm: no {program} on the path; start this on a host that Slurm jobs "
                "are submitted from (it may want `module load slurm`), or choose launcher=agents"
            )
    try:
        chosen = _partition(config, nodes.partitions())
        names = set(chosen.name.split(","))
        found = [node for node in nodes.nodes() if not names.isdisjoint(node.partitions)]
    except SlurmError as error:
        raise refusal(error) from error
    _check_time(config, chosen)
    counts = [node.num_gpus for node in found if node.is_up]
    gres = config.launcher.slurm.gres
    wanted = None if gres is None else num_gpus(gres)
    most = gpus_of_hosts(config, counts, f"the partition {chosen.name}", wanted)
    return Hosts(
        gpus_per_host=most if wanted is None else wanted,
        partition=chosen.name,
        most_of_a_job=max(1, chosen.max_nodes),
    )


def refusal(error: SlurmError) -> SweepRefusedError:
    """Refuse a sweep because Slurm does not do what it was asked for."""
    if isinstance(error, SlurmSilentError):
        return SweepRefusedError(
            f"launcher=slurm: Slurm's controller does not answer ({error}); see `scontrol ping`, "
            "and whether SLURM_CONF names this cluster's configuration"
        )
    return SweepRefusedError(f"launcher=slurm: Slurm refuses: {error}")


def _partition(config: Config, found: Sequence[Partition]) -> Partition:
    """Return the chosen one, or several as one: Slurm starts a job where there is room first."""
    asked = config.launcher.slurm.partition
    names = asked.split(",") if asked else [one.name for one in found if one.is_default]
    by_name = {partition.name: partition for partition in found}
    if not names or not by_name.keys() >= set(names):
        raise SweepRefusedError(
            f"launcher.slurm.partition={asked or 'null'}: no such partition; there are "
            f"{', '.join(by_name)}"
        )
    chosen = [by_name[name] for name in names]
    up = [partition for partition in chosen if partition.is_up]
    if not up:
        raise SweepRefusedError(
            f"launcher=slurm: the partition {','.join(names)} is not up; choose another by "
            "launcher.slurm.partition"
        )
    return Partition(
        name=",".join(names),
        is_default=False,
        max_time_min=max(partition.max_time_min for partition in up),
        max_nodes=max(partition.max_nodes for partition in up),
        is_up=True,
    )


def _check_time(config: Config, partition: Partition) -> None:
    time_min = config.launcher.slurm.time_min
    if time_min is not None and not LEAST_TIME_MIN <= time_min <= partition.max_time_min:
        raise SweepRefusedError(
            f"launcher.slurm.time_min={time_min}: wanted {LEAST_TIME_MIN} minutes, to "
            f"{partition.max_time_min:g} in the partition {partition.name}; agents whose time is "
            "over are replaced, so less than the whole sweep takes will do"
        )
