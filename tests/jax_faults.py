"""A program of JAX that trains on made-up numbers, and is slowed by one fault."""

import argparse
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="none")
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--steps", type=int, default=40)
options = parser.parse_args()
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={options.devices}"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

sharded = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec("data"))
size = 4 if options.fault in ("eager", "tiny") else 512
batch = np.random.default_rng(0).random((size * options.devices, 512), np.float32)
weights = [
    jax.random.normal(key, (512, 512)) / 16 for key in jax.random.split(jax.random.key(0), 3)
]


def batches():
    while True:
        if options.fault == "input":
            time.sleep(0.1)
        yield batch


def loss_of(weights, samples):
    for weight in weights:
        samples = jnp.tanh(samples @ weight)
    return jnp.mean(samples**2)


def step(weights, samples):
    loss, gradients = jax.value_and_grad(loss_of)(weights, samples)
    return [
        weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)
    ], loss


if options.fault != "eager":
    step = jax.jit(step)
data = batches()
if options.fault == "input":
    import tensorflow as tf

    kind = tf.TensorSpec(batch.shape)
    data = tf.data.Dataset.from_generator(batches, output_signature=kind).as_numpy_iterator()
begin = time.perf_counter()
first_s = None
number = 0
while number < options.steps or begin < first_s + 2:  # else a busy machine reads all at once
    number += 1
    weights, loss = step(weights, jax.device_put(next(data), sharded))
    if options.fault == "beside":  # while the devices compute
        time.sleep(0.005)
    loss = float(loss)
    if options.fault == "sleep":
        time.sleep(0.1)
    if options.fault == "python":
        sum(range(5_000_000))
    now = time.perf_counter()
    print(f"step {number} loss {loss:.5f} samples/s {len(batch) / (now - begin):.1f}", flush=True)
    begin = now
    first_s = first_s or now
