"""The ranks of a distributed trial, and where they listen."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from scalemark.records.validation import (
    build,
    parsed,
)

RANK_LOST = 7
"""Exit status of what looks after the ranks of a trial: `failed`, for one of them crashed; another
try may do better.
"""

RANK_SOCKET_VARIABLE = "SCALEMARK_RANK_SOCKET"
"""Environment variable with the path of the socket where `rank_start=ray` asks for ranks on the
hosts of its agent.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One process of a distributed trial, in tf_cnn_benchmarks' words."""

    job_name: str  # worker or ps
    task_index: int

    @property
    def name(self) -> str:
        """For people and files: worker-0."""
        return f"{self.job_name}-{self.task_index}"


WORKER_0 = Rank(job_name="worker", task_index=0)
"""The one that trains and tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLimits:
    """Deadlines of the ranks of a distributed trial, as conf.schema.LauncherConfig has them:
    `rank_limits.json`.
    """

    start_timeout_s: float = 300.0  # until each can be reached
    timeout_s: float = 30.0  # from one sign of life to the next

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> RankLimits:
        """Raises ValueError."""
        return build(cls, parsed(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where the ranks of a distributed trial listen, as HOST:PORT: what TF_CONFIG calls `cluster`.
    Worker 0 trains and tells.
    """

    worker_hosts: tuple[str, ...]
    # one on each worker's host where the variable update has parameter servers; else none
    ps_hosts: tuple[str, ...] = ()

    @property
    def ranks(self) -> tuple[Rank, ...]:
        """Host by host: its worker, then its parameter server."""
        jobs = {"worker": self.worker_hosts, "ps": self.ps_hosts}
        return tuple(
            Rank(job_name=job, task_index=index)
            for index in range(len(self.worker_hosts))
            for job, hosts in jobs.items()
            if index < len(hosts)
        )

    def tf_config(self, rank: Rank) -> str:
        """The environment variable TF_CONFIG of that rank: JSON."""
        jobs = {"worker": list(self.worker_hosts)} | (
            {"ps": list(self.ps_hosts)} if self.ps_hosts else {}
        )
        return json.dumps(
            {"cluster": jobs, "task": {"type": rank.job_name, "index": rank.task_index}}
        )
