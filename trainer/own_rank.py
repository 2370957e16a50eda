"""Reads which rank of a distributed trial this process is; its heartbeat, and its ports."""

import argparse
import errno
import itertools
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import NoReturn

from scalemark.abilities import VARIABLE_UPDATES, distributed, jobs_of, rank_jobs
from scalemark.records.attempt import WORKER_0, Cluster, Rank
from scalemark.records.axes import Engine
from scalemark.records.measurement import EXIT_CODES, Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from trainer import UnsupportedTrialError

# host, or [IPv6], and port
_ADDRESS = re.compile(r"(?:[^\s:\[\]/,=]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_JOBS = ("worker", "ps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """Flags of the command line; empty where they are not given."""

    job_name: str = ""
    task_index: str = ""
    worker_hosts: str = ""
    ps_hosts: str = ""

    @classmethod
    def of(cls, cluster: Cluster, rank: Rank) -> "Flags":
        """Return the flags with which a process is this rank."""
        return cls(
            job_name=rank.job_name,
            task_index=str(rank.task_index),
            worker_hosts=",".join(cluster.worker_hosts),
            ps_hosts=",".join(cluster.ps_hosts),
        )

    @staticmethod
    def add_to(parser: argparse.ArgumentParser) -> None:
        group = parser.add_argument_group(
            "ranks of a trial over several processes",
            "As in tf_cnn_benchmarks. Worker 0 trains and writes the results; the other ranks wait "
            "for it or train with it, and end with it. Without these all ranks are started on this "
            "host.",
        )
        helps = {
            "job_name": ("JOB", "worker or ps (parameter server): what this process is"),
            "task_index": ("N", "its number in its list of hosts, from 0"),
            "worker_hosts": ("HOST:PORT,...", "all workers; as many as the trial's hosts"),
            "ps_hosts": ("HOST:PORT,...", "all parameter servers, if any; as many as workers"),
        }
        for name, (metavar, text) in helps.items():
            group.add_argument(f"--{name}", type=_not_empty, metavar=metavar, help=text)

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> "Flags":
        return cls(**{name: getattr(arguments, name) or "" for name in asdict(NO_FLAGS)})

    def arguments(self) -> list[str]:
        """Return them as on a command line."""
        return [f"--{name}={value}" for name, value in asdict(self).items() if value]


NO_FLAGS = Flags()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRank:
    """The rank that this process is, and its cluster."""

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
    """Return this process's rank; None when it is given none.

    Raises UnsupportedTrialError for what makes no sense, or not with this trial.
    """
    if flags != NO_FLAGS:
        return _own_rank(flags, spec)
    if variables.get("TF_CONFIG", "").strip() not in ("", "{}"):
        # It may name a rank: taking all of them would train the trial once per task.
        raise UnsupportedTrialError(
            "TF_CONFIG is set and is not read; unset it, or name the rank of a trial over several "
            "hosts by --job_name, --task_index and --worker_hosts"
        )
    return None


def _not_empty(value: str) -> str:
    """Refuse an empty flag, for which a script had no value: it would be another process."""
    if not value:
        raise argparse.ArgumentTypeError("it is empty; wanted a value, or leave the flag out")
    return value


def _own_rank(flags: Flags, spec: TrialSpec) -> OwnRank:
    jobs, what = jobs_of(spec), f"variable_update={spec.variable_update}"
    choice = f"variable_update={', '.join(distributed())}"
    if spec.engine == Engine.command.value:
        what, choice = f"engine=command hosts={spec.hosts}", "hosts=2 or more"
    if not jobs:
        raise UnsupportedTrialError(
            f"a trial of {what} is one process, and has no ranks; leave the flags out, "
            f"or choose {choice}"
        )
    if not (flags.job_name and flags.task_index and flags.worker_hosts):
        raise UnsupportedTrialError(
            f"{' '.join(flags.arguments())}: wanted --job_name, --task_index and "
            "--worker_hosts, and --ps_hosts where there are parameter servers"
        )
    workers, servers = _split(flags.worker_hosts), _split(flags.ps_hosts)
    if len(workers) != spec.hosts:
        raise UnsupportedTrialError(
            f"--worker_hosts={flags.worker_hosts}; wanted {spec.hosts}, because the trial "
            f"has hosts={spec.hosts}"
        )
    num_servers = spec.hosts if "ps" in jobs else 0
    if len(servers) != num_servers:
        raise UnsupportedTrialError(
            f"--ps_hosts={flags.ps_hosts}; wanted {num_servers} with {what}"
        )
    for address in workers + servers:
        match = _ADDRESS.fullmatch(address)
        if not match or not 1 <= int(match["port"]) <= 65535:
            raise UnsupportedTrialError(
                f"{address or 'an empty name'} is no HOST:PORT; wanted a port of 1 to 65535"
            )
    if len(set(workers + servers)) < len(workers + servers):
        raise UnsupportedTrialError("wanted a HOST:PORT of its own for every rank")
    return OwnRank(
        cluster=Cluster(worker_hosts=workers, ps_hosts=servers),
        rank=_rank(flags, {"worker": workers, "ps": servers}),
    )


def _rank(flags: Flags, hosts: Mapping[str, tuple[str, ...]]) -> Rank:
    if not hosts.get(flags.job_name):
        wanted = " or ".join(job for job in _JOBS if hosts[job])
        raise UnsupportedTrialError(f"--job_name={flags.job_name}: wanted {wanted}")
    last, index = len(hosts[flags.job_name]) - 1, flags.task_index
    if not (index.isascii() and index.isdecimal() and int(index) <= last):
        raise UnsupportedTrialError(
            f"--task_index={index}: wanted 0 to {last}, the numbers of {flags.job_name}_hosts"
        )
    return Rank(job_name=flags.job_name, task_index=int(index))


def _split(hosts: str) -> tuple[str, ...]:
    return tuple(hosts.split(",")) if hosts else ()


def with_processes(spec: TrialSpec) -> TrialSpec:
    """Return the trial as its ranks take it: each process stands for a host of one replica.

    Raises UnsupportedTrialError for a way of one host over several real ones, as a sweep refuses
    it: the spec may be hand-written.
    """
    if not _has_processes(spec):
        if spec.hosts > 1 and not rank_jobs(spec.variable_update):
            raise UnsupportedTrialError(
                f"hosts={spec.hosts}: variable_update={spec.variable_update} is of one host; "
                f"choose variable_update={', '.join(distributed())}"
            )
        return spec
    if spec.hosts not in (1, spec.num_gpus):
        raise UnsupportedTrialError(
            f"hosts={spec.hosts}: variable_update={spec.variable_update} is of one host; leave it "
            "out, or choose variable_update=multi_worker_mirrored"
        )
    return replace(spec, hosts=spec.num_gpus)


def as_asked(spec: TrialSpec) -> TrialSpec:
    """Invert `with_processes`."""
    if _has_processes(spec):
        return replace(spec, hosts=1)
    return spec


def _has_processes(spec: TrialSpec) -> bool:
    update = VARIABLE_UPDATES.get(spec.variable_update)
    return spec.engine == Engine.tensorflow and update is not None and update.is_of_one_host


def visible_devices(
    worker: int, per_host: int, num_hosts: int, variables: Mapping[str, str] = os.environ
) -> str:
    """Return a worker's CUDA_VISIBLE_DEVICES: its share of the GPUs this process may see."""
    every = ",".join(map(str, range(per_host * num_hosts)))
    # an empty mask hides all GPUs, as CUDA takes it
    visible = variables.get("CUDA_VISIBLE_DEVICES", every).split(",")
    return ",".join(visible[worker * per_host : (worker + 1) * per_host])


BEAT_EVERY_S = 2.0
LOOK_EVERY_S = 0.1
JOINING = " joining"  # follows the number of a rank that may be silent until it has met the others

# of this process, which is one rank
_joins, _announced, _hurry = threading.Event(), threading.Event(), threading.Event()


def start_beat(folder: RunFolder, rank: Rank, every_s: float = BEAT_EVERY_S) -> None:
    """Beat until the process ends; call once others can connect, before waiting for them.

    A rank that cannot write for half of the heartbeat timeout is ended: it would be taken for hung,
    and nobody would learn why.
    """
    end_after_s = folder.read_rank_limits().timeout_s / 2
    threading.Thread(
        target=_beat, args=(folder, rank, every_s, end_after_s), name="beat", daemon=True
    ).start()


@contextmanager
def joining() -> Iterator[None]:
    """Announce that no beat can come: waiting for other ranks holds the interpreter."""
    _announced.clear()
    _joins.set()
    _hurry.set()
    _announced.wait()
    try:
        yield
    finally:
        _joins.clear()
        _hurry.set()


def wait_for_beats(folder: RunFolder, ranks: Iterable[Rank]) -> None:
    """Wait until the folder holds a beat of each; unlike TensorFlow's waiting, signals end it."""
    pause = threading.Event()
    for rank in ranks:
        if not folder.rank_beat(rank).exists():
            print(f"waiting for {rank.name}", file=sys.stderr, flush=True)
        while not folder.rank_beat(rank).exists():
            pause.wait(LOOK_EVERY_S)


def _beat(folder: RunFolder, rank: Rank, every_s: float, end_after_s: float) -> None:
    failing_since_s: float | None = None
    for number in itertools.count(1):
        _hurry.clear()
        joins = _joins.is_set()
        try:
            # In place: hosts that share the folder over a network see a file change sooner than its
            # name.
            folder.rank_beat(rank).write_text(f"{number}{JOINING if joins else ''}")
        except OSError as error:  # of a folder on a network it may pass
            if failing_since_s is None:
                failing_since_s = time.monotonic()
                _say(f"{rank.name} cannot write its beat, and tries for {end_after_s:g} s: {error}")
            if time.monotonic() - failing_since_s >= end_after_s:
                _end(
                    f"{Outcome.FAILED}: {rank.name} cannot write its beat for {end_after_s:g} s: "
                    f"{error}"
                )
        else:
            failing_since_s = None
            if joins:
                _announced.set()
        _hurry.wait(every_s)


def _say(text: str) -> None:
    with suppress(OSError):  # the log may be on the same full disk
        print(text, file=sys.stderr, flush=True)


def _end(text: str) -> NoReturn:
    try:
        _say(text)
    finally:
        os._exit(EXIT_CODES[Outcome.FAILED])


PORTS = range(20_000, 30_000)  # below those that Linux gives to whoever asks for any


@contextmanager
def reserved_ports(num_ports: int) -> Iterator[tuple[int, ...]]:
    """Reserve free ports for the block, whatever becomes of this process. Raises OSError.

    What is reserved is a name that the kernel gives only once, and takes back when its holder ends;
    the port itself stays free.
    """
    with ExitStack() as held:
        # attempts that begin side by side look in different places
        first = os.getpid() * 101 % len(PORTS)
        ports: list[int] = []
        for port in itertools.chain(PORTS[first:], PORTS[:first]):
            if len(ports) < num_ports and _reserve(port, held):
                ports.append(port)
        if len(ports) < num_ports:
            raise OSError(
                errno.EADDRINUSE,
                f"{os.strerror(errno.EADDRINUSE)}: {num_ports} free ports wanted, {len(ports)} "
                f"found of {PORTS.start} to {PORTS.stop - 1}",
            )
        yield tuple(ports)


def _reserve(port: int, held: ExitStack) -> bool:
    name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        name.bind(f"\0scalemark-port-{port}")
        with socket.socket() as probe:
            # as TensorFlow: an ended connection does not count
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("", port))
    except OSError as error:
        name.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    held.enter_context(name)
    return True
