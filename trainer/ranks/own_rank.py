"""Which rank of a distributed trial this process is: by the flags of tf_cnn_benchmarks, or by
TF_CONFIG.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from scalemark.abilities import distributed, rank_jobs
from scalemark.records.cluster import WORKER_0, Cluster, Rank
from scalemark.records.trial import TrialSpec
from trainer.errors import UnsupportedTrialError

VARIABLE = "TF_CONFIG"
# host, or [IPv6], and port
_ADDRESS = re.compile(r"(?:[^\s:\[\]/,=]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_JOBS = ("worker", "ps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """As on the command line; empty = not given."""

    job_name: str = ""
    task_index: str = ""
    worker_hosts: str = ""
    ps_hosts: str = ""

    @classmethod
    def of(cls, cluster: Cluster, rank: Rank) -> Flags:
        """What tells a process that it is this rank."""
        return cls(
            job_name=rank.job_name,
            task_index=str(rank.task_index),
            worker_hosts=",".join(cluster.worker_hosts),
            ps_hosts=",".join(cluster.ps_hosts),
        )

    @staticmethod
    def add_to(parser: argparse.ArgumentParser) -> None:
        told = parser.add_argument_group(
            "ranks of a distributed variable_update",
            f"In the words of tf_cnn_benchmarks. The environment variable {VARIABLE} of TensorFlow can tell the same; where both "
            "are given, they must agree. Worker 0 trains, and writes the results; the other ranks wait for it, or train with it, "
            "and end with it. Without these the trainer starts all ranks itself, on this host.",
        )
        told.add_argument(
            "--job_name",
            type=_told,
            metavar="JOB",
            help="worker or ps (parameter server): what this process is",
        )
        told.add_argument(
            "--task_index", type=_told, metavar="N", help="its number in its list of hosts, from 0"
        )
        told.add_argument(
            "--worker_hosts",
            type=_told,
            metavar="HOST:PORT,...",
            help="all workers; as many as the trial's hosts",
        )
        told.add_argument(
            "--ps_hosts",
            type=_told,
            metavar="HOST:PORT,...",
            help=(
                "all parameter servers, as many as workers; only where the variable_update has them"
            ),
        )

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Flags:
        return cls(**{field.name: getattr(arguments, field.name) or "" for field in fields(cls)})

    def arguments(self) -> list[str]:
        """For a command line."""
        return [f"--{name}={value}" for name, value in asdict(self).items() if value]


NO_FLAGS = Flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRank:
    """What this process is, and among which others."""

    cluster: Cluster
    rank: Rank

    @property
    def leads(self) -> bool:
        """It writes steps and result."""
        return self.rank == WORKER_0

    @property
    def others(self) -> list[Rank]:
        return [rank for rank in self.cluster.ranks if rank != self.rank]


def read(spec: TrialSpec, flags: Flags, variables: Mapping[str, str]) -> OwnRank | None:
    """None when nothing is told. Raises UnsupportedTrialError for what makes no sense, or not with
    this trial.
    """
    of_flags, of_variable = _of_flags(flags), _of_variable(variables.get(VARIABLE, ""))
    if of_flags and of_variable and of_flags != of_variable:
        raise UnsupportedTrialError(
            f"the flags tell of {_described(of_flags)}, and {VARIABLE} of {_described(of_variable)}; "
            "wanted the same, or only one of them"
        )
    if own := of_flags or of_variable:
        _check(own, spec, "--worker_hosts and --ps_hosts" if of_flags else VARIABLE)
    return own


def _told(value: str) -> str:
    """A flag that is there and empty is one that a script had nothing for: without it this would be
    another process.
    """
    if not value:
        raise argparse.ArgumentTypeError("it is empty; wanted a value, or leave the flag out")
    return value


def _of_flags(flags: Flags) -> OwnRank | None:
    if flags == NO_FLAGS:
        return None
    if missing := [
        name for name in ("job_name", "task_index", "worker_hosts") if not getattr(flags, name)
    ]:
        raise UnsupportedTrialError(
            f"{' '.join(flags.arguments())} without {' and '.join(f'--{name}' for name in missing)}; "
            "a rank is told by --job_name, --task_index and --worker_hosts, and --ps_hosts where there are parameter servers"
        )
    cluster = Cluster(worker_hosts=_listed(flags.worker_hosts), ps_hosts=_listed(flags.ps_hosts))
    return OwnRank(
        cluster=cluster,
        rank=_rank(cluster, flags.job_name, flags.task_index, "--job_name", "--task_index"),
    )


def _of_variable(text: str) -> OwnRank | None:
    """Keys of TF_CONFIG that say nothing of ranks are left alone; an empty one says nothing, as
    TensorFlow reads it.
    """
    if not text:
        return None
    try:
        told = json.loads(text)
    except ValueError as error:
        raise UnsupportedTrialError(
            f"{VARIABLE} is no JSON: {error}; wanted {_EXAMPLE}, or unset it"
        ) from None
    if told == {}:
        return None
    jobs, task = _part(told, "cluster"), _part(told, "task")
    if unknown := set(jobs) - set(_JOBS):
        raise UnsupportedTrialError(
            f"{VARIABLE}: its cluster has {', '.join(sorted(unknown))}; wanted worker, and ps where there are parameter servers "
            "(worker 0 is the chief)"
        )
    cluster = Cluster(worker_hosts=_hosts(jobs, "worker"), ps_hosts=_hosts(jobs, "ps"))
    where = f"{VARIABLE}: task.type", f"{VARIABLE}: task.index"
    return OwnRank(
        cluster=cluster,
        rank=_rank(cluster, str(task.get("type", "")), str(task.get("index", "")), *where),
    )


_EXAMPLE = '{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "worker", "index": 0}}'


def _part(told: Any, name: str) -> dict[str, Any]:
    part = told.get(name) if isinstance(told, dict) else None
    if not isinstance(part, dict):
        raise UnsupportedTrialError(
            f"{VARIABLE}: {name} is {json.dumps(part)}; wanted {_EXAMPLE}, or unset it"
        )
    return part


def _hosts(jobs: Mapping[str, Any], job: str) -> tuple[str, ...]:
    hosts = jobs.get(job, [])
    if not isinstance(hosts, list) or not all(isinstance(host, str) for host in hosts):
        raise UnsupportedTrialError(
            f"{VARIABLE}: cluster.{job} is {json.dumps(hosts)}; wanted a list of HOST:PORT"
        )
    return tuple(hosts)


def _listed(hosts: str) -> tuple[str, ...]:
    return tuple(hosts.split(",")) if hosts else ()


def _rank(cluster: Cluster, job_name: str, task_index: str, told_job: str, told_index: str) -> Rank:
    if job_name not in _JOBS:
        raise UnsupportedTrialError(f"{told_job}={job_name}: wanted {' or '.join(_JOBS)}")
    num = len(cluster.worker_hosts if job_name == "worker" else cluster.ps_hosts)
    if not task_index.isascii() or not task_index.isdecimal() or int(task_index) >= num:
        wanted = (
            f"wanted 0 to {num - 1}, the numbers of {job_name}_hosts"
            if num
            else f"there are no {job_name}_hosts"
        )
        raise UnsupportedTrialError(f"{told_index}={task_index}: {wanted}")
    return Rank(job_name=job_name, task_index=int(task_index))


def _check(own: OwnRank, spec: TrialSpec, told_by: str) -> None:
    update, cluster = f"variable_update={spec.variable_update}", own.cluster
    jobs = rank_jobs(spec.variable_update)
    if not jobs:
        raise UnsupportedTrialError(
            f"{told_by}: {own.rank.name} is told to a trial of {update}, which is one process; leave that out "
            f"(unset {VARIABLE}), or choose variable_update={', '.join(distributed())}"
        )
    addresses = cluster.worker_hosts + cluster.ps_hosts
    for address in addresses:
        _check_address(address, told_by)
    if twice := [address for address, number in Counter(addresses).items() if number > 1]:
        raise UnsupportedTrialError(
            f"{told_by}: {twice[0]} is told twice; wanted a port of its own for every rank"
        )
    _check_number(
        "worker_hosts", cluster.worker_hosts, spec.hosts, f"the trial's hosts={spec.hosts}", told_by
    )
    if "ps" in jobs:
        _check_number(
            "ps_hosts",
            cluster.ps_hosts,
            spec.hosts,
            f"{update} has a parameter server on each host",
            told_by,
        )
    else:
        _check_number(
            "ps_hosts", cluster.ps_hosts, 0, f"{update} has no parameter servers", told_by
        )


def _check_address(address: str, told_by: str) -> None:
    found = _ADDRESS.fullmatch(address)
    if not found or not 1 <= int(found["port"]) <= 65535:
        raise UnsupportedTrialError(
            f"{told_by}: {address or 'an empty name'} is no HOST:PORT; wanted a port of 1 to 65535"
        )


def _check_number(name: str, found: Sequence[str], wanted: int, why: str, told_by: str) -> None:
    if len(found) != wanted:
        told = ",".join(found) or "none"
        raise UnsupportedTrialError(
            f"{told_by}: {name} has {len(found)} ({told}); wanted {wanted}, because {why}"
        )


def _described(own: OwnRank) -> str:
    hosts = {"worker_hosts": own.cluster.worker_hosts, "ps_hosts": own.cluster.ps_hosts}
    return " ".join(
        [own.rank.name, *(f"{name}={','.join(told)}" for name, told in hosts.items() if told)]
    )
