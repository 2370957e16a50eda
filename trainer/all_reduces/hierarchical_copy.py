"""Two groups of neighbors: each sums on one replica, the partial sums are exchanged and spread.

```
  group 0: 0 1 2 3 ─► sum on 1 ─┐  ┌─► both add ─► copies to 0 1 2 3
  group 1: 4 5 6 7 ─► sum on 5 ─┴──┴─► both add ─► copies to 4 5 6 7
```
For boxes whose GPUs are closely linked in halves (DGX-1); each gradient meets on another pair of
replicas, in turn.
"""

from collections.abc import Sequence

from scalemark.abilities import AllReduceAbilities, Traffic


def sends(traffic: Traffic, sizes: Sequence[float], num_gpus: int) -> None:
    """Have half of the GPUs send to one of them, exchange between these two, and send back."""
    half = num_gpus // 2
    groups = [range(half), range(half, num_gpus)]
    for index in range(num_gpus):
        owned = sizes[index::num_gpus]
        mains = [group[index % len(group)] for group in groups]
        traffic.copy(mains[0], mains[1], sum(owned), len(owned))
        traffic.copy(mains[1], mains[0], sum(owned), len(owned))
        for main, group in zip(mains, groups, strict=True):
            for gpu in group:
                traffic.copy(gpu, main, sum(owned), len(owned))
                traffic.copy(main, gpu, sum(owned), len(owned))


ABILITIES = AllReduceAbilities(sends=sends)

import tensorflow as tf

from trainer.all_reduces.pscpu import copies_on
from trainer.devices import Devices, on_each


def create(devices: Devices) -> "HierarchicalCopy":
    return HierarchicalCopy(devices)


class HierarchicalCopy:
    reduction_ops = ("AddN",)

    def __init__(self, devices: Devices) -> None:
        self.reduction_devices = devices.replicas

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        half = len(copies) // 2
        groups = [range(half), range(half, len(copies))]
        mains = [self.reduction_devices[group[index % len(group)]] for group in groups]
        of_groups = [copies[:half], copies[half:]]
        with tf.name_scope("reduce"):
            partial = on_each(mains, tf.add_n, of_groups)
            totals = on_each(mains, lambda: tf.add_n(partial))
        sums = []
        for group, total in zip(groups, totals, strict=True):
            sums += copies_on([self.reduction_devices[replica] for replica in group], total)
        return sums
