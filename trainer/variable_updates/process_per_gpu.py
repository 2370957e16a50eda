"""One process per GPU on one host, as PyTorch's DistributedDataParallel has it.

```
  worker 0: GPU 0: weights ─► gradients ─┐            ┌─► update weights
  worker 1: GPU 1: weights ─► gradients ─┴ all-reduce ┴─► update weights
```
Every process is a worker of tf.distribute.MultiWorkerMirroredStrategy with one device, so that no
Python, no graph and no input pipeline is shared, as towers share them. CPU devices are taken one
per process, too. Gradients travel in buckets, from the last layer on: each is sent as soon as its
gradients are there, while those of earlier layers are computed.
"""

from scalemark.abilities import Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("nccl", "ring"),
    why="these are the ways of tf.distribute.MultiWorkerMirroredStrategy",
    sends=Sends.UNKNOWN,
    in_your_code={
        "nccl": "DistributedDataParallel of PyTorch",
        "": "DistributedDataParallel of PyTorch on gloo",
    },
    repacks_with=("nccl", "ring"),
    rank_jobs=("worker",),
    every_worker_trains=True,
    is_of_one_host=True,
)

import math
from collections.abc import Sequence

import numpy as np

from scalemark.records.trial import TrialSpec
from trainer.devices import Devices
from trainer.towers import Optimizer
from trainer.variable_updates import multi_worker_mirrored
from trainer.variable_updates.multi_worker_mirrored import MultiWorkerMirrored, check, join

__all__ = ["ABILITIES", "check", "create", "join"]

BUCKET_BYTES = 25 * 2**20  # bucket_cap_mb of PyTorch's DistributedDataParallel


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
) -> MultiWorkerMirrored:
    """Cut the gradients into buckets of 25 MiB, or into `gradient_repacking` of one size.

    A tensor is in one bucket, which may be larger by it, so that there may be fewer. Raises
    UnsupportedTrialError for devices that did not join others.
    """
    bucket_bytes = BUCKET_BYTES
    if spec.gradient_repacking:
        all_bytes = 4 * sum(values.size for values in initial)
        bucket_bytes = math.ceil(all_bytes / spec.gradient_repacking)
    return multi_worker_mirrored.create(spec, initial, devices, optimizer, bucket_bytes)
