"""tf.distribute.MultiWorkerMirroredStrategy, which users know, to compare.

```
  worker 0: GPU 0, GPU 1: weights ─► gradients ─┐            ┌─► update weights
  worker 1: GPU 0, GPU 1: weights ─► gradients ─┴ all-reduce ┴─► update weights
```
Every worker runs the same loop on its own devices. Model, optimizer ops and input are those of
every other mode, so that only the way of sharing differs. On CPUs the strategy takes one device of
each process.
"""

import math
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace

from scalemark.abilities import MULTI_WORKER, Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("ring", "nccl"),
    why="these are the ways of tf.distribute.MultiWorkerMirroredStrategy",
    sends=Sends.UNKNOWN,
    in_your_code={"nccl": f"{MULTI_WORKER}.NCCL", "": f"{MULTI_WORKER}.RING"},
    rank_jobs=("worker",),
    every_worker_trains=True,
    one_cpu_device_per_host=True,
)

import numpy as np
import tensorflow as tf
from tensorflow.python.distribute.values import PerReplica

from scalemark.records.attempt import Cluster, Rank
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from trainer import UnsupportedTrialError
from trainer import devices as devices_of
from trainer.model_tower import Batch
from trainer.towers import Optimizer, Tower, TowerResult
from trainer.variable_updates.mirrored import Mirrored

GRACE_S = 30  # for who looks after the ranks to end all, and tell which is missing
_IMPLEMENTATIONS = {
    "ring": tf.distribute.experimental.CommunicationImplementation.RING,
    "nccl": tf.distribute.experimental.CommunicationImplementation.NCCL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDevices(devices_of.Devices):
    """The devices of one worker among others."""

    strategy: tf.distribute.Strategy


def join(spec: TrialSpec, cluster: Cluster, rank: Rank, limit_s: float) -> WorkerDevices:
    """Claim this worker's devices and meet all others, which must be about to do the same.

    Call once, before TensorFlow touches any device. Raises UnsupportedTrialError for devices that
    are not there, LostRankError for a port that is taken. While TensorFlow waits here it holds the
    interpreter and takes SIGTERM for itself, and would wait for an hour, so Linux ends a process
    that waits for longer than `limit_s`, and a while for others to end it.
    """
    check(spec)
    own = _claim(spec, rank)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        devices_of.cluster_spec(cluster),
        task_type=rank.job_name,
        task_id=rank.task_index,
        num_accelerators={"GPU": len(own.replicas) if own.kind is DeviceKind.GPU else 0},
        rpc_layer="grpc",
    )
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=_IMPLEMENTATIONS[spec.all_reduce]
    )
    alarm_s = math.ceil(limit_s) + GRACE_S
    workers = f"{len(cluster.worker_hosts)} workers"
    print(f"{rank.name} joins {workers}; SIGALRM ends it after {alarm_s} s", flush=True)
    signal.alarm(alarm_s)
    with devices_of.naming_taken_port(cluster, rank):
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=resolver, communication_options=options
        )
    signal.alarm(0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return WorkerDevices(
        kind=own.kind,
        host=own.host,
        replicas=own.replicas,
        shared=own.shared,
        first=rank.task_index * spec.gpus_per_host,
        num_elsewhere=spec.num_gpus - spec.gpus_per_host,
        lockstep=devices_of.Lockstep(own.host, spec.steps_per_execution),
        strategy=strategy,
    )


def check(spec: TrialSpec) -> None:
    """Refuse what is known to be wrong before any device is touched."""
    if spec.all_reduce not in _IMPLEMENTATIONS:
        choices = ", ".join(_IMPLEMENTATIONS)
        raise UnsupportedTrialError(
            f"all_reduce={spec.all_reduce}: MultiWorkerMirroredStrategy has {choices}"
        )
    if spec.device_kind == DeviceKind.GPU:
        return
    if spec.all_reduce == "nccl":  # TensorFlow would take its ring, and say nothing
        raise UnsupportedTrialError(
            "all_reduce=nccl needs one physical GPU per replica; these replicas are CPU devices"
        )
    if spec.gpus_per_host > 1:
        raise UnsupportedTrialError(
            f"num_gpus={spec.num_gpus}: on CPUs MultiWorkerMirroredStrategy has one device "
            f"per host; wanted num_gpus={spec.hosts}"
        )


def _claim(spec: TrialSpec, rank: Rank) -> devices_of.Devices:
    """Claim devices under the names that they have in the cluster."""
    if spec.device_kind == DeviceKind.GPU:
        own = devices_of.claim_own(spec)
    else:
        own = devices_of.claim(DeviceKind.CPU_DEVICE, 0)
        own = replace(own, replicas=(own.host,))
    host, *replicas = (
        devices_of.of_task(name, rank.job_name, rank.task_index)
        for name in (own.host, *own.replicas)
    )
    return replace(own, host=host, replicas=tuple(replicas))


def create(
    spec: TrialSpec,
    initial: Sequence[np.ndarray],
    devices: devices_of.Devices,
    optimizer: Optimizer,
    bytes_per_pack: int = 0,
) -> "MultiWorkerMirrored":
    """Send packs of so many bytes; 0 = one, tf.distribute's default, which waits for all gradients.

    Raises UnsupportedTrialError for devices that did not join others.
    """
    if not isinstance(devices, WorkerDevices):
        raise UnsupportedTrialError(
            f"variable_update={spec.variable_update}: wanted the workers of a cluster, found "
            "one process"
        )
    return MultiWorkerMirrored(initial, devices, optimizer, bytes_per_pack)


class MultiWorkerMirrored(Mirrored):
    def __init__(
        self,
        initial: Sequence[np.ndarray],
        devices: WorkerDevices,
        optimizer: Optimizer,
        bytes_per_pack: int,
    ) -> None:
        super().__init__(
            devices.strategy, initial, devices, optimizer, "CollectiveReduceV2", devices.replicas
        )
        self._options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack)
        assert devices.lockstep is not None  # `join` made it
        self._lockstep, self._host = devices.lockstep, devices.host
        self._num_local = len(devices.replicas)

    def run_towers(self, tower: Tower, batches: Sequence[Batch]) -> list[TowerResult]:
        """Give each tower the mean loss over all replicas of all workers, as users reduce it."""
        results = super().run_towers(tower, batches)
        mean = self._mean([result.loss for result in results])
        return [TowerResult(mean, result.gradients) for result in results]

    def _mean(self, losses: Sequence[tf.Tensor]) -> tf.Tensor:
        """Reduce the losses, and the lockstep with them: float64 holds every step number."""
        with tf.device(self._host):
            # once per worker
            said = [self._lockstep.say(), *[tf.constant(0.0, tf.float64)] * (self._num_local - 1)]

        def message(loss: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
            return tf.stack([tf.cast(loss, tf.float64), words])

        messages = devices_of.on_each([loss.device for loss in losses], message, losses, said)
        with tf.device(self._host):
            of_replicas = PerReplica(tuple(messages))
            total = self._strategy.reduce(tf.distribute.ReduceOp.SUM, of_replicas, axis=None)
            with tf.control_dependencies([self._lockstep.hear(total[1])]):
                return tf.cast(total[0] / self.num_summed, tf.float32)
