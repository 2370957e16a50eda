"""Times one operation of each of CUDA's libraries: `python -m benchmarks.gpu.operations gpu|cpu`.

The smoke stage runs it in a process of its own, and reads its JSON lines: a library that is missing
or broken shows here.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial

import tensorflow as tf

from benchmarks.gpu.found import Number

NUM_CALLS = 10


def operations(device: str, precisions: list[str]) -> Iterator[Number]:
    """Yield the rate of matrix products and the time of other operations, by precision."""
    size, batch_size = (4096, 64) if device == "gpu" else (512, 2)
    for name in precisions:
        dtype = tf.dtypes.as_dtype(name)
        matrix = tf.cast(tf.random.normal((size, size)), dtype)
        took_s = _seconds(partial(tf.matmul, matrix, matrix))
        rate = 2 * size**3 / took_s / 1e12
        yield Number(what=f"matrix product {name} {size}", value=rate, unit="TFLOP/s")
        images = tf.cast(tf.random.normal((batch_size, 56, 56, 64)), dtype)
        kernel = tf.cast(tf.random.normal((3, 3, 64, 64)), dtype)
        took_s = _seconds(partial(tf.nn.conv2d, images, kernel, 1, "SAME"))
        yield Number(what=f"convolution {name} batch {batch_size}", value=1e3 * took_s, unit="ms")
        took_s = _seconds(partial(_normalized, images))
        yield Number(what=f"normalization {name} batch {batch_size}", value=1e3 * took_s, unit="ms")
    compiled = tf.function(lambda x: tf.reduce_sum(tf.nn.relu(x) * 2), jit_compile=True)
    took_s = _seconds(lambda: compiled(tf.ones((1024, 1024))))
    yield Number(what="sum compiled by XLA", value=1e3 * took_s, unit="ms")


def _normalized(images: tf.Tensor) -> tf.Tensor:
    return tf.compat.v1.nn.fused_batch_norm(images, tf.ones(64), tf.zeros(64))[0]


def _seconds(call: Callable[[], tf.Tensor]) -> float:
    """Return the mean time of a call, once all were handed over."""
    call()  # loads the library, and chooses an algorithm
    tf.test.experimental.sync_devices()
    start = time.perf_counter()
    for _ in range(NUM_CALLS):
        call()
    tf.test.experimental.sync_devices()
    return (time.perf_counter() - start) / NUM_CALLS


def main(device: str) -> None:
    tf.config.set_soft_device_placement(False)
    precisions = ["float32", "float16", "bfloat16"] if device == "gpu" else ["float32", "bfloat16"]
    with tf.device(f"{device.upper()}:0"):
        for number in operations(device, precisions):
            print(json.dumps(asdict(number)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
