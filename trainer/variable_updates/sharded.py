"""Every replica keeps and updates an equal shard of all variables and of the optimizer's state.

The elements of all variables stand in a row, which is cut into as many shards as replicas:

```
  GPU 0: shard 0 ─┐         ┌─► weights ─► gradients ─┐                ┌─► shard 0: sum, update
                  ├─ gather ┤                         ├─ reduce-scatter┤
  GPU 1: shard 1 ─┘         └─► weights ─► gradients ─┘                └─► shard 1: sum, update
```
Weights are gathered when a step begins, and held while its towers compute: between steps a replica
holds its shard alone. (ZeRO stage 1, Rajbhandari et al. 2020, shards the optimizer's state alone.)
A replica sends and receives as much as in an all-reduce. parameter_server with
local_parameter_device=gpu shards whole variables; here a large one is cut.

`all_reduce=none` sums by plain adds and gathers by copies; whole variables stay whole. nccl and
ring are TensorFlow's collectives, which want shards of equal size: see
`trainer/collectives.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from scalemark.abilities import Sends, VariableUpdateAbilities

ABILITIES = VariableUpdateAbilities(
    local_parameter_devices=("gpu",),
    all_reduces=("none", "nccl", "ring"),
    why="each GPU keeps one shard of the variables, and gradients are summed at their shard",
    sends=Sends.REDUCE_SCATTER,
    in_your_code={"": "fully_shard (FSDP) of PyTorch; nothing in tf.distribute"},
    repacks_with=("none", "nccl", "ring"),
    compacts=True,
    least_replicas=2,
)

import numpy as np
import tensorflow as tf

from scalemark.records.trial import TrialSpec
from trainer import collectives, towers
from trainer.collectives import EqualShards, GradientPacks, Piece, RowExchange, parts_of
from trainer.devices import Devices, on_each
from trainer.model_tower import Batch, read_where_it_is
from trainer.towers import Optimizer, Placed, Tower, TowerResult, VariableUpdate

_EXCHANGES: dict[str, Callable[[Devices], RowExchange]] = {
    "nccl": collectives.nccl,
    "ring": collectives.ring,
}


def create(
    spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
) -> VariableUpdate:
    """Raise UnsupportedTrialError without GPUs for nccl."""
    create_exchange = _EXCHANGES.get(spec.all_reduce)
    if create_exchange:
        return EqualShards(spec, initial, devices, optimizer, create_exchange(devices))
    return Sharded(spec, initial, devices, optimizer)


class Sharded:
    inlines_towers = False
    reduction_ops: tuple[str, ...] = ("AddN",)

    def __init__(
        self, spec: TrialSpec, initial: Sequence[np.ndarray], devices: Devices, optimizer: Optimizer
    ) -> None:
        """Fewer elements than replicas leave some without a shard."""
        self._devices, self._shapes = devices, [value.shape for value in initial]
        self._shards = []
        shards = collectives.cuts([value.size for value in initial], len(devices.replicas))
        for owner, pieces in zip(devices.replicas, shards, strict=False):
            packs = GradientPacks(_AtOwner(owner), spec.gradient_repacking, spec.compact_gradients)
            self._shards.append(_Shard.create(initial, owner, pieces, packs, optimizer))
        self.num_summed = len(devices.replicas)
        self.update_devices = tuple(shard.owner for shard in self._shards)
        self.reduction_devices = self.update_devices

    def run_towers(self, tower: Tower, batches: Sequence[Batch]) -> list[TowerResult]:
        parts: list[list[tf.Tensor]] = [[] for _ in self._shapes]
        for shard in self._shards:
            for piece, placed in zip(shard.pieces, shard.placed, strict=True):
                parts[piece.tensor].append(read_where_it_is(placed.variable))

        def gathered() -> list[tf.Tensor]:
            """Return all variables; only those that are cut are copied once more."""
            return [
                tf.reshape(collectives.whole_of(own), shape)
                for own, shape in zip(parts, self._shapes, strict=True)
            ]

        with tf.name_scope("gather"):
            weights = on_each(self._devices.replicas, gathered)
        return towers.run_explicit_towers(tower, batches, weights, self._devices)

    def reduce(self, gradients: Sequence[Sequence[tf.Tensor]]) -> list[tuple[Placed, tf.Tensor]]:
        updates: list[tuple[Placed, tf.Tensor]] = []
        for shard in self._shards:
            updates += zip(shard.placed, shard.sums(gradients, self._devices.replicas), strict=True)
        return updates

    def weights(self, replica: int) -> list[np.ndarray]:
        """Return the same for every replica, put together from all shards."""
        parts: list[list[np.ndarray]] = [[] for _ in self._shapes]
        for shard in self._shards:
            for piece, placed in zip(shard.pieces, shard.placed, strict=True):
                parts[piece.tensor].append(placed.variable.numpy())
        return [
            np.concatenate(own).reshape(shape)
            for own, shape in zip(parts, self._shapes, strict=True)
        ]

    def placed(self) -> Iterator[Placed]:
        for shard in self._shards:
            yield from shard.placed


@dataclass(frozen=True, slots=True)
class _Shard:
    """What one replica owns: pieces of variables, each flat and with its optimizer slots."""

    owner: str
    pieces: Sequence[Piece]
    placed: Sequence[Placed]  # one per piece
    packs: GradientPacks

    @classmethod
    def create(
        cls,
        initial: Sequence[np.ndarray],
        owner: str,
        pieces: Sequence[Piece],
        packs: GradientPacks,
        optimizer: Optimizer,
    ) -> "_Shard":
        placed = []
        for piece in pieces:
            value = initial[piece.tensor].reshape(-1)[piece.begin : piece.end]
            placed.append(Placed.create(value, owner, optimizer))
        return cls(owner, pieces, placed, packs)

    def sums(
        self, gradients: Sequence[Sequence[tf.Tensor]], replicas: Sequence[str]
    ) -> list[tf.Tensor]:
        """gradients[replica][variable] in, the sum of each piece out, at the owner."""
        parts = on_each(replicas, partial(parts_of, pieces=self.pieces), gradients)
        (sums,) = self.packs.sum(parts, replicas, receivers=(self.owner,))
        return sums


class _AtOwner:
    """Sums all messages on one device, where they stay."""

    reduction_ops = Sharded.reduction_ops

    def __init__(self, owner: str) -> None:
        self.reduction_devices: tuple[str, ...] = (owner,)

    def sum(self, copies: Sequence[tf.Tensor], index: int) -> list[tf.Tensor]:
        with tf.device(self.reduction_devices[0]), tf.name_scope("reduce"):
            return [tf.add_n(copies)]
