"""A program of Keras that trains by `fit` on made-up numbers, and is slowed by one fault."""

import argparse
import time

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--fault", default="none")
parser.add_argument("--devices", type=int, default=1)
parser.add_argument("--steps", type=int, default=40)
options = parser.parse_args()
(cpu,) = tf.config.list_physical_devices("CPU")
configurations = [tf.config.LogicalDeviceConfiguration()] * options.devices
tf.config.set_logical_device_configuration(cpu, configurations)
strategy = tf.distribute.get_strategy()
if options.devices > 1:
    devices = [f"/CPU:{number}" for number in range(options.devices)]
    strategy = tf.distribute.MirroredStrategy(devices)
size = 4 if options.fault in ("eager", "tiny") else 512
batch = np.random.default_rng(0).random((size * options.devices, 256), np.float32)


class Slow(tf.keras.callbacks.Callback):
    """Takes long after each step."""

    def on_train_batch_end(self, _step, logs):
        if options.fault == "sleep":
            time.sleep(0.1)
        if options.fault == "python":
            sum(range(5_000_000))


def batches():
    while True:
        if options.fault == "input":
            time.sleep(0.1)
        yield batch, batch[:, :1]


def slowly(x, y):
    time.sleep(0.1)
    return x, y


with strategy.scope():
    layers = [tf.keras.layers.Dense(512, activation="relu") for _ in range(3)]
    model = tf.keras.Sequential([tf.keras.layers.Input((256,)), *layers, tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=options.fault == "eager")
kinds = [tf.TensorSpec(batch.shape), tf.TensorSpec((len(batch), 1))]
data = tf.data.Dataset.from_generator(batches, output_signature=tuple(kinds))
if options.fault == "map":
    data = data.map(lambda x, y: tf.numpy_function(slowly, (x, y), (tf.float32, tf.float32)))
    data = data.map(lambda x, y: (tf.ensure_shape(x, batch.shape), tf.ensure_shape(y, (None, 1))))
data = data.prefetch(2)
model.fit(data, steps_per_epoch=options.steps, callbacks=[Slow()])
