"""Trains a small Keras model by `fit` under MirroredStrategy, as many programs do."""

import argparse

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--replicas", type=int, default=1)
parser.add_argument("--batch", type=int, default=32, help="images per replica")
parser.add_argument("--steps", type=int, default=300)
parser.add_argument("--optimizer", default="sgd")
options = parser.parse_args()

gpus = tf.config.list_physical_devices("GPU")
if not gpus:  # as many logical CPU devices
    (cpu,) = tf.config.list_physical_devices("CPU")
    configurations = [tf.config.LogicalDeviceConfiguration()] * options.replicas
    tf.config.set_logical_device_configuration(cpu, configurations)
kind = "GPU" if gpus else "CPU"
strategy = tf.distribute.MirroredStrategy(
    [f"/{kind}:{number}" for number in range(options.replicas)]
)

with strategy.scope():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((32, 32, 3)),
            tf.keras.layers.Conv2D(16, 3, activation="relu"),
            tf.keras.layers.GlobalAveragePooling2D(),
            tf.keras.layers.Dense(10),
        ]
    )
    model.compile(options.optimizer, tf.keras.losses.SparseCategoricalCrossentropy(True))

global_batch = options.batch * options.replicas
images = np.random.default_rng(0).random((global_batch, 32, 32, 3), np.float32)
labels = np.zeros(global_batch, np.int64)
data = tf.data.Dataset.from_tensors((images, labels)).repeat()
model.fit(data, steps_per_epoch=options.steps, epochs=1, verbose=1)
