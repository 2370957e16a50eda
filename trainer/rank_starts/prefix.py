"""Ranks that commands start on their hosts: `sweeper.near` for each.

```
  supervisor ── near worker-0 ── ssh a ──►  far: worker-0, in the run folder or a private one
     │          near worker-1 ── ssh b ──►  far: worker-1
     └── "rank worker-1 ended: -9" by near's exit
```
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from scalemark.host.own_code import module_command
from scalemark.records.attempt import (
    ADDRESSES_VARIABLE,
    ORCHESTRATOR_VARIABLE,
    RANKS_VARIABLE,
    Cluster,
    Rank,
)
from scalemark.records.machine import DeviceKind
from trainer import own_process
from trainer.errors import UnsupportedTrialError
from trainer.rank_starts import RanksJob
from trainer.ranks.own_rank import Flags, reserved_ports

END_WITHIN_S = 20.0  # of a rank elsewhere


@contextmanager
def start_ranks(job: RanksJob) -> Iterator[PrefixRanks]:
    wheres = json.loads(os.environ.get(RANKS_VARIABLE, "[]"))
    if len(wheres) != job.spec.hosts:
        raise UnsupportedTrialError(
            f"rank_start=prefix: {RANKS_VARIABLE} names {len(wheres)} hosts, wanted "
            f"{job.spec.hosts}; launcher=prefix, ssh and ray set it"
        )
    addresses = [where["address"] for where in wheres]
    if chosen := os.environ.get(ADDRESSES_VARIABLE):
        addresses = chosen.split(",")
    with reserved_ports(len(job.jobs) * len(wheres)) as reserved:
        ranks = PrefixRanks(job.cluster(addresses, reserved))
        try:
            for rank in ranks.cluster.ranks:
                ranks.start(job, rank, wheres[rank.task_index])
            yield ranks
        finally:
            ranks.end()


class PrefixRanks:
    """A child of this process for each rank."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._running: dict[Rank, tuple[subprocess.Popen[bytes], int]] = {}
        self._ended: dict[Rank, int | None] = {}

    @property
    def descriptors(self) -> Sequence[int]:
        return [descriptor for _, descriptor in self._running.values()]

    def start(self, job: RanksJob, rank: Rank, where: Mapping[str, object]) -> None:
        """Raises OSError."""
        uses_gpus = job.spec.device_kind == DeviceKind.GPU and rank.job_name == "worker"
        of_rank = {
            **where,
            "rank": rank.name,
            "module": job.module.removesuffix(".__main__"),
            "flags": Flags.of(self.cluster, rank).arguments(),
            "gpus": where["gpus"] if uses_gpus else [],
            # one rank of a host takes its lock for all
            "lock": where["lock"] if rank.job_name == "worker" else "",
            "log": job.folder.rank_log(rank).name,
        }
        supervisor = os.getpid()
        with job.folder.rank_log(rank).open("ab") as log:
            process = subprocess.Popen(
                module_command("sweeper.near", json.dumps(of_rank)),
                env={**os.environ, ORCHESTRATOR_VARIABLE: str(supervisor)},
                cwd=job.folder.path,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: own_process.die_with(supervisor),
            )
        self._running[rank] = process, os.pidfd_open(process.pid)

    def look(self) -> Mapping[Rank, int | None]:
        for rank, (process, descriptor) in list(self._running.items()):
            if process.poll() is not None:
                os.close(descriptor)
                del self._running[rank]
                self._ended[rank] = process.returncode
        return self._ended

    def end(self) -> None:
        """Kill all: what they run elsewhere sees the end of its input."""
        for process, descriptor in self._running.values():
            process.send_signal(signal.SIGKILL)
            process.wait()
            os.close(descriptor)
        self._running.clear()
