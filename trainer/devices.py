"""Names the devices of a trial and makes them: physical GPUs or CPUs standing in for them, of one
host or of many.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import tensorflow as tf
from tensorflow.python.eager import context

from scalemark.records.cluster import WORKER_0, Cluster, Rank, RankLimits
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.text.error_line import telling_line
from trainer.errors import LostRankError, UnsupportedTrialError
from trainer.ranks.lockstep import Lockstep

_JOB = "/job:localhost/replica:0/task:0"
_TASK = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+)/device:(\w+:\d+)")
Each = TypeVar("Each")
_ASK_AGAIN_S = 0.1
_REACH_S = RankLimits().start_timeout_s
LOSE_S = 3.0  # from the error of one whose peer fails until that has ended
_OF_LOSS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
)


def short_name(device: str) -> str:
    """`GPU:0` of a full device name; of one of a distributed trial `worker-1 GPU:0`."""
    task = _TASK.fullmatch(device)
    if task is None:
        return device.rsplit("device:", 1)[-1]
    rank = Rank(job_name=task[1], task_index=int(task[2]))
    return task[3] if rank.job_name == "localhost" else f"{rank.name} {task[3]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """Where a trial runs.

    ```
    host  CPU:0              host  CPU:0
      |---- GPU:0              |---- CPU:1   stand-in for GPU 0
      |---- GPU:1              |---- CPU:2   stand-in for GPU 1
    ```
    A distributed trial has as many replicas on each host; device names say whose they are:
    `/job:worker/replica:0/task:1/...`.
    """

    kind: DeviceKind
    host: str  # full device name: the CPU of the process that trains
    replicas: tuple[str, ...]  # full device name of each replica, host by host
    shared: bool = False  # replicas are logical devices cut from fewer physical ones
    parameter_servers: tuple[str, ...] = ()  # full device names of the CPUs of the ps tasks
    # number of the first of these replicas among all of the trial, where every worker trains its
    # own
    first: int = 0
    num_elsewhere: int = 0  # replicas of the trial that other workers train
    lockstep: Lockstep | None = None  # with those

    @property
    def num_all(self) -> int:
        """Replicas of the trial."""
        return len(self.replicas) + self.num_elsewhere

    @property
    def by_host(self) -> tuple[Devices, ...]:
        """The devices of each host alone."""
        hosts = dict.fromkeys(_host_of(replica) for replica in self.replicas)
        return tuple(
            replace(
                self,
                host=host,
                replicas=tuple(each for each in self.replicas if _host_of(each) == host),
            )
            for host in hosts
        )

    def split_by_host(self, of_replicas: Sequence[Each]) -> list[Sequence[Each]]:
        """One thing per replica in, those of each host out."""
        per_host = len(self.by_host[0].replicas)
        return [
            of_replicas[first : first + per_host] for first in range(0, len(of_replicas), per_host)
        ]

    @property
    def own_replicas(self) -> tuple[str, ...]:
        """Of them those that this process holds."""
        return tuple(replica for replica in self.replicas if _host_of(replica) == self.host)

    def check_own_gpus(self) -> None:
        """Raises UnsupportedTrialError unless every replica has a physical GPU to itself, as NCCL
        needs it.
        """
        if self.kind is not DeviceKind.GPU or self.shared:
            told = f"these replicas are {self.described}"
            raise UnsupportedTrialError(
                f"all_reduce=nccl needs one physical GPU per replica; {told}"
            )

    @property
    def described(self) -> str:
        """For messages: what the replicas are."""
        if self.kind is DeviceKind.CPU_STAND_IN:
            return "CPU stand-ins"
        return "logical GPUs cut from one" if self.shared else "GPUs"


def prepare(spec: TrialSpec, cluster: Cluster | None = None, reach_s: float = _REACH_S) -> Devices:
    """Claim this process's devices, set its threads, and connect to the other ranks of `cluster`,
    whose worker 0 it is.

    Call once, before TensorFlow touches any device. Raises UnsupportedTrialError when fewer GPUs
    are visible than replicas are wanted, LostRankError when a rank cannot be reached within
    `reach_s`.
    """
    own = claim_own(spec)
    if cluster is None:
        if spec.hosts > 1:
            raise UnsupportedTrialError(
                f"hosts={spec.hosts}: wanted the cluster of the trial's ranks, found this "
                "process alone"
            )
        return own
    return connect(own, cluster, reach_s)


def claim_own(spec: TrialSpec) -> Devices:
    """The devices of one host, and its threads: what each worker of a distributed trial does."""
    set_threads(spec)
    return claim(DeviceKind(spec.device_kind), spec.gpus_per_host)


def set_threads(spec: TrialSpec) -> None:
    tf.config.threading.set_inter_op_parallelism_threads(spec.num_inter_threads)
    tf.config.threading.set_intra_op_parallelism_threads(spec.num_intra_threads)


def connect(own: Devices, cluster: Cluster, reach_s: float = _REACH_S) -> Devices:
    """The devices of all hosts, of which this process, worker 0, has claimed its own; the other
    ranks are `trainer/ranks/servers.py`.

    Raises LostRankError.
    """
    for rank, address in _addresses(cluster).items():
        if rank != WORKER_0:
            _reach(rank, address, reach_s)
    with naming_taken_port(cluster, WORKER_0):
        tf.config.experimental_connect_to_cluster(
            cluster_spec(cluster),
            job_name=WORKER_0.job_name,
            task_index=WORKER_0.task_index,
            protocol="grpc",
            make_master_device_default=False,
        )
        context.context().ensure_initialized()
    workers = range(len(cluster.worker_hosts))
    return replace(
        own,
        host=of_task(own.host, WORKER_0.job_name, WORKER_0.task_index),
        replicas=tuple(
            of_task(replica, "worker", index) for index in workers for replica in own.replicas
        ),
        parameter_servers=tuple(
            of_task(own.host, "ps", index) for index in range(len(cluster.ps_hosts))
        ),
    )


def cluster_spec(cluster: Cluster) -> tf.train.ClusterSpec:
    """As TensorFlow has it."""
    jobs = {"worker": list(cluster.worker_hosts)} | (
        {"ps": list(cluster.ps_hosts)} if cluster.ps_hosts else {}
    )
    return tf.train.ClusterSpec(jobs)


def synchronize(devices: Devices) -> None:
    """Wait until every device has done what it was given: TensorFlow's own wait knows this
    process's devices alone.
    """
    if devices.lockstep:  # among workers that it may not talk to
        for replica in devices.replicas:
            with tf.device(replica):
                tf.raw_ops.SyncDevice()
        return
    tf.test.experimental.sync_devices()
    for replica in set(devices.replicas) - set(devices.own_replicas):
        with tf.device(replica):
            tf.fill((), 0.0).numpy()  # after all that this device has in its queue


@contextmanager
def naming_lost_ranks(cluster: Cluster) -> Iterator[None]:
    """Raises LostRankError in place of what TensorFlow raises in the block when ranks of this
    cluster have ended.

    TensorFlow's own text may name a rank that only heard of it.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if lost := _lost(cluster, LOSE_S if isinstance(error, _OF_LOSS) else 0.0):
            raise LostRankError(
                f"{' and '.join(lost)} cannot be reached any more: {_told(error)}"
            ) from error
        raise


@contextmanager
def naming_taken_port(cluster: Cluster, rank: Rank) -> Iterator[None]:
    """Raises LostRankError in place of what TensorFlow raises in the block when this rank cannot
    listen on its port.
    """
    try:
        yield
    except tf.errors.UnknownError as error:
        if "Could not start gRPC server" not in str(error):
            raise
        raise LostRankError(
            f"{rank.name} cannot listen on {_addresses(cluster)[rank]}: another process has this port (`ss -ltnp` tells which), "
            "or the address is not of this host; end that process, or give the rank another port"
        ) from error


def _lost(cluster: Cluster, within_s: float) -> list[str]:
    """A peer that fails is heard of before it has ended."""
    others = {
        rank.name: address for rank, address in _addresses(cluster).items() if rank != WORKER_0
    }
    deadline = time.monotonic() + within_s
    while (
        not (lost := [name for name, address in others.items() if _refusal(address)])
        and time.monotonic() < deadline
    ):
        time.sleep(_ASK_AGAIN_S)
    return lost


def _told(error: tf.errors.OpError) -> str:
    """Of many lines the first that says why."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next(
        (line for line in lines if "UNAVAILABLE" in line or "ABORTED" in line),
        telling_line(str(error)),
    )


def _addresses(cluster: Cluster) -> dict[Rank, str]:
    hosts = {"worker": cluster.worker_hosts, "ps": cluster.ps_hosts}
    return {rank: hosts[rank.job_name][rank.task_index] for rank in cluster.ranks}


def _reach(rank: Rank, address: str, reach_s: float) -> None:
    """Wait in Python: TensorFlow's own waiting has no end and hears no signal."""
    deadline, is_told = time.monotonic() + reach_s, False
    while refusal := _refusal(address):
        if time.monotonic() > deadline:
            raise LostRankError(
                f"{rank.name} cannot be reached at {address} for {reach_s:.0f} s: {refusal}"
            )
        if not is_told:
            print(f"waiting for {rank.name} at {address}", flush=True)
            is_told = True
        time.sleep(_ASK_AGAIN_S)


def _refusal(address: str) -> OSError | None:
    """Why nobody takes a connection there, or None."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
    except OSError as error:
        return error
    return None


def _host_of(device: str) -> str:
    return f"{device.rsplit('/device:', 1)[0]}/device:CPU:0"


def of_task(device: str, job_name: str, task_index: int) -> str:
    """The full name of this process's device among those of a cluster."""
    return device.replace(_JOB, f"/job:{job_name}/replica:0/task:{task_index}")


def claim(kind: DeviceKind, num_replicas: int) -> Devices:
    """As `prepare`, with TensorFlow's own choice of threads."""
    tf.config.set_soft_device_placement(False)
    return _CLAIM[kind](num_replicas)


def _gpus(num_replicas: int) -> Devices:
    gpus = tf.config.list_physical_devices("GPU")
    num_visible = len(gpus)
    if num_visible < num_replicas:
        raise UnsupportedTrialError(
            f"TensorFlow sees {num_visible} GPUs where the trial wants {num_replicas}; "
            "are the driver and scalemark's extra 'cuda' installed?"
        )
    tf.config.set_visible_devices(gpus[:num_replicas], "GPU")
    # It would turn NHWC into NCHW and back where it thinks best: the trial says which one runs.
    tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
    return Devices(
        kind=DeviceKind.GPU,
        host=f"{_JOB}/device:CPU:0",
        replicas=tuple(f"{_JOB}/device:GPU:{i}" for i in range(num_replicas)),
    )


def logical_gpus(num_replicas: int, memory_bytes: int) -> Devices:
    """Cut the first visible GPU in pieces of so much memory: every mode but NCCL can be proven on
    one GPU.

    Call once, before TensorFlow touches any device. Raises UnsupportedTrialError where there is no
    GPU.
    """
    tf.config.set_soft_device_placement(False)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise UnsupportedTrialError("TensorFlow sees no GPU to cut")
    tf.config.set_visible_devices(gpus[:1], "GPU")
    piece = tf.config.LogicalDeviceConfiguration(memory_limit=memory_bytes // 2**20)
    tf.config.set_logical_device_configuration(gpus[0], [piece] * num_replicas)
    tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
    replicas = tuple(f"{_JOB}/device:GPU:{i}" for i in range(num_replicas))
    return Devices(
        kind=DeviceKind.GPU, host=f"{_JOB}/device:CPU:0", replicas=replicas, shared=num_replicas > 1
    )


def _stand_ins(num_replicas: int) -> Devices:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_visible_devices([], "GPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * (num_replicas + 1)
    )
    return Devices(
        kind=DeviceKind.CPU_STAND_IN,
        host=f"{_JOB}/device:CPU:0",
        replicas=tuple(f"{_JOB}/device:CPU:{i + 1}" for i in range(num_replicas)),
        shared=True,
    )


_CLAIM: dict[DeviceKind, Callable[[int], Devices]] = {
    DeviceKind.GPU: _gpus,
    DeviceKind.CPU_STAND_IN: _stand_ins,
}
