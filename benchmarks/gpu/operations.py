"""Times one operation of each of CUDA's libraries, on a device and in each of some precisions:
`python -m benchmarks.gpu.operations gpu float32 tf32 float16 bfloat16`.

The smoke stage runs it in a process of its own, and reads its JSON lines: a library that is missing
or broken shows here.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial

import tensorflow as tf

from benchmarks.gpu.found import Number

NUM_CALLS = 10


def operations(device: str, precisions: Sequence[str]) -> Iterator[Callable[[], Number]]:
    """Yield what times an operation: matrix products by their rate, others by their time."""
    size, batch_size = (4096, 64) if device == "gpu" else (512, 2)
    for name in precisions:
        yield partial(_product, name, size)
        yield partial(_convolution, name, batch_size)
        if name != "tf32":  # it multiplies no matrices
            yield partial(_normalization, name, batch_size)
    yield _compiled


def _product(precision: str, size: int) -> Number:
    matrix = _random(precision, (size, size))
    took_s = _seconds(partial(tf.matmul, matrix, matrix))
    rate = 2 * size**3 / took_s / 1e12
    return Number(what=f"matrix product {precision} {size}", value=rate, unit="TFLOP/s")


def _convolution(precision: str, batch_size: int) -> Number:
    kernel = _random(precision, (3, 3, 64, 64))
    took_s = _seconds(partial(tf.nn.conv2d, _images(precision, batch_size), kernel, 1, "SAME"))
    what = f"convolution {precision} batch {batch_size}"
    return Number(what=what, value=1e3 * took_s, unit="ms")


def _normalization(precision: str, batch_size: int) -> Number:
    images, ones, zeros = _images(precision, batch_size), tf.ones(64), tf.zeros(64)
    took_s = _seconds(lambda: tf.compat.v1.nn.fused_batch_norm(images, ones, zeros)[0])
    what = f"normalization {precision} batch {batch_size}"
    return Number(what=what, value=1e3 * took_s, unit="ms")


def _compiled() -> Number:
    total = tf.function(lambda x: tf.reduce_sum(tf.nn.relu(x) * 2), jit_compile=True)
    took_s = _seconds(lambda: total(tf.ones((1024, 1024))))
    return Number(what="sum compiled by XLA", value=1e3 * took_s, unit="ms")


def _images(precision: str, batch_size: int) -> tf.Tensor:
    return _random(precision, (batch_size, 56, 56, 64))


def _random(precision: str, shape: tuple[int, ...]) -> tf.Tensor:
    """Draw numbers. Of float32 products round to TensorFloat-32, as TensorFlow's do by default,
    for `tf32` alone.
    """
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")
    return tf.cast(tf.random.normal(shape), "float32" if precision == "tf32" else precision)


def _seconds(call: Callable[[], tf.Tensor]) -> float:
    """Return the mean time of a call, once all were handed over."""
    call()  # loads the library, and chooses an algorithm
    tf.test.experimental.sync_devices()
    start = time.perf_counter()
    for _ in range(NUM_CALLS):
        call()
    tf.test.experimental.sync_devices()
    return (time.perf_counter() - start) / NUM_CALLS


def main(device: str, *precisions: str) -> int:
    """Print a line for each operation; return 1 where one failed, after the others."""
    tf.config.set_soft_device_placement(False)
    exit_code = 0
    with tf.device(f"{device.upper()}:0"):
        for operation in operations(device, precisions):
            try:
                print(json.dumps(asdict(operation())), flush=True)
            except tf.errors.OpError:  # of this library or precision alone
                traceback.print_exc()
                exit_code = 1
    return exit_code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
