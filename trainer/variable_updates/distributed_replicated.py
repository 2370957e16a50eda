"""Every replica owns a copy of all variables; parameter servers apply gradients to master copies.

```
  host 0: replicas ─► gradients ─► all-reduce per host ─┐                   ┌─► copies of replicas
  host 1: replicas ─► gradients ─► all-reduce per host ─┴─► ps: sum, apply ─┴─► CPUs of hosts
```
tf_cnn_benchmarks' distributed_replicated: the forward pass waits for no network. `all_reduce` is
the way within each host. A sum of gradients and the new weights cross the network once per host.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from scalemark.abilities import ALL_REDUCES, Sends, VariableUpdateAbilities, preferring

_WITHIN_HOSTS = [name for name, abilities in ALL_REDUCES.items() if abilities.within_hosts]
ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("cpu",),
    all_reduces=preferring(("none", "nccl"), _WITHIN_HOSTS),
    why="each host sums its own gradients, and parameter servers apply them to the master copies",
    sends=Sends.UNKNOWN,
    rank_jobs=("worker", "ps"),
)

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer import towers
from trainer.collectives import GradientPacks
from trainer.devices import Devices, on_each
from trainer.model_tower import Batch, read_where_it_is
from trainer.towers import Optimizer, Placed, Tower, TowerResult, load, run_explicit_towers


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
) -> "DistributedReplicated":
    """Raise UnsupportedTrialError without parameter servers, or without GPUs for nccl."""
    owners = towers.owners(spec, initial, devices)
    create_all_reduce = load("all_reduces", spec.all_reduce).create
    packs = [
        GradientPacks(create_all_reduce(host), num_packs=0, compact=False)
        for host in devices.by_host
    ]
    return DistributedReplicated(initial, owners, devices, optimizer, packs)


@dataclass(frozen=True, slots=True)
class Master(Placed):
    """A variable on a parameter server, and its copies on the replicas of each host."""

    hosts: Sequence[Devices]
    copies: Sequence[Sequence[tf.Variable]]  # copies[host][replica of the host]

    @property
    def variables(self) -> Sequence[tf.Variable]:
        return (self.variable, *chain.from_iterable(self.copies))

    def apply(self, gradient: tf.Tensor, optimizer: Optimizer) -> None:
        """Update in place, then copy to all replicas."""
        Placed.apply(self, gradient, optimizer)
        values = towers.on_hosts(self.variable, self.hosts)
        for value, copies in zip(values, self.copies, strict=True):
            for copy in copies:
                with tf.device(copy.device):
                    copy.assign(tf.identity(value), read_value=False)


class DistributedReplicated:
    inlines_towers = False

    def __init__(
        self,
        initial: Sequence[np.ndarray],
        owners: Sequence[str],
        devices: Devices,
        optimizer: Optimizer,
        packs: Sequence[GradientPacks],
    ) -> None:
        """`packs`: one per host."""
        self._devices, self._hosts, self._packs = devices, devices.by_host, packs
        self._masters = [
            self._master(value, owner, optimizer)
            for value, owner in zip(initial, owners, strict=True)
        ]
        self.num_summed = len(devices.replicas)
        self.update_devices = tuple(dict.fromkeys(owners))
        self.reduction_devices: tuple[str, ...] = ()
        ops: tuple[str, ...] = ()
        if len(self._hosts[0].replicas) > 1:  # summed within hosts
            for of_host in packs:
                self.reduction_devices += of_host.all_reduce.reduction_devices
                ops += of_host.all_reduce.reduction_ops
        if len(self._hosts) > 1:  # and across them
            self.reduction_devices += self.update_devices
            ops += ("AddN",)
        self.reduction_ops = tuple(dict.fromkeys(ops))

    def _master(self, value: np.ndarray, owner: str, optimizer: Optimizer) -> Master:
        placed = Placed.create(value, owner, optimizer)
        copies = []
        for host in self._hosts:
            copies.append(on_each(host.replicas, lambda: tf.Variable(value, dtype=tf.float32)))
        return Master(placed.variable, placed.slots, self._hosts, copies)

    def run_towers(self, tower: Tower, batches: Sequence[Batch]) -> list[TowerResult]:
        weights = [list(map(read_where_it_is, copies)) for copies in self._copies()]
        return run_explicit_towers(tower, batches, weights, self._devices)

    def reduce(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[tuple[Placed, tf.Tensor]]:
        by_host = zip(self._hosts, self._packs, self._devices.split_by_host(gradients), strict=True)
        sums = []
        for host, packs, own in by_host:
            of_replicas = packs.sum(own, host.replicas) if len(own) > 1 else own
            sums.append(of_replicas[0])  # all replicas of a host have its sum: the first sends it
        updates: list[tuple[Placed, tf.Tensor]] = []
        for master, of_hosts in zip(self._masters, zip(*sums, strict=True), strict=True):
            updates.append((master, towers.met_on(master.variable.device, of_hosts)))
        return updates

    def weights(self, replica: int) -> list[np.ndarray]:
        return [variable.numpy() for variable in self._copies()[replica]]

    def placed(self) -> Iterator[Placed]:
        return iter(self._masters)

    def _copies(self) -> list[list[tf.Variable]]:
        """Return copies[replica][variable]."""
        by_master = [list(chain.from_iterable(master.copies)) for master in self._masters]
        return [list(of_replica) for of_replica in zip(*by_master, strict=True)]
