"""Layers of transformers are what Keras' own are, and what their papers say."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from scalemark import layers as nn
from trainer import keras_model
from trainer import sequence_layers as sequences
from trainer.sequence_layers import Attention, Dropout, LayerNormalization, gelu


def drawn(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(1.0, 2.0, shape).astype("float32")


def output_and_gradients(layer, x: np.ndarray, *weights: tf.Tensor):
    with tf.GradientTape() as tape:
        inputs = tf.constant(x)
        tape.watch(inputs)
        outputs = layer(inputs)
        loss = tf.reduce_sum(outputs * drawn(*outputs.shape, seed=2))
    return [outputs, *tape.gradient(loss, [inputs, *weights])]


def assert_close(ours, theirs):
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-5)


def test_layer_normalization_equals_keras(all_devices):
    found = []
    for layer in (LayerNormalization(1e-5), keras.layers.LayerNormalization(epsilon=1e-5)):
        layer.build((2, 3, 8))
        layer.gamma.assign(np.linspace(0.5, 2, 8))
        layer.beta.assign(np.linspace(-1, 1, 8))
        weights = layer.gamma.value, layer.beta.value
        found.append(output_and_gradients(layer, drawn(2, 3, 8), *weights))
    assert_close(*found)


def test_gelu_equals_tensorflows_exact_one(all_devices):
    x = drawn(3, 5)
    assert_close(
        output_and_gradients(gelu, x),
        output_and_gradients(lambda inputs: tf.nn.gelu(inputs, approximate=False), x),
    )


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_equals_keras(all_devices, is_causal):

    def theirs(x: tf.Tensor) -> tf.Tensor:
        parts = [tf.reshape(part, (2, 5, 2, 4)) for part in tf.split(x, 3, -1)]
        heads = keras.ops.dot_product_attention(*parts, is_causal=is_causal)
        return tf.reshape(heads, (2, 5, 8))

    x = drawn(2, 5, 24)
    ours = Attention(2, is_causal=is_causal, dropout_rate=0.0)
    assert_close(output_and_gradients(ours, x), output_and_gradients(theirs, x))


def test_a_causal_model_does_not_see_later_tokens(all_devices):
    x = drawn(1, 6, 12)
    layer = Attention(2, is_causal=True, dropout_rate=0.0)
    before = layer(x)
    x[:, 4:] += 1.0
    after = layer(x)
    np.testing.assert_array_equal(before[:, :4], after[:, :4])
    assert np.abs(before[:, 4:] - after[:, 4:]).max() > 0.01


def test_dropout_keeps_its_share_and_the_mean(all_devices):
    layer = Dropout(0.25)
    x = tf.ones((301, 333))
    first, second = layer(x, training=True), layer(x, training=True)
    assert abs(np.mean(first == 0) - 0.25) < 0.01
    assert abs(float(tf.reduce_mean(first)) - 1) < 0.01
    assert np.mean((first.numpy() == 0) & (second.numpy() == 0)) == pytest.approx(1 / 16, abs=0.01)
    np.testing.assert_array_equal(layer(x, training=False), x)


def test_the_lookup_has_a_gradient_of_the_tables_shape(all_devices):
    layer = sequences.Embedding(7, 3)
    layer.build((1, 4))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.constant([[2, 5, 2, 0]])))
    gradient = tape.gradient(loss, layer.table.value)
    assert isinstance(gradient, tf.Tensor)
    np.testing.assert_array_equal(gradient[:, 0], [1, 0, 2, 0, 0, 1, 0])


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_a_frequent_token_loses_no_gradient_in_half_precision(all_devices, policy):
    """In half precision the sum of 8192 times 0.01 stops at 4, or at 32."""
    keras.mixed_precision.set_global_policy(policy)
    try:
        layer = sequences.Embedding(3, 2)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    layer.build((64, 128))
    with tf.GradientTape() as tape:
        vectors = layer(tf.zeros((64, 128), tf.int32))
        loss = tf.reduce_sum(vectors * tf.cast(0.01, vectors.dtype))
    gradient = tape.gradient(loss, layer.table.value)
    assert vectors.dtype == layer.compute_dtype
    np.testing.assert_allclose(gradient[0], [81.92, 81.92], rtol=0.01)


def test_segments_are_equal_parts_of_the_sequence(all_devices):
    layer = sequences.AddSegments(2)
    layer.build((1, 5, 3))
    added = layer(tf.zeros((1, 5, 3)))
    vectors = layer.vectors.numpy()
    np.testing.assert_array_equal(added[0], vectors[[0, 0, 0, 1, 1]])


def test_every_kth_token_is_masked(all_devices):
    masked = sequences.Mask(3)(tf.constant([[5, 6, 7, 8, 9]]))
    np.testing.assert_array_equal(masked, [[0, 6, 7, 0, 9]])


def small_gpt(dropout_rate: float) -> nn.Tensor:
    x = nn.tokens(6)
    table = x = nn.embed(x, 11, 8)
    for _ in range(2):
        x = nn.kept(x)
        x = nn.add(x, nn.dropout(nn.dense(x, 8, activation="gelu"), dropout_rate))
    return nn.tied_logits(nn.layer_norm(nn.kept(x), 1e-5), table)


@pytest.mark.parametrize("compiled", [False, True])
def test_recomputing_changes_neither_gradients_nor_dropout(all_devices, compiled):
    tokens = tf.constant(np.random.default_rng(1).integers(0, 11, (4, 6)), tf.int32)
    found = []
    for recompute in (False, True):
        keras.utils.set_random_seed(1)
        model = keras_model.build(small_gpt(0.5), recompute=recompute)

        @tf.function(jit_compile=compiled)
        def step(weights, state, model=model):
            with tf.GradientTape() as tape:
                tape.watch(weights)
                outputs, new_state = model.stateless_call(weights, state, tokens, training=True)
                loss = tf.reduce_sum(outputs**2)
            return [loss, *tape.gradient(loss, weights), *new_state]

        weights = [tf.constant(variable.numpy()) for variable in model.trainable_variables]
        state = [tf.constant(variable.numpy()) for variable in model.non_trainable_variables]
        found.append(step(weights, state))
    assert_close(*found)


@pytest.mark.parametrize(("recompute", "num_times"), [(False, 1), (True, 2)])
def test_what_is_recomputed_runs_twice(all_devices, recompute, num_times):
    """TensorFlow merges equal ops unless something tells them apart."""
    model = keras_model.build(small_gpt(0.0), recompute=recompute)
    tokens = tf.zeros((4, 6), tf.int32)
    weights = [tf.constant(variable.numpy()) for variable in model.trainable_variables]

    @tf.function
    def gradients(weights):
        with tf.GradientTape() as tape:
            tape.watch(weights)
            outputs, _ = model.stateless_call(weights, [], tokens, training=True)
            loss = tf.reduce_sum(outputs**2)
        return tape.gradient(loss, weights)

    context.context().enable_graph_collection()
    context.context().export_run_metadata()  # of earlier tests of this process
    try:
        gradients(weights)
        metadata = context.context().export_run_metadata()
    finally:
        context.context().disable_graph_collection()
    ops = [
        node.op
        for function in metadata.function_graphs
        for graph in function.partition_graphs
        for node in graph.node
    ]
    assert ops.count("Erf") == 2 * num_times
