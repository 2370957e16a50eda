"""Measures the peak of a device: the largest rate of a matrix product that TensorFlow reaches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import tensorflow as tf

from scalemark.records.devices import DeviceKind
from trainer import devices as devices_of
from trainer.devices import Devices

# Square matrices. On CPU devices small ones that stay in the caches are the fastest, on GPUs large
# ones. Three of the largest take 192 MiB of a host's memory in float32, 3 GiB of a GPU's.
SIZES = (512, 1024, 2048, 4096, 8192, 16384)
LARGEST = {DeviceKind.CPU_DEVICE: 4096, DeviceKind.GPU: 16384}
LONG_S = 0.1  # a product of a size that takes longer is the last: larger ones are no faster
TURN_S = 0.02  # of products between two looks at the clock
SIZE_S = 0.25  # of turns, for each size
_BLOCK = 512  # of random numbers, which are repeated: zeros would heat no device


def peak_flops_per_s(
    devices: Devices,
    dtype: tf.DType,
    num_at_once: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> float | None:
    """Return the rate of the fastest turn of products of `dtype` on the first own replica's device.

    TensorFlow's switches, as TensorFloat-32, are those of the trial in this process. CPU devices
    share the cores, so that theirs is the peak of all cores together: where `num_intra_threads`
    keeps a product from using all of them, `num_at_once` products run side by side. None where one
    finds no room in the device's memory: the smaller ones do not reach the peak.
    """
    device = devices.own_replicas[0]
    alone = replace(devices, replicas=(device,))
    rates: list[float] = []
    for size in SIZES:
        if size > LARGEST[devices.kind]:
            break
        try:
            with tf.device(device):
                multiply = _products(size, dtype, num_at_once)
                rate, took_s = _fastest(multiply, lambda: devices_of.synchronize(alone), clock)
        except tf.errors.ResourceExhaustedError:  # the model's variables are still there
            return None
        rates.append(num_at_once * 2 * size**3 * rate)
        if took_s > LONG_S:
            break
    return max(rates, default=None)


def _products(size: int, dtype: tf.DType, num_at_once: int) -> Callable[[], object]:
    block = tf.random.stateless_normal((_BLOCK, _BLOCK), (1, size))
    right = tf.cast(tf.tile(block, (size // _BLOCK, size // _BLOCK)), dtype)
    if num_at_once == 1:
        return lambda: tf.linalg.matmul(right, right)
    # different ones, because TensorFlow computes equal products once
    lefts = [right * tf.cast(number, dtype) for number in range(1, num_at_once + 1)]

    @tf.function(autograph=False, jit_compile=False)
    def side_by_side(lefts: Sequence[tf.Tensor], right: tf.Tensor) -> list[tf.Tensor]:
        return [tf.linalg.matmul(left, right)[0, 0] for left in lefts]

    return lambda: side_by_side(lefts, right)


def _fastest(
    multiply: Callable[[], object], wait: Callable[[], None], clock: Callable[[], float]
) -> tuple[float, float]:
    """Return the most calls per second of any turn, and the seconds of a call in it."""

    def turn(num_calls: int) -> float:
        wait()
        start_s = clock()
        for _ in range(num_calls):
            multiply()
        wait()
        return max(clock() - start_s, 1e-9)

    turn(1)  # the library chooses its way
    num_calls = math.ceil(TURN_S / turn(1))
    turns_s = [turn(num_calls)]
    while sum(turns_s) < SIZE_S:
        turns_s.append(turn(num_calls))
    shortest_s = min(turns_s)
    return num_calls / shortest_s, shortest_s / num_calls
