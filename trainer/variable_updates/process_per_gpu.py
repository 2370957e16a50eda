"""One process per GPU on one host, as PyTorch's DistributedDataParallel has it.

```
  worker 0: GPU 0: weights ─► gradients ─┐            ┌─► update weights
  worker 1: GPU 1: weights ─► gradients ─┴ all-reduce ┴─► update weights
```
Every process is a worker of tf.distribute.MultiWorkerMirroredStrategy with one device, so that no
Python, no graph and no input pipeline is shared, as towers share them. CPU devices are taken one
per process, too.
"""

from __future__ import annotations

from scalemark.abilities.variable_update import Sends, SendsBetweenHosts, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("nccl", "ring"),
    why="these are the ways of tf.distribute.MultiWorkerMirroredStrategy",
    sends=Sends.UNKNOWN,
    sends_between_hosts=SendsBetweenHosts.RING,
    rank_jobs=("worker",),
    every_worker_trains=True,
    is_of_one_host=True,
)

from trainer.variable_updates.multi_worker_mirrored import check, create, join

__all__ = ["ABILITIES", "check", "create", "join"]
