"""Keeps of a part of a model its input alone, and computes the rest again in the backward pass."""

from collections.abc import Callable, Sequence

import keras
import tensorflow as tf


class Recomputed(keras.layers.Layer):
    """Calls a model, of which it keeps the input alone (Chen et al. 2016).

    Seeds are read before, so that dropout draws the same numbers both times.
    """

    def __init__(self, part: keras.Model) -> None:
        super().__init__()
        self.part = part

    def call(self, x: tf.Tensor) -> tf.Tensor:
        trained = list(map(tf.convert_to_tensor, self.part.trainable_variables))
        state = list(map(tf.convert_to_tensor, self.part.non_trainable_variables))
        new_states: list[Sequence[tf.Tensor]] = []

        def forward(x: tf.Tensor, trained: Sequence[tf.Tensor]) -> tf.Tensor:
            outputs, new_state = self.part.stateless_call(trained, state, x, training=True)
            new_states.append(new_state)
            return outputs

        outputs = _computed_again(forward, x, trained)
        for variable, value in zip(self.part.non_trainable_variables, new_states[0], strict=True):
            variable.assign(value)
        return outputs

    def compute_output_spec(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return self.part.compute_output_spec(x)


def _computed_again(
    forward: Callable[[tf.Tensor, Sequence[tf.Tensor]], tf.Tensor],
    x: tf.Tensor,
    trained: Sequence[tf.Tensor],
) -> tf.Tensor:
    @tf.custom_gradient
    def call(
        x: tf.Tensor, *trained: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], Sequence[tf.Tensor]]]:
        def gradients(upstream: tf.Tensor) -> Sequence[tf.Tensor]:
            # The second pass has to wait for the gradient: started earlier, it would keep what it
            # is to save, and as the same ops on the same input it would be merged with the first.
            # XLA knows data alone to wait for.
            value = tf.reshape(upstream, [-1])[0]
            zero = tf.where(tf.math.is_nan(value), value, tf.zeros_like(value))
            later = x + tf.cast(zero, x.dtype)
            with tf.GradientTape() as tape:
                tape.watch([later, *trained])
                outputs = forward(later, trained)
            return tape.gradient(outputs, [later, *trained], upstream)

        return forward(x, trained), gradients

    return call(x, *trained)
