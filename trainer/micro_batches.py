"""Gradient accumulation: a tower takes its examples as micro-batches, one after the other.

```
  state ─► micro-batch 0 ─► state ─► micro-batch 1 ─► ... ─► state     batch statistics, seeds
                │                        │
  zeros ────────+────────────────────────+──────────► ... ─► gradients, summed in float32
```
A loop of TensorFlow, so that the graph is as large as that of one micro-batch, and of its
activations only those of one are held at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

# loss, gradients of the weights, new state
Pass = tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]
# weights, state, inputs, labels -> Pass
Compute = Callable[[list[tf.Tensor], list[tf.Tensor], tf.Tensor, tf.Tensor], Pass]


def accumulated(
    compute: Compute,
    num: int,
    weights: Sequence[tf.Tensor],
    state: Sequence[tf.Tensor],
    inputs: tf.Tensor,
    labels: tf.Tensor,
) -> Pass:
    """Return the mean loss of `num` micro-batches, their summed gradients, and the last state.

    `inputs` and `labels` are those of all, (num * B, ...); without accumulation there is no loop.
    """
    if num == 1:
        return compute(list(weights), list(state), inputs, labels)
    of_passes = [_cut(part, num) for part in (inputs, labels)]

    def body(
        index: tf.Tensor, loss: tf.Tensor, sums: list[tf.Tensor], state: list[tf.Tensor]
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        own = [tf.identity(weight) for weight in weights]  # a tape watches tensors of its own graph
        parts = [part[index] for part in of_passes]
        added, gradients, new_state = compute(own, state, *parts)
        sums = [total + gradient for total, gradient in zip(sums, gradients, strict=True)]
        return index + 1, loss + added, sums, new_state

    # else TensorFlow makes the zeros a constant, which it keeps for ever beside the sums
    zero = tf.raw_ops.PlaceholderWithDefault(input=0.0, shape=[])
    zeros = [tf.fill(weight.shape, zero) for weight in weights]
    first = (tf.constant(0), tf.constant(0.0), zeros, list(state))
    _, loss, sums, last = tf.while_loop(
        lambda index, *_: index < num, body, first, parallel_iterations=1
    )
    return loss / num, sums, last


def _cut(part: tf.Tensor, num: int) -> tf.Tensor:
    """(num * B, ...) -> (num, B, ...)."""
    return tf.reshape(part, (num, part.shape[0] // num, *part.shape[1:]))
