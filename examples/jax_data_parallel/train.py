"""Trains a small network by data parallelism over N devices; without GPUs, over N CPU devices."""

import argparse
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--batch", type=int, default=64, help="samples per device")
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--steps", type=int, default=10000)
options = parser.parse_args()
flags = os.environ.get("XLA_FLAGS", "")
os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={options.devices}"

import jax  # it reads XLA_FLAGS when it is imported
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

mesh = Mesh(jax.devices()[: options.devices], ("data",))
sharded = NamedSharding(mesh, PartitionSpec("data"))
replicated = NamedSharding(mesh, PartitionSpec())

keys = jax.random.split(jax.random.key(0), 3)
weights = [jax.random.normal(key, (options.width, options.width)) / 16 for key in keys]
weights = jax.device_put(weights, replicated)
samples = jax.device_put(
    jax.random.normal(keys[0], (options.batch * options.devices, options.width)), sharded
)


def loss_of(weights, samples):
    for weight in weights:
        samples = jnp.tanh(samples @ weight)
    return jnp.mean(samples**2)


@jax.jit
def step(weights, samples):
    loss, gradients = jax.value_and_grad(loss_of)(weights, samples)
    updated = [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)]
    return updated, loss


start = time.perf_counter()
for number in range(1, options.steps + 1):
    weights, loss = step(weights, samples)
    loss.block_until_ready()
    now = time.perf_counter()
    rate = options.batch * options.devices / (now - start)
    print(f"step {number} loss {loss:.5f} samples/s {rate:.1f}", flush=True)
    start = now
