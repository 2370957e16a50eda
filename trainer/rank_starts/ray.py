"""Ranks as Ray tasks on the hosts of our agent, whose own task (sweeper/ray/) starts them.

```
  supervisor ── socket of the agent's Ray task ──►  host 0: worker-0, ps-0   log, share of GPUs
     ▲                                              host 1: worker-1, ps-1
     └── "rank worker-1 ended: -9"
```

All end when the connection does, so also when this process dies, however.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from scalemark.records.attempt import ORCHESTRATOR_VARIABLE, RANK_SOCKET_VARIABLE, Cluster, Rank
from scalemark.records.machine import DeviceKind
from trainer.errors import UnsupportedTrialError
from trainer.rank_starts import RanksJob
from trainer.ranks.own_rank import AssignedRanks, reserved_ports
from trainer.ranks.srun_task import visible_devices

ANSWER_TIMEOUT_S = 60.0
END_TIMEOUT_S = 60.0
_OF_THIS_HOST = (
    "CUDA_VISIBLE_DEVICES",
    ORCHESTRATOR_VARIABLE,
    "HOSTNAME",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
)


@contextmanager
def start_ranks(job: RanksJob) -> Iterator[AssignedRanks]:
    with closing(_connected()) as connection:
        hosts = _hosts(connection, job)
        # of this host; on others they are as likely to be free
        with reserved_ports(len(job.jobs) * len(hosts)) as reserved:
            cluster = job.cluster([host["address"] for host in hosts], reserved)
            ranks = [_asked(job, cluster, rank, hosts) for rank in cluster.ranks]
            order = json.dumps({"environment": _environment(), "ranks": ranks})
            try:
                connection.sendall(order.encode() + b"\n")
                yield AssignedRanks(cluster, connection.fileno())
            finally:
                _end(connection)


def _connected() -> socket.socket:
    """Connect to our agent's Ray task. Raises UnsupportedTrialError without one, or OSError."""
    path = os.environ.get(RANK_SOCKET_VARIABLE)
    if not path:
        raise UnsupportedTrialError(
            f"rank_start=ray: {RANK_SOCKET_VARIABLE} is not set; only agents that "
            "launcher=ray started over several hosts have it"
        )
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(ANSWER_TIMEOUT_S)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def _hosts(connection: socket.socket, job: RanksJob) -> Sequence[Mapping[str, Any]]:
    """Raises OSError, UnsupportedTrialError."""
    answer = b""
    while not answer.endswith(b"\n"):
        part = connection.recv(4096)
        if not part:
            raise ConnectionResetError("the Ray task of our agent hung up")
        answer += part
    hosts: Sequence[Mapping[str, Any]] = json.loads(answer)["hosts"]
    if len(hosts) != job.spec.hosts:
        raise UnsupportedTrialError(
            f"rank_start=ray: hosts={job.spec.hosts} wanted, and our agent has {len(hosts)}"
        )
    return hosts


def _asked(
    job: RanksJob, cluster: Cluster, rank: Rank, hosts: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    has_gpus = job.spec.device_kind == DeviceKind.GPU and rank.job_name == "worker"
    given = job.given.devices if job.given else ()
    return {
        "name": rank.name,
        "host": rank.task_index,
        "log": str(job.folder.rank_log(rank)),
        "argv": job.command(cluster, rank),
        "gpus": _gpus(list(given) if has_gpus else None, hosts[rank.task_index]["gpus"]),
    }


def _gpus(wanted: list[int] | None, of_host: str | None) -> str:
    """Raises UnsupportedTrialError."""
    try:
        return visible_devices(wanted, of_host)
    except ValueError as error:
        raise UnsupportedTrialError(
            f"rank_start=ray: {error}; launcher.agents.gpus_per_host asks for more"
        ) from error


def _environment() -> dict[str, str]:
    """Return what ranks inherit from us, on whatever host."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _OF_THIS_HOST and not name.startswith("RAY_")
    }


def _end(connection: socket.socket) -> None:
    """Have the Ray task kill what still runs; where it has died, Ray does so."""
    connection.settimeout(END_TIMEOUT_S)
    with suppress(ConnectionError):
        connection.shutdown(socket.SHUT_WR)
        try:
            while connection.recv(4096):
                pass
        except TimeoutError:
            complaint = f"ranks were not ended within {END_TIMEOUT_S:g} s; Ray is left to do it"
            print(complaint, file=sys.stderr, flush=True)
