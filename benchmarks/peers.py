"""The loops a user would write by hand with Keras 3 and TensorFlow, around the models of
scalemark/models/.

Parameters, initial weights, batches and update rule are those of the trainer, so that losses agree
step by step. Weight decay is left out on both sides, because every way of writing it costs
differently.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import SupportsFloat

import keras
import numpy as np
import tensorflow as tf

from benchmarks import keras_layers
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from trainer import UnsupportedTrialError, keras_model
from trainer.data import synthetic
from trainer.devices import Devices
from trainer.keras_model import cross_entropy, definition
from trainer.run import prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """Something that can be trained step by step."""

    # takes one step of all replicas, returns the mean loss; may return before the step is done
    step: Callable[[], SupportsFloat]
    num_parameters: int


def one_replica(spec: TrialSpec) -> Loop:
    """A Keras model of plain layers, a GradientTape and Keras' SGD in one tf.function."""
    keras_layers.use()
    model, optimizer = _model(spec), _optimizer(spec)
    ((images, labels),) = _batches(spec, device_names(spec))

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            loss = cross_entropy(labels, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return Loop(step=lambda: step(images, labels), num_parameters=_num_parameters(model))


def fit(spec: TrialSpec) -> Loop:
    """Keras' own train step, compiled by XLA as `compile` and `fit` do by default, on a batch that
    stays on the device.

    The loss that it returns is the mean over all steps so far. Raises UnsupportedTrialError where
    TensorFlow would silently take the CPU for a GPU.
    """
    seen = tf.config.list_physical_devices("GPU")
    if spec.device_kind == DeviceKind.GPU and len(seen) < spec.num_gpus:
        raise UnsupportedTrialError(f"TensorFlow sees {len(seen)} GPUs, wanted {spec.num_gpus}")
    prepare(spec)
    keras_layers.use()
    model = _model(spec)
    model.compile(_optimizer(spec), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.optimizer.build(model.trainable_variables)
    (batch,) = _batches(spec, device_names(spec))
    step = tf.function(model.train_step, jit_compile=model.jit_compile)
    return Loop(step=lambda: step(batch)["loss"], num_parameters=_num_parameters(model))


def mirrored(spec: TrialSpec) -> Loop:
    """MirroredStrategy with a custom training loop, plain layers and default options: TensorFlow's
    tutorial.
    """
    keras_layers.use()
    return _mirrored(spec, None)


def mirrored_fused(spec: TrialSpec) -> Loop:
    """MirroredStrategy at its best: our normalization, and of its cross-device ops those that cost
    least.

    CPU ms a step of ResNet-50 (64 px, batch 4) on 2 and 8 replicas of a quiet 2-core machine:
    default 475 and 2010, reduction to one device 415 and 1866, hierarchical copy 456 and 1882, the
    same without packing 416 and 1656.
    """
    return _mirrored(spec, tf.distribute.HierarchicalCopyAllReduce(num_packs=0))


def _mirrored(spec: TrialSpec, cross_device_ops: tf.distribute.CrossDeviceOps | None) -> Loop:
    """Keras' SGD sums the replicas' gradients in `apply_gradients`, so every loss is divided by the
    global batch.

    Statistics of the normalization stay with their replica, as ours do. Unless the optimizer is
    built beforehand, the first call fails with `must feed a value for placeholder tensor
    'cond/...'`: variables cannot be made inside `strategy.run`.
    """
    names = device_names(spec)
    if spec.device_kind == DeviceKind.CPU_DEVICE:
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * spec.num_gpus
        )
    strategy = tf.distribute.MirroredStrategy(names, cross_device_ops=cross_device_ops)
    with strategy.scope():
        model, optimizer = _model(spec), _optimizer(spec)
        optimizer.build(model.trainable_variables)
    images, labels = (
        strategy.experimental_distribute_values_from_function(
            lambda context, of=of: of[context.replica_id_in_sync_group]
        )
        for of in zip(*_batches(spec, names), strict=True)
    )

    def replica_step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = cross_entropy(labels, model(images, training=True)) / spec.num_gpus
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    @tf.function
    def step(
        images: tf.distribute.DistributedValues, labels: tf.distribute.DistributedValues
    ) -> tf.Tensor:
        return strategy.reduce(
            tf.distribute.ReduceOp.SUM, strategy.run(replica_step, args=(images, labels)), axis=None
        )

    return Loop(step=lambda: step(images, labels), num_parameters=_num_parameters(model))


def device_names(spec: TrialSpec) -> list[str]:
    """Return the name of each replica's device."""
    kind = "GPU" if spec.device_kind == DeviceKind.GPU else "CPU"
    return [f"{kind}:{replica}" for replica in range(spec.num_gpus)]


def _model(spec: TrialSpec) -> keras.Model:
    keras.utils.set_random_seed(spec.seed)
    return keras_model.build(definition(spec))


def _optimizer(spec: TrialSpec) -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(spec.learning_rate, momentum=spec.momentum)


def _batches(spec: TrialSpec, names: list[str]) -> list[tuple[tf.Tensor, tf.Tensor]]:
    return synthetic.open_input(
        spec, Devices(kind=DeviceKind(spec.device_kind), host="CPU:0", replicas=tuple(names))
    ).next()


def _num_parameters(model: keras.Model) -> int:
    return sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
