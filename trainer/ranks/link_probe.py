"""Measures the rate of the network between hosts: tensors are copied as training copies them.

```
  worker 0 ══ tensor ══► worker 1, back, worker 2, back, ...     the slowest way counts
```
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from trainer.devices import Devices

LONG_ENOUGH_S = 0.2
IN_ALL_S = 2.0  # about, of copies that are long enough: between many hosts they are shorter
FIRST_BYTES = 512 * 2**10
MOST_BYTES = 32 * 2**20  # of memory, on each host: it counts towards the limit that a trial has
_MOST_GROWTH = 16
_MOST_OTHERS = 20
_ELEMENT_BYTES = 4


def slowest_link(devices: Devices) -> float | None:
    """Measure a trial's slowest link, bytes per second.

    None on one host, and where this process cannot place work on the others.
    """
    hosts = [host.host for host in devices.by_host]
    return link_bytes_per_s(hosts) if len(hosts) > 1 else None


def link_bytes_per_s(hosts: Sequence[str], clock: Callable[[], float] = time.monotonic) -> float:
    """Return the slowest rate between the first of these devices and each other, either way.

    The first copy uses up what a limited link lets through after a rest (256 kB of a token bucket).
    The others grow until one takes LONG_ENOUGH_S or is of MOST_BYTES; of that one and as many like
    it the fastest counts, because neighbors may slow some. `hosts` are CPU devices, at least two.
    """
    if len(hosts) < 2:
        raise ValueError(f"wanted a device of each of two hosts or more, found {list(hosts)}")
    pairs = list(ways(hosts))
    long_enough_s = min(LONG_ENOUGH_S, IN_ALL_S / (2 * len(pairs)))
    return min(rate(_copier(source, target), long_enough_s, clock) for source, target in pairs)


def ways(hosts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield from and to."""
    here, *others = hosts
    for other in others:
        yield here, other
        yield other, here


def rate(
    copy: Callable[[tf.Tensor], tf.Tensor], long_enough_s: float, clock: Callable[[], float]
) -> float:
    """Measure one way; `copy` is called with a number of float32 elements."""
    _seconds(copy, FIRST_BYTES, clock)  # traced, connected, and no longer at rest
    num_bytes = FIRST_BYTES
    while (took_s := _seconds(copy, num_bytes, clock)) < long_enough_s and num_bytes < MOST_BYTES:
        growth = 1.25 * long_enough_s / max(took_s, 1e-9)
        num_bytes = min(MOST_BYTES, round(num_bytes * min(max(growth, 1.25), _MOST_GROWTH)))
    num_others = math.ceil(long_enough_s / max(took_s, long_enough_s / _MOST_OTHERS))
    return num_bytes / min(took_s, *(_seconds(copy, num_bytes, clock) for _ in range(num_others)))


def _copier(source: str, target: str) -> Callable[[tf.Tensor], tf.Tensor]:
    """Make a function of the number of elements, which is unknown before it runs."""

    @tf.function(input_signature=[tf.TensorSpec([], tf.int32)])
    def copy(num_elements: tf.Tensor) -> tf.Tensor:
        with tf.device(source):
            sent = tf.fill([num_elements], tf.cast(num_elements, tf.float32))
        with tf.device(target):
            return tf.gather(tf.identity(sent), num_elements - 1)

    return copy


def _seconds(
    copy: Callable[[tf.Tensor], tf.Tensor], num_bytes: int, clock: Callable[[], float]
) -> float:
    num_elements = tf.constant(max(1, num_bytes // _ELEMENT_BYTES))
    start = clock()
    float(copy(num_elements))
    return clock() - start
