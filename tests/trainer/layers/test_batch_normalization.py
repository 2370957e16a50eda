"""Fused batch normalization is Keras' own, in one op."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainer.image_layers import FusedBatchNormalization


@pytest.mark.parametrize("training", [True, False])
def test_fused_batch_normalization_equals_keras(all_devices, training):
    keras.mixed_precision.set_global_policy("float32")
    images = np.random.default_rng(1).normal(2.0, 3.0, (8, 5, 5, 7)).astype("float32")
    target = np.random.default_rng(2).normal(size=images.shape).astype("float32")
    ours = FusedBatchNormalization(scale=True, epsilon=1e-3, decay=0.9)
    theirs = keras.layers.BatchNormalization(epsilon=1e-3, momentum=0.9)
    outputs, gradients, statistics = [], [], []
    for layer in (ours, theirs):
        layer.build(images.shape)
        layer.gamma.assign(np.linspace(0.5, 2, 7))
        layer.moving_mean.assign(np.linspace(-1, 1, 7))
        with tf.GradientTape() as tape:
            x = tf.constant(images)
            tape.watch(x)
            y = layer(x, training=training)
            loss = tf.reduce_sum(y * target)
        outputs.append(y)
        gradients.append(tape.gradient(loss, [x, layer.gamma.value, layer.beta.value]))
        statistics.append([np.asarray(layer.moving_mean), np.asarray(layer.moving_variance)])
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-4, atol=1e-4)
    for mine, keras_own in zip(gradients[0], gradients[1], strict=True):
        np.testing.assert_allclose(mine, keras_own, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(statistics[0], statistics[1], rtol=1e-5, atol=1e-5)


def test_batch_normalization_without_scale_has_no_gamma(all_devices):
    layer = FusedBatchNormalization(scale=False, epsilon=1e-3, decay=0.9)
    layer.build((None, 4, 4, 3))
    assert [variable.name for variable in layer.trainable_variables] == ["beta"]


def test_statistics_stay_float32_under_bfloat16(all_devices):
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        layer = FusedBatchNormalization(scale=True, epsilon=1e-3, decay=0.9)
        y = layer(tf.ones((2, 3, 3, 4), tf.bfloat16), training=True)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert y.dtype == tf.bfloat16
    assert {str(variable.dtype) for variable in layer.variables} == {"float32"}


def test_the_op_itself_averages_and_three_more_mend_its_variance(all_devices):
    layer = FusedBatchNormalization(scale=True, epsilon=1e-3, decay=0.9)
    layer.build((8, 5, 5, 7))
    step = tf.function(lambda x: layer(x, training=True)).get_concrete_function(
        tf.TensorSpec((8, 5, 5, 7))
    )
    ops = [op.type for op in step.graph.get_operations()]
    arithmetic = {"Mul", "AddV2", "Sub", "RealDiv", "FloorDiv", "Cast"}
    assert sorted(op for op in ops if op in arithmetic) == ["AddV2", "Mul", "Mul"]
