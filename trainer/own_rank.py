"""The rank of a distributed trial that this process is, its heartbeat, and its ports."""

import errno
import itertools
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import NoReturn

from scalemark.abilities import VARIABLE_UPDATES, distributed, rank_jobs
from scalemark.records.attempt import WORKER_0, Cluster, Rank
from scalemark.records.axes import Engine
from scalemark.records.measurement import EXIT_CODES, Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from trainer import UnsupportedTrialError


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRank:
    """The rank that this process is, and its cluster."""

    cluster: Cluster
    rank: Rank

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "OwnRank":
        """Read what `to_json` returned."""
        values = json.loads(text)
        hosts = {job: tuple(addresses) for job, addresses in values["cluster"].items()}
        return cls(cluster=Cluster(**hosts), rank=Rank(**values["rank"]))

    def arguments(self) -> list[str]:
        """Return what tells a process on its command line that it is this rank."""
        return [f"--rank={self.to_json()}"]

    @property
    def leads(self) -> bool:
        """It writes steps and result."""
        return self.rank == WORKER_0

    @property
    def others(self) -> list[Rank]:
        return [rank for rank in self.cluster.ranks if rank != self.rank]


def check_no_other(variables: Mapping[str, str]) -> None:
    """Raise UnsupportedTrialError for a variable of a rank: each task would train the trial."""
    if variables.get("TF_CONFIG", "").strip() not in ("", "{}"):
        raise UnsupportedTrialError(
            "TF_CONFIG is set and is not read; unset it, and give the trial its hosts by hosts= "
            "and launcher="
        )


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
