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

from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import ReplicaTimes
from trainer.devices import Devices, short_name
from trainer.towers import Batch, Towers

WARM_UP_ROUNDS = 3  # the first compiles
LEAST_ROUNDS, MOST_ROUNDS = 24, 48
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
    seconds: list[list[float]] = [[] for _ in calls]
    draw = np.random.default_rng(len(calls))
    with ThreadPoolExecutor(len(calls) if at_once else 1) as threads:
        begin = clock()
        for number in range(WARM_UP_ROUNDS + MOST_ROUNDS):
            if number == WARM_UP_ROUNDS:
                begin = clock()
            if number >= WARM_UP_ROUNDS + LEAST_ROUNDS and clock() - begin > LONG_S:
                break
            order = draw.permutation(len(calls)).tolist()
            took_s = threads.map(lambda place: calls[place](), order)
            for place, one_s in zip(order, took_s, strict=True):
                if number >= WARM_UP_ROUNDS:
                    seconds[place].append(_rounded(one_s))
    names = map(short_name, devices.replicas)
    return ReplicaTimes(
        at_once=at_once,
        seconds={name: tuple(rounds) for name, rounds in zip(names, seconds, strict=True)},
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
