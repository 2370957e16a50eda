"""Names the devices of a trial and claims them: GPUs or CPU devices, of one host or of many."""

import re
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat, TypeVar

import tensorflow as tf
from tensorflow.python.eager import context

from scalemark.host import gpu_libraries
from scalemark.records.attempt import WORKER_0, Cluster, Rank, RankLimits
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import telling_line
from scalemark.text.wording import counted
from trainer import LostRankError, UnsupportedTrialError

_JOB = "/job:localhost/replica:0/task:0"
_HOST = f"{_JOB}/device:CPU:0"
_TASK = re.compile(r"/job:(\w+)/replica:\d+/task:(\d+)/device:(\w+:\d+)")
Each = TypeVar("Each")
_ASK_AGAIN_S = 0.1
_REACH_S = RankLimits().start_timeout_s
LOSE_S = 3.0  # a failing rank is heard of before it has ended: it is given so long to end
_LOSSES = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.DeadlineExceededError,
    tf.errors.CancelledError,
)


def short_name(device: str) -> str:
    """Shorten a full device name to `GPU:0`, in a distributed trial to `worker-1 GPU:0`."""
    task = _TASK.fullmatch(device)
    if task is None:
        return device.rsplit("device:", 1)[-1]
    rank = Rank(job_name=task[1], task_index=int(task[2]))
    if rank.job_name == "localhost":
        return task[3]
    return f"{rank.name} {task[3]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    """The devices that a trial runs on.

    ```
    host  CPU:0              host  CPU:0
      |---- GPU:0              |---- CPU:1   in place of GPU 0
      |---- GPU:1              |---- CPU:2   in place of GPU 1
    ```
    A distributed trial has as many replicas on each host; device names say whose they are:
    `/job:worker/replica:0/task:1/...`.
    """

    kind: DeviceKind
    host: str  # full device name: the CPU of the process that trains
    replicas: tuple[str, ...]  # full device name of each replica, host by host
    shared: bool = False  # replicas are logical devices cut from fewer physical ones
    compute_capability: tuple[int, int] | None = None  # the least of this host's GPUs
    parameter_servers: tuple[str, ...] = ()  # full device names of the CPUs of the ps tasks
    # where every worker trains its own replicas: number of its first one among all of the trial
    first: int = 0
    num_elsewhere: int = 0  # replicas of the trial that other workers train
    lockstep: "Lockstep | None" = None  # with those

    @property
    def num_all(self) -> int:
        """Number of replicas of the trial."""
        return len(self.replicas) + self.num_elsewhere

    @property
    def by_host(self) -> "tuple[Devices, ...]":
        """The devices of each host alone."""
        replicas: dict[str, tuple[str, ...]] = {}
        for replica in self.replicas:
            host = host_of(replica)
            replicas[host] = (*replicas.get(host, ()), replica)
        return tuple(replace(self, host=host, replicas=own) for host, own in replicas.items())

    def split_by_host(self, of_replicas: Sequence[Each]) -> list[Sequence[Each]]:
        """Split a list with one entry per replica into one list per host."""
        per_host = len(self.by_host[0].replicas)
        firsts = range(0, len(of_replicas), per_host)
        return [of_replicas[first : first + per_host] for first in firsts]

    @property
    def own_replicas(self) -> tuple[str, ...]:
        """The replicas that this process holds."""
        return tuple(replica for replica in self.replicas if host_of(replica) == self.host)

    def check_own_gpus(self) -> None:
        """Raise UnsupportedTrialError unless every replica has its own GPU, as NCCL needs it."""
        if self.kind is not DeviceKind.GPU or self.shared:
            raise UnsupportedTrialError(
                "all_reduce=nccl needs one physical GPU per replica; these replicas are "
                f"{self.described}"
            )

    @property
    def described(self) -> str:
        """Return what the replicas are, for messages."""
        if self.kind is DeviceKind.CPU_DEVICE:
            return "CPU devices"
        if self.shared:
            return "logical GPUs cut from one"
        return "GPUs"


def prepare(spec: TrialSpec, cluster: Cluster | None = None, reach_s: float = _REACH_S) -> Devices:
    """Claim this process's devices, and connect to the ranks of `cluster`.

    Of a cluster this process is worker 0. Call once, before TensorFlow touches any device. Raises
    UnsupportedTrialError when fewer GPUs are visible than replicas are wanted, LostRankError when
    a rank cannot be reached within `reach_s`.
    """
    own = claim_own(spec)
    if cluster is not None:
        return connect(own, cluster, reach_s)
    if spec.hosts > 1:
        raise UnsupportedTrialError(
            f"hosts={spec.hosts}: wanted the cluster of the trial's ranks, found this process alone"
        )
    return own


def claim_own(spec: TrialSpec) -> Devices:
    """Claim the devices of one host: each worker's part."""
    return claim(DeviceKind(spec.device_kind), spec.gpus_per_host)


def claim(kind: DeviceKind, num_replicas: int) -> Devices:
    """Claim devices of one host."""
    tf.config.set_soft_device_placement(False)
    if kind is DeviceKind.GPU:
        return _gpus(num_replicas)
    return _cpu_devices(num_replicas)


def _gpus(num_replicas: int) -> Devices:
    gpus = tf.config.list_physical_devices("GPU")
    if len(gpus) < num_replicas:
        raise UnsupportedTrialError(
            f"TensorFlow sees {counted(len(gpus), 'GPU')} where the trial wants {num_replicas}; "
            "are the driver and scalemark's extra 'cuda' installed?"
        )
    tf.config.set_visible_devices(gpus[:num_replicas], "GPU")
    return _devices_of_gpus(num_replicas, shared=False)


def logical_gpus(num_replicas: int, memory_bytes: int) -> Devices:
    """Cut the first visible GPU in pieces of so much memory, to prove every mode but NCCL on it.

    Call once, before TensorFlow touches any device. Raises UnsupportedTrialError without a GPU.
    """
    tf.config.set_soft_device_placement(False)
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise UnsupportedTrialError("TensorFlow sees no GPU to cut")
    tf.config.set_visible_devices(gpus[:1], "GPU")
    piece = tf.config.LogicalDeviceConfiguration(memory_limit=memory_bytes // 2**20)
    tf.config.set_logical_device_configuration(gpus[0], [piece] * num_replicas)
    return _devices_of_gpus(num_replicas, shared=num_replicas > 1)


def _devices_of_gpus(num_replicas: int, *, shared: bool) -> Devices:
    capabilities = _check_kernels()
    # It would turn NHWC into NCHW and back where it thinks best: the trial says which one runs.
    tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
    replicas = tuple(f"{_JOB}/device:GPU:{i}" for i in range(num_replicas))
    return Devices(
        kind=DeviceKind.GPU,
        host=_HOST,
        replicas=replicas,
        shared=shared,
        compute_capability=min(capabilities, default=None),
    )


def _check_kernels() -> list[tuple[int, int]]:
    """Return the compute capabilities of the visible GPUs of NVIDIA.

    Raises UnsupportedTrialError for a GPU or driver that TensorFlow has no kernels for. Sweeps
    refuse those before; the self-check, a trial by hand and other hosts come here first.
    """
    libraries = gpu_libraries.installed()
    capabilities = []
    for gpu in tf.config.get_visible_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpu)
        if "compute_capability" not in details:  # no GPU of NVIDIA
            continue
        name, capability = details.get("device_name", "GPU"), details["compute_capability"]
        problem = gpu_libraries.problem_of(name, capability, libraries)
        if problem:
            raise UnsupportedTrialError(problem)
        capabilities.append(capability)
    return capabilities


def _cpu_devices(num_replicas: int) -> Devices:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_visible_devices([], "GPU")
    tf.config.set_logical_device_configuration(
        cpu, [tf.config.LogicalDeviceConfiguration()] * (num_replicas + 1)
    )
    replicas = tuple(f"{_JOB}/device:CPU:{i + 1}" for i in range(num_replicas))
    return Devices(kind=DeviceKind.CPU_DEVICE, host=_HOST, replicas=replicas, shared=True)


def connect(own: Devices, cluster: Cluster, reach_s: float = _REACH_S) -> Devices:
    """Connect worker 0, which has claimed `own`, to the other ranks; return all their devices.

    The other ranks run `trainer.run.accompany`. Raises LostRankError.
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
    replicas = []
    for worker in range(len(cluster.worker_hosts)):
        replicas += [of_task(replica, "worker", worker) for replica in own.replicas]
    return replace(
        own,
        host=of_task(own.host, WORKER_0.job_name, WORKER_0.task_index),
        replicas=tuple(replicas),
        parameter_servers=tuple(of_task(own.host, "ps", i) for i in range(len(cluster.ps_hosts))),
    )


def cluster_spec(cluster: Cluster) -> tf.train.ClusterSpec:
    jobs = {"worker": list(cluster.worker_hosts)}
    if cluster.ps_hosts:
        jobs["ps"] = list(cluster.ps_hosts)
    return tf.train.ClusterSpec(jobs)


def synchronize(devices: Devices) -> None:
    """Wait until every device has done what it was given.

    TensorFlow's own wait knows this process's devices alone.
    """
    if devices.lockstep:  # among workers that it may not talk to
        on_each(devices.replicas, tf.raw_ops.SyncDevice)
        return
    tf.test.experimental.sync_devices()
    for replica in set(devices.replicas) - set(devices.own_replicas):
        with tf.device(replica):
            tf.fill((), 0.0).numpy()  # after all that this device has in its queue


@contextmanager
def naming_lost_ranks(cluster: Cluster | None) -> Iterator[None]:
    """Raise LostRankError for errors in the block when ranks of this cluster, if any, have ended.

    TensorFlow's own text may name a rank that only heard of it.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if cluster is None:
            raise
        lost = _lost(cluster, LOSE_S if isinstance(error, _LOSSES) else 0.0)
        if not lost:
            raise
        lines = [line.strip() for line in str(error).splitlines()]
        reasons = [line for line in lines if "UNAVAILABLE" in line or "ABORTED" in line]
        reason = (reasons or [telling_line(str(error))])[0]
        raise LostRankError(f"{' and '.join(lost)} cannot be reached any more: {reason}") from error


@contextmanager
def naming_taken_port(cluster: Cluster, rank: Rank) -> Iterator[None]:
    """Raise LostRankError when this rank cannot listen on its port in the block."""
    try:
        yield
    except tf.errors.UnknownError as error:
        if "Could not start gRPC server" not in str(error):
            raise
        raise LostRankError(
            f"{rank.name} cannot listen on {_addresses(cluster)[rank]}: another process has this "
            "port (`ss -ltnp` shows which), or the address is not of this host; give the rank "
            "another one"
        ) from error


def _lost(cluster: Cluster, within_s: float) -> list[str]:
    """Name the other ranks that take no connection any more; wait so long for the first."""
    addresses = _addresses(cluster)
    del addresses[WORKER_0]
    deadline = time.monotonic() + within_s
    while True:
        lost = [rank.name for rank, address in addresses.items() if _refusal(address)]
        if lost or time.monotonic() >= deadline:
            return lost
        time.sleep(_ASK_AGAIN_S)


def _addresses(cluster: Cluster) -> dict[Rank, str]:
    hosts = {"worker": cluster.worker_hosts, "ps": cluster.ps_hosts}
    return {rank: hosts[rank.job_name][rank.task_index] for rank in cluster.ranks}


def _reach(rank: Rank, address: str, reach_s: float) -> None:
    """Wait in Python: TensorFlow's own waiting has no end and hears no signal."""
    deadline = time.monotonic() + reach_s
    if _refusal(address):
        print(f"waiting for {rank.name} at {address}", flush=True)
    while refusal := _refusal(address):
        if time.monotonic() > deadline:
            raise LostRankError(
                f"{rank.name} cannot be reached at {address} for {reach_s:.0f} s: {refusal}"
            )
        time.sleep(_ASK_AGAIN_S)


def _refusal(address: str) -> OSError | None:
    """Return why nobody takes a connection there, or None."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1.0).close()
    except OSError as error:
        return error
    return None


def on_each(devices: Iterable[str], make: Callable[..., Each], *lists: Iterable[Any]) -> list[Each]:
    """Return what `make` returns on each device, given the device's entries of all lists."""
    made = []
    for device, *entries in zip(devices, *lists, strict=True):
        with tf.device(device):
            made.append(make(*entries))
    return made


def host_of(device: str) -> str:
    """Return the CPU of the process that has this device."""
    return f"{device.rsplit('/device:', 1)[0]}/device:CPU:0"


def of_task(device: str, job_name: str, task_index: int) -> str:
    """Rename a device of this process to its full name in a cluster."""
    return device.replace(_JOB, f"/job:{job_name}/replica:0/task:{task_index}")


AHEAD = 2  # calls: a follower starts the next before it waits for the last


class Lockstep:
    """Keep workers that each run their own loop at the same step; worker 0 decides when all stop.

    ```
      step      n-2    n-1     n      n+1     n+2
      worker 0  ──── measures ────►  says "n+2 is the last" within these two, which are not measured
      worker 1  follows ──────────►  hears it when n+1 is done at the latest ─► takes n+2, and stops
    ```
    Each step ends in a collective that waits for all workers: one that took one more would wait
    for ever. So the last step travels with the losses, which are reduced in every step anyway,
    and only worker 0's clock decides. Steps count from 1.
    """

    def __init__(self, host: str, steps_per_call: int) -> None:
        self._steps_per_call = steps_per_call
        with tf.device(host):
            self._taken = tf.Variable(0, dtype=tf.int64)
            # the last step; 0 = go on
            self._said, self._heard = tf.Variable(0, dtype=tf.int64), tf.Variable(0, dtype=tf.int64)

    def say(self) -> tf.Tensor:
        """Return what this worker adds to a step's sum over all workers, float64 scalar."""
        return tf.cast(self._said.read_value(), tf.float64)

    def hear(self, total: tf.Tensor) -> tf.Operation:
        """Take in that sum, inside a step."""
        return tf.group(self._heard.assign(tf.cast(total, tf.int64)), self._taken.assign_add(1))

    def end(self, take_call: Callable[[], SupportsFloat]) -> None:
        """Let all workers stop after a few more calls, which this takes; worker 0 calls it.

        All is measured by then, so a worker that ends during the last call fails nothing.
        """
        try:
            self._said.assign(self._taken + AHEAD * self._steps_per_call)
            for _ in range(AHEAD):
                float(take_call())
        except tf.errors.OpError:
            traceback.print_exc()
            complaint = "another worker ended during the last calls, after all was measured"
            print(complaint, file=sys.stderr, flush=True)

    def follow(self, take_call: Callable[[], SupportsFloat]) -> int:
        """Take calls until worker 0 ends them; return how many. Every other worker calls it.

        It starts one call ahead of the one it waits for, as worker 0 does. Worker 0 goes once all
        have begun the last call, and so have heard of it: an error in that call is no failure.
        Raises what TensorFlow raises before.
        """
        num_calls, last = 0, None
        try:
            while not self._is_over(num_calls):
                call = take_call()
                num_calls += 1
                if last is not None:
                    float(last)
                last = call
            if last is not None:
                float(last)
        except tf.errors.OpError:
            if not self._is_over(num_calls + 1):
                raise
            return int(self._heard) // self._steps_per_call
        return num_calls

    def _is_over(self, num_calls: int) -> bool:
        return 0 < int(self._heard) <= num_calls * self._steps_per_call
