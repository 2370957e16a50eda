"""Ranks as processes of this host: forks where TensorFlow is imported, else new Pythons.

```
  supervisor ── fork ──►  worker-0  session, log, port of 127.0.0.1 and share of the GPUs of its own
     │  (or fork, exec)   ps-0      no GPU
     │                    worker-1  the next share
     └─ dies, however ─►  Linux kills them
```
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn, Protocol

from scalemark.records.attempt import ORCHESTRATOR_VARIABLE, Cluster, Rank
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from trainer import own_process
from trainer.rank_starts import RanksJob
from trainer.ranks import own_rank
from trainer.ranks.host_networks import host_networks
from trainer.ranks.own_rank import reserved_ports


class RankNetwork(Protocol):
    """Joins the hosts that ranks stand for."""

    @property
    def addresses(self) -> Sequence[str]:
        """The address of each host."""

    def enter(self, host: int) -> None:
        """Put this process, a rank before anything else, on that host."""


class Loopback:
    """Takes this machine for every host."""

    def __init__(self, num_hosts: int) -> None:
        self.addresses = ("127.0.0.1",) * num_hosts

    def enter(self, host: int) -> None:
        pass


@contextmanager
def start_ranks(job: RanksJob) -> Iterator[LocalRanks]:
    with reserved_ports(len(job.jobs) * job.spec.hosts) as reserved, _network(job.spec) as network:
        ranks = LocalRanks(job, job.cluster(network.addresses, reserved), network)
        try:
            for rank in ranks.cluster.ranks:
                ranks.start(rank)
            yield ranks
        finally:
            ranks.end()


class LocalRanks:
    """Children of this process, each the leader of a session and process group."""

    def __init__(self, job: RanksJob, cluster: Cluster, network: RankNetwork) -> None:
        self.cluster = cluster
        self._job, self._network, self._forks = job, network, _can_fork(job)
        self._running: dict[Rank, tuple[int, int]] = {}  # process id, and pidfd
        self._ended: dict[Rank, int] = {}

    @property
    def descriptors(self) -> Sequence[int]:
        return [descriptor for _, descriptor in self._running.values()]

    def start(self, rank: Rank) -> None:
        """Start a rank. Raises OSError."""
        supervisor = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._be_rank(rank, supervisor)
        try:
            self._running[rank] = pid, os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    def look(self) -> Mapping[Rank, int]:
        for rank, (pid, descriptor) in list(self._running.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self._reap(rank, pid, descriptor)
        return self._ended

    def end(self) -> None:
        """Kill all: TensorFlow ignores other signals while it waits for a peer."""
        for pid, _ in self._running.values():
            _kill_group(pid)
        for rank, (pid, descriptor) in list(self._running.items()):
            self._reap(rank, pid, descriptor)

    def _reap(self, rank: Rank, pid: int, descriptor: int) -> None:
        """Wait for its end; kill the rest of its group first, while its number is still taken."""
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        _kill_group(pid)
        _, status = os.waitpid(pid, 0)
        os.close(descriptor)
        del self._running[rank]
        self._ended[rank] = os.waitstatus_to_exitcode(status)

    def _be_rank(self, rank: Rank, supervisor: int) -> NoReturn:
        """Become a rank; never return or raise into the supervisor."""
        try:
            own_process.die_with(supervisor)
            os.setsid()
            own_process.heed_signals()
            _read_nothing()
            own_process.write_into(self._job.folder.rank_log(rank))
            self._network.enter(rank.task_index)
            os.environ["CUDA_VISIBLE_DEVICES"] = _visible_devices(self._job.spec, rank)
            os.environ[ORCHESTRATOR_VARIABLE] = str(supervisor)
            if self._forks:
                self._run_forked(rank)
            command = self._job.command(self.cluster, rank)
            os.execv(command[0], command)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _run_forked(self, rank: Rank) -> NoReturn:
        Path("/proc/self/comm").write_text(rank.name)  # what ps and top call it
        _, _, _, *sys.argv = self._job.command(self.cluster, rank)
        run_rank = import_module(self._job.module).run_rank

        def main(spec: TrialSpec, folder: RunFolder) -> int:
            return int(run_rank(spec, folder, self.cluster, rank))

        own_process.run_and_exit(main, self._job.folder.trial, self._job.folder)


@contextmanager
def _network(spec: TrialSpec) -> Iterator[RankNetwork]:
    if "link_mbit" not in spec.injected_values:
        yield Loopback(spec.hosts)
        return
    with host_networks(spec.hosts, spec.injected_values["link_mbit"]) as networks:
        yield networks


def _can_fork(job: RanksJob) -> bool:
    """Say whether a fork is safe, and saves the import that a new Python would need."""
    is_safe = own_process.num_threads() == 1 and not own_process.libcuda_is_loaded()
    return is_safe and job.slow_import in sys.modules


def _visible_devices(spec: TrialSpec, rank: Rank) -> str:
    """Return a worker's share of the GPUs; parameter servers have none."""
    if spec.device_kind != DeviceKind.GPU or rank.job_name != "worker":
        return ""
    return own_rank.visible_devices(rank.task_index, spec.gpus_per_host, spec.hosts)


def _read_nothing() -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.dup2(descriptor, 0)
    os.close(descriptor)


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):  # it does not lead its group yet
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it has ended
        os.kill(pid, signal.SIGKILL)
