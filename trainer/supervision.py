"""Starts the ranks of a distributed trial and supervises them; a trainer without a rank does this.

```
  supervisor ── fork ──►  worker-0, ps-0, ...   each a session, log, port and share of the GPUs
     │           or ──►   a command ─── srun, ssh, Ray ──► the rank, on its host
     │◄── ends, and beat-RANK.txt ──────────┘
     ├── one ended, or missed a deadline: ends all, and says in result.json which one
     └─ dies, however ─►  Linux kills them
```
Worker 0 trains and writes, as any trainer does; others hold devices and variables. Here they are
forks where TensorFlow is imported, else new Pythons. The supervisor touches no device.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from scalemark.abilities import jobs_of
from scalemark.host.own_code import module_command
from scalemark.host.processes import (
    ORCHESTRATOR_VARIABLE,
    die_with,
    num_kernel_kills,
    wait_readable,
)
from scalemark.records.attempt import (
    ADDRESSES_VARIABLE,
    RANKS_VARIABLE,
    WORKER_0,
    Cluster,
    Placement,
    Rank,
    RankLimits,
)
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder, with_gpu_errors
from trainer import UnsupportedTrialError, own_process, own_rank, rank_ends
from trainer.own_rank import OwnRank, reserved_ports
from trainer.rank_ends import LOOK_EVERY_S, Pulses, RankEnds


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksJob:
    """The work that ranks are started for."""

    spec: TrialSpec
    folder: RunFolder  # its path is absolute
    jobs: tuple[str, ...]  # of each host: worker, or worker and ps
    given: Placement | None = None  # none by hand
    # `python -m MODULE` is a rank; so is a fork in MODULE.run_rank(spec, folder, cluster, rank)
    module: str = "trainer.__main__"
    # what `module` imports for seconds: where that is done already, forking is worth it; empty =
    # never fork
    slow_import: str = "tensorflow"
    variables: Mapping[str, str] = field(default_factory=dict)  # of its ranks, beside our own
    cuts_one_gpu: bool = False  # all workers see one GPU, which each cuts in pieces
    # how long the others may go on once worker 0 has completed, to complete as well, or else the
    # trial has not; None where they only serve worker 0
    grace_s: float | None = None

    def cluster(self, addresses: Sequence[str], ports: Sequence[int]) -> Cluster:
        """Give each job on each host a port of its own: hosts may share an address."""
        free = iter(ports)
        listening: dict[str, list[str]] = {"worker": [], "ps": []}
        for address in addresses:
            for name in self.jobs:
                listening[name].append(f"{address}:{next(free)}")
        return Cluster(worker_hosts=tuple(listening["worker"]), ps_hosts=tuple(listening["ps"]))

    def uses_gpus(self, rank: Rank) -> bool:
        return self.spec.device_kind == DeviceKind.GPU and rank.job_name == "worker"

    def visible_devices(self, rank: Rank) -> str:
        """Return a worker's share of the GPUs of this host; parameter servers have none."""
        if not self.uses_gpus(rank):
            return ""
        if self.cuts_one_gpu:
            return own_rank.visible_devices(0, 1, 1)
        per_host, num_hosts = self.spec.gpus_per_host, self.spec.hosts
        return own_rank.visible_devices(rank.task_index, per_host, num_hosts)


@contextmanager
def start_ranks(job: RanksJob) -> "Iterator[StartedRanks]":
    """Start them all; at the end of the block, kill what still runs. Raises UnsupportedTrialError
    for what this machine cannot do, NotStartedError for what cannot be started; nothing runs then.
    """
    with ExitStack() as held:
        try:
            limits = job.folder.read_rank_limits()
            hosts = _hosts_elsewhere(job)
            addresses = [host["address"] for host in hosts] or ["127.0.0.1"] * job.spec.hosts
            # ports of this host; on others they are as likely to be free
            ports = held.enter_context(reserved_ports(len(job.jobs) * job.spec.hosts))
            ranks = StartedRanks(job, job.cluster(addresses, ports), hosts, limits)
            held.callback(ranks.end)
            # locks of hosts are taken in one order everywhere, or two trials would wait for each
            # other
            for rank in sorted(ranks.cluster.ranks, key=ranks.host_of):
                ranks.start(rank)
                ranks.wait_for_host(rank)
            if hosts:
                job.folder.go.touch()
        except (OSError, ValueError) as error:  # a file of the folder may make no sense
            raise NotStartedError(error) from error
        yield ranks


class StartedRanks:
    """Children of this process, each the leader of a session and process group."""

    def __init__(
        self,
        job: RanksJob,
        cluster: Cluster,
        hosts: Sequence[dict[str, Any]],
        limits: RankLimits,
    ) -> None:
        self.cluster, self.limits = cluster, limits
        self._job, self._hosts = job, hosts
        # a fork is safe, and saves the import that a new Python would need
        is_safe = own_process.num_threads() == 1 and not own_process.libcuda_is_loaded()
        self._forks = is_safe and job.slow_import in sys.modules
        self._running: dict[Rank, tuple[int, int]] = {}  # process id, and pidfd
        self._ended: dict[Rank, int] = {}

    def host_of(self, rank: Rank) -> str:
        """Return the name of its host; empty where that is this one."""
        return self._hosts[rank.task_index]["host"] if self._hosts else ""

    def wait_for_host(self, rank: Rank) -> None:
        """Wait until a rank that takes the lock of its host has it, or has ended."""
        token = self._job.folder.rank_token(rank)
        while self._takes_lock(rank) and rank in self._running and token.exists():
            self.look(LOOK_EVERY_S)

    def _takes_lock(self, rank: Rank) -> bool:
        """Say whether it does: a worker, which has it for the parameter server beside it."""
        is_locked = bool(self._hosts and self._hosts[rank.task_index]["locks"])
        return is_locked and rank.job_name == "worker"

    def start(self, rank: Rank) -> None:
        """Start a rank. Raises OSError."""
        if self._takes_lock(rank):
            self._job.folder.rank_token(rank).touch()  # it goes once the host is had
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

    def look(self, timeout_s: float) -> Mapping[Rank, int]:
        """Return the exit codes of ended ranks, -N by signal N; wait until another ends."""
        wait_readable([descriptor for _, descriptor in self._running.values()], timeout_s)
        for rank, (pid, descriptor) in list(self._running.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self._reap(rank, pid, descriptor)
        return self._ended

    def end(self) -> None:
        """Kill all: TensorFlow ignores other signals while it waits for a peer. What runs elsewhere
        sees the end of its input.
        """
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
            die_with(supervisor)
            os.setsid()
            own_process.heed_signals()
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.close(nothing)
            own_process.write_into(self._job.folder.rank_log(rank))
            os.environ.update(self._job.variables)
            os.environ[ORCHESTRATOR_VARIABLE] = str(supervisor)
            if self._hosts:
                self._run_elsewhere(rank)
            os.environ["CUDA_VISIBLE_DEVICES"] = self._job.visible_devices(rank)
            named = OwnRank(cluster=self.cluster, rank=rank).arguments()
            own = (str(self._job.folder.trial), str(self._job.folder.path), *named)
            if self._forks:
                self._run_forked(rank, own)
            command = module_command(self._job.module, *own)
            os.execv(command[0], command)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)

    def _run_forked(self, rank: Rank, arguments: Sequence[str]) -> NoReturn:
        Path("/proc/self/comm").write_text(rank.name)  # what ps and top call it
        sys.argv = [self._job.module, *arguments]
        run_rank = import_module(self._job.module).run_rank

        def main(spec: TrialSpec, folder: RunFolder) -> int:
            return int(run_rank(spec, folder, self.cluster, rank))

        own_process.run_and_exit(main, self._job.folder.trial, self._job.folder)

    def _run_elsewhere(self, rank: Rank) -> NoReturn:
        where = self._hosts[rank.task_index] | {
            "rank": rank.name,
            "module": self._job.module,
            "flags": OwnRank(cluster=self.cluster, rank=rank).arguments(),
            "log": self._job.folder.rank_log(rank).name,
        }
        if not self._job.uses_gpus(rank):
            where["gpus"] = []
        if not self._takes_lock(rank):
            where["locks"] = False
        os.chdir(self._job.folder.path)
        own = (str(self._job.folder.trial), str(self._job.folder.path))
        command = module_command("sweeper.elsewhere", json.dumps(where), *own)
        os.execv(command[0], command)


def _run_elsewhere(job: RanksJob) -> bool:
    return job.given is not None and bool(job.given.rank_start)


def _hosts_elsewhere(job: RanksJob) -> list[dict[str, Any]]:
    """Return a `sweeper.launchers.prefix.Elsewhere` for each host, and record their names; none
    where this machine stands for all.
    """
    if not _run_elsewhere(job):
        return []
    assert job.given
    hosts: list[dict[str, Any]] = json.loads(os.environ.get(RANKS_VARIABLE, "[]"))
    names, addresses = list(job.given.hosts), [host["address"] for host in hosts]
    if chosen := os.environ.get(ADDRESSES_VARIABLE):
        names = addresses = chosen.split(",")
    elif hosts and not addresses[0]:
        nodes = ",".join(names) or os.environ.get("SLURM_JOB_NODELIST", "")
        command = ["sinfo", "--noheader", "--Node", f"--nodes={nodes}", "--format=%N %o"]
        asked = subprocess.run(command, capture_output=True, text=True, check=False)
        if asked.returncode:
            raise OSError(f"sinfo: {asked.stderr.strip()}")
        address_of = dict(line.split() for line in asked.stdout.splitlines())
        names = names or list(address_of)
        addresses = [address_of.get(name, "") for name in names]
    if not len(hosts) == len(addresses) == job.spec.hosts or "" in addresses:
        raise UnsupportedTrialError(
            f"hosts={job.spec.hosts}: {RANKS_VARIABLE} names {len(hosts)}, with addresses of "
            f"{', '.join(filter(None, addresses)) or 'none'}; a sweep over several hosts sets it"
        )
    job.folder.write(job.folder.placement, replace(job.given, hosts=tuple(names)).to_json())
    for host, name, address in zip(hosts, names, addresses, strict=True):
        host["prefix"] = [word.replace("{host}", name) for word in host["prefix"]]
        host |= {"address": address, "host": name}
    return hosts


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError):  # it does not lead its group yet
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):  # it has ended
        os.kill(pid, signal.SIGKILL)


# After worker 0 failed: a rank that took it along ended before, but may be seen later.
SETTLE_S = 2.0


def job(spec: TrialSpec, folder: RunFolder) -> RanksJob:
    """Describe what to start for a distributed trial: ranks of this program."""
    absolute = RunFolder(folder.path.absolute())
    return RanksJob(
        spec=spec,
        folder=absolute,
        jobs=jobs_of(spec),
        given=folder.read_placement(),
    )


def look_after(job: RanksJob) -> int:
    """Start the ranks, watch them to their end, and write result.json; return the exit code."""
    _clear(job.folder)
    if job.given is None:  # ranks read the run folder's trial, not any named by hand
        asked = own_rank.as_asked(job.spec)
        job.folder.write(job.folder.trial, asked.to_json())
    try:
        result, exit_code = rank_ends.judge(job.folder, _watch(job))
    except UnsupportedTrialError as error:
        result, exit_code = rank_ends.trial_end(Outcome.UNSUPPORTED, str(error))
    except NotStartedError as error:
        problem = f"its ranks could not be started: {error}"
        result, exit_code = rank_ends.trial_end(Outcome.FAILED, problem)
    except OSError as error:
        problem = f"its ranks could not be watched, and were ended: {error}"
        result, exit_code = rank_ends.trial_end(Outcome.FAILED, problem)
    job.folder.write(job.folder.result, with_gpu_errors(result, job.folder).to_json())
    if result.message:
        print(f"{result.outcome}: {result.message}", file=sys.stderr)
    return exit_code


class NotStartedError(Exception):
    """Nothing runs."""


def _watch(job: RanksJob) -> RankEnds:
    """Watch until worker 0 has ended and `grace_s` is over, another rank has failed, or an
    interrupt; then end all.
    """
    exit_codes: dict[Rank, int | None] = {}
    ranks: tuple[Rank, ...] = ()
    missed, interrupted, num_kills = None, False, num_kernel_kills()
    try:
        with ExitStack() as running:
            started = running.enter_context(start_ranks(job))
            ranks = started.cluster.ranks
            hosts = {"worker": started.cluster.worker_hosts, "ps": started.cluster.ps_hosts}
            for rank in ranks:
                address = hosts[rank.job_name][rank.task_index]
                print(f"rank {rank.name}: {address}, {job.folder.rank_log(rank).name}", flush=True)
            pulses = Pulses(job.folder, started.cluster, started.limits)
            while not missed and not rank_ends.is_over(exit_codes):
                exit_codes |= started.look(LOOK_EVERY_S)
                missed = pulses.missed(exit_codes)
            if rank_ends.is_over(exit_codes):
                if exit_codes.get(WORKER_0) == 0 and job.grace_s is not None:
                    finish(started, exit_codes, job.grace_s)
                is_settled = partial(rank_ends.is_settled, job.folder, exit_codes)
                _wait_until(is_settled, started, exit_codes, SETTLE_S)
    except KeyboardInterrupt:
        interrupted = True
    return RankEnds(
        exit_codes=exit_codes,
        must_complete=() if job.grace_s is None else ranks,
        missed=missed,
        interrupted=interrupted,
        # ranks on other hosts know that of theirs
        kernel_killed=not _run_elsewhere(job) and num_kernel_kills() > num_kills,
        shares_host=job.given is not None and job.given.shares_host,
    )


def _wait_until(
    is_done: Callable[[], bool],
    started: StartedRanks,
    exit_codes: dict[Rank, int | None],
    timeout_s: float,
) -> None:
    until_s = time.monotonic() + timeout_s
    while not is_done() and (left_s := until_s - time.monotonic()) > 0:
        exit_codes |= started.look(min(left_s, LOOK_EVERY_S))


def finish(started: StartedRanks, exit_codes: dict[Rank, int | None], grace_s: float) -> None:
    """Wait for the others, up to `grace_s`, once worker 0 has completed, or until one fails."""
    num_ranks = len(started.cluster.ranks)

    def is_done() -> bool:
        return len(exit_codes) == num_ranks or any(code != 0 for code in exit_codes.values())

    _wait_until(is_done, started, exit_codes, grace_s)


def _clear(folder: RunFolder) -> None:
    """Remove an earlier trial's files from a folder named by hand: they would pass for ours."""
    # of a sweep the log is what this process writes into
    own = [os.fstat(descriptor) for descriptor in (1, 2)]
    signs = (folder.result, folder.doing, folder.steps, folder.log)
    of_gpus = (folder.telemetry, folder.gpu_errors)
    for pattern in (*(path.name for path in signs + of_gpus), "beat-*.txt", "log-*.txt"):
        for path in folder.path.glob(pattern):
            if not any(os.path.samestat(path.stat(), each) for each in own):
                path.unlink()
