"""One process per GPU on one host, as PyTorch's DistributedDataParallel has it.

```
  worker 0: GPU 0: weights ─► gradients ─┐            ┌─► update weights
  worker 1: GPU 1: weights ─► gradients ─┴ all-reduce ┴─► update weights
```
Every process is a worker of tf.distribute.MultiWorkerMirroredStrategy with one device, so that no
Python, no graph and no input pipeline is shared, as towers share them. CPU devices are taken one
per process, too. Gradients travel in messages of 25 MiB, as DistributedDataParallel's do, each as
soon as the backward pass has brought its last one; gradient_repacking takes other packs.
"""

from __future__ import annotations

from scalemark.abilities.variable_update import Sends, SendsBetweenHosts, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("nccl", "ring"),
    why="these are the ways of tf.distribute.MultiWorkerMirroredStrategy",
    sends=Sends.UNKNOWN,
    sends_between_hosts=SendsBetweenHosts.RING,
    repacks_with=("nccl", "ring"),
    rank_jobs=("worker",),
    every_worker_trains=True,
    is_of_one_host=True,
)

from scalemark.records.cluster import Cluster, Rank
from scalemark.records.trial import TrialSpec
from trainer.variable_updates import multi_worker_mirrored
from trainer.variable_updates.multi_worker_mirrored import WorkerDevices, check, create

__all__ = ["ABILITIES", "check", "create", "join"]

# The default of bucket_cap_mb of PyTorch's DistributedDataParallel (its documentation; Li et al.,
# PyTorch Distributed, VLDB 2020). Told nothing, TensorFlow sends all gradients at once, when the
# backward pass has ended.
BYTES_PER_PACK = 25 * 2**20


def join(spec: TrialSpec, cluster: Cluster, rank: Rank, limit_s: float) -> WorkerDevices:
    """Do the same as `multi_worker_mirrored.join`, with messages of 25 MiB."""
    return multi_worker_mirrored.join(spec, cluster, rank, limit_s, BYTES_PER_PACK)
