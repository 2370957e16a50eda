"""Refuses what a Slurm cluster could never give, in words of our settings: a job that asks for it
may wait for good.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from conf.schema import Config
from sweeper.errors import SweepRefusedError
from sweeper.slurm import nodes, options
from sweeper.slurm.commands import SlurmError, SlurmSilentError
from sweeper.slurm.nodes import Node, Partition, num_gpus

PROGRAMS = ("sbatch", "squeue", "scancel", "scontrol")


WARNING_S = 60  # before its time limit an agent is told to end, or up to a minute earlier
LEAST_TIME_MIN = 3  # with less agents may be told to end when they begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """That agents can have."""

    gpus_per_host: int  # the most that each of as many as are wanted has
    partition: str  # that they are in, or several with commas between
    most_of_a_job: float


def hosts(config: Config) -> Hosts:
    """Of those that jobs could go to. Raises SweepRefusedError where launcher's settings ask for
    what there is none of.
    """
    options.check(config.launcher.slurm.options)
    _check_programs()
    try:
        chosen = _partition(config, nodes.partitions())
        names = set(chosen.name.split(","))
        found = [node for node in nodes.nodes() if not names.isdisjoint(node.partitions)]
    except SlurmError as error:
        raise refusal(error) from error
    _check_limits(config, chosen)
    up = [node for node in found if node.is_up]
    _check_hosts(config, chosen, up, len(found))
    wanted = config.launcher.slurm.gres
    most = sorted((node.num_gpus for node in up), reverse=True)[
        config.launcher.agents.num_hosts - 1
    ]
    return Hosts(
        gpus_per_host=most if wanted is None else num_gpus(wanted),
        partition=chosen.name,
        most_of_a_job=max(1, chosen.max_nodes),
    )


def refusal(error: SlurmError) -> SweepRefusedError:
    """Of a sweep, because Slurm does not do what it was asked for."""
    if isinstance(error, SlurmSilentError):
        return SweepRefusedError(
            f"launcher=slurm: Slurm's controller does not answer ({error}); see `scontrol ping`, and whether SLURM_CONF names "
            "this cluster's configuration"
        )
    return SweepRefusedError(f"launcher=slurm: Slurm refuses: {error}")


def _check_programs() -> None:
    missing = [name for name in PROGRAMS if not shutil.which(name)]
    if missing:
        raise SweepRefusedError(
            f"launcher=slurm: no {missing[0]} on the path; start this on a host that Slurm jobs are submitted from (it may want "
            "`module load slurm`), or choose launcher=agents and start agents by hand"
        )


def _partition(config: Config, found: Sequence[Partition]) -> Partition:
    name = config.launcher.slurm.partition
    listed = ", ".join(partition.name for partition in found)
    if name is None:
        if not (default := next((partition for partition in found if partition.is_default), None)):
            raise SweepRefusedError(
                "launcher=slurm: the cluster has no default partition; say "
                f"launcher.slurm.partition={listed}"
            )
        return default
    by_name = {partition.name: partition for partition in found}
    names = name.split(",")
    if missing := [each for each in names if each not in by_name]:
        which = f" as {missing[0]}" if len(names) > 1 else ""
        raise SweepRefusedError(
            f"launcher.slurm.partition={name}: no such partition{which}; there are {listed}"
        )
    return _any_of([by_name[each] for each in names])


def _any_of(chosen: Sequence[Partition]) -> Partition:
    """Slurm starts a job in that which has room first, of those that allow it."""
    up = [partition for partition in chosen if partition.is_up]
    return Partition(
        name=",".join(partition.name for partition in chosen),
        is_default=False,
        max_time_min=max(partition.max_time_min for partition in up or chosen),
        max_nodes=max(partition.max_nodes for partition in up or chosen),
        is_up=bool(up),
    )


def _check_limits(config: Config, partition: Partition) -> None:
    time_min = config.launcher.slurm.time_min
    if not partition.is_up:
        raise SweepRefusedError(
            f"launcher=slurm: the partition {partition.name} is not up; choose another by "
            "launcher.slurm.partition"
        )
    if time_min is not None and time_min < LEAST_TIME_MIN:
        raise SweepRefusedError(
            f"launcher.slurm.time_min={time_min}: wanted minutes, {LEAST_TIME_MIN} or more, or null: agents are told to end one "
            "to two minutes before their time is over"
        )
    if time_min is not None and time_min > partition.max_time_min:
        raise SweepRefusedError(
            f"launcher.slurm.time_min={time_min}: jobs of the partition {partition.name} may take {partition.max_time_min:g} "
            "minutes at most; agents whose time is over are replaced, so less will do"
        )


def _check_hosts(config: Config, partition: Partition, hosts: Sequence[Node], num_all: int) -> None:
    """`hosts` are up, of so many."""
    num_hosts = config.launcher.agents.num_hosts
    if num_hosts > len(hosts):
        down = (
            f" of {num_all} that are up (`sinfo -R` says why not the others)"
            if len(hosts) < num_all
            else ""
        )
        wanted = (
            f"wanted {len(hosts)} or fewer"
            if hosts
            else "choose another by launcher.slurm.partition"
        )
        raise SweepRefusedError(
            f"launcher.agents.num_hosts={num_hosts}: the partition {partition.name} has "
            f"{len(hosts)} nodes{down}; {wanted}"
        )
    asked = config.launcher.slurm.gres
    num = num_gpus(asked) if asked is not None else _gpus_by_agents(config)
    setting = (
        f"launcher.slurm.gres={asked}"
        if asked is not None
        else f"launcher.agents.gpus_per_host={num}"
    )
    num_fit = sum(node.num_gpus >= num for node in hosts)
    if num_fit < max(1, num_hosts):
        counts = Counter(node.num_gpus for node in hosts)
        have = ", ".join(
            f"{count} of {gpus}" for gpus, count in sorted(counts.items(), reverse=True)
        )
        raise SweepRefusedError(
            f"{setting}: wanted on {num_hosts} nodes, and of the partition {partition.name} {num_fit} have so many GPUs "
            f"(nodes by their GPUs: {have}); ask for fewer GPUs or hosts, or name another partition"
        )


def _gpus_by_agents(config: Config) -> int:
    is_cpu = config.hardware.device_kind == "cpu_stand_in"
    return 0 if is_cpu else config.launcher.agents.gpus_per_host or 0
