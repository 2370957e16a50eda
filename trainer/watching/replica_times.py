"""Times each replica's own compute after the measurement: in a step all wait for the slowest.

```
  GPUs, each from its own thread          CPU devices, which share the cores, in an order that
  GPU 0  forward, backward |  ...         is drawn anew in each round
  GPU 1  forward, backw|      ...         CPU 1 |-----|       CPU 2 |-----|  CPU 1       |-----|
         ----- a round -----
```
Nothing is reduced or updated. GPUs work at once, as in training, because heat and power that they
share slow them then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import ReplicaTimes
from trainer.devices import Devices, short_name
from trainer.step import Batch
from trainer.towers import Towers

WARM_UP_ROUNDS = 3  # the first compiles
LEAST_ROUNDS, MOST_ROUNDS = 24, 128
LONG_S = 10.0  # after so long the least number of rounds is enough
DIGITS = 5  # of a time
LEAST_S = 1e-6


def time_replicas(
    towers: Towers,
    weights: Sequence[tf.Tensor],
    batches: Sequence[Batch],
    devices: Devices,
    clock: Callable[[], float] = time.perf_counter,
) -> ReplicaTimes:
    """Return the times of all replicas that this process drives, given the weights and the batch of
    each for one step. Raises what TensorFlow raises, as for a device without room for its copy of
    the weights.
    """
    calls = [_call(towers, *one, weights) for one in enumerate(batches)]
    at_once = devices.kind is DeviceKind.GPU and not devices.shared
    draw = np.random.default_rng(len(calls))
    rounds: list[list[float]] = []
    with ThreadPoolExecutor(len(calls) if at_once else 1) as threads:

        def take_round() -> list[float]:
            order = draw.permutation(len(calls)).tolist()
            took_s = threads.map(lambda place: _rounded(calls[place]()), order)
            of_place = dict(zip(order, took_s, strict=True))
            return [of_place[place] for place in range(len(calls))]

        for _ in range(WARM_UP_ROUNDS):
            take_round()
        begin = clock()
        while len(rounds) < MOST_ROUNDS and (
            len(rounds) < LEAST_ROUNDS or clock() - begin <= LONG_S
        ):
            rounds.append(take_round())
    names = map(short_name, devices.replicas)
    return ReplicaTimes(
        at_once=at_once, seconds=dict(zip(names, zip(*rounds, strict=True), strict=True))
    )


def _call(
    towers: Towers, replica: int, batch: Batch, weights: Sequence[tf.Tensor]
) -> Callable[[], float]:
    compute = towers.own_compute(replica)
    with tf.device(batch[0].device):
        own = [tf.identity(weight) for weight in weights]
    return lambda: float(compute(own, batch)[0])


def _rounded(seconds: float) -> float:
    """Return what is kept of a time; more than 0, as the host's clock may be set back."""
    return float(f"{max(seconds, LEAST_S):.{DIGITS}g}")
