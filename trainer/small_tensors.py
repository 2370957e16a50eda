"""Joins small tensors, so that one kernel does for all of them what would take one for each.

Two of three gradients of ResNet-50 belong to normalizations and have 64 to 2,048 elements: to start
a kernel takes longer than it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

# of a small tensor; no normalization has more. With 2^16, of which copies take long, steps of
# resnet18_cifar took 2 to 3 % longer on CPU devices; with 2^11 as long as with none, within 1 %.
MOST_ELEMENTS = 2**11


def joined(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Return the large ones as they are, and behind them all others as a single flat one."""
    small: list[tf.Tensor] = []
    large: list[tf.Tensor] = []
    for tensor in tensors:
        (small if _is_small(tensor) else large).append(tensor)
    return [*large, _flat(small)] if small else large


def elementwise(function: Callable[..., tf.Tensor], *lists: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Map a function that works element by element, and joins no shapes, over tensors in parallel
    lists. The shapes of one place are equal.
    """
    places = [place for place, tensor in enumerate(lists[0]) if _is_small(tensor)]
    found = {}
    if places:
        small = function(*(_flat([tensors[place] for place in places]) for tensors in lists))
        parts = tf.split(small, [lists[0][place].shape.num_elements() for place in places])
        for place, part in zip(places, parts, strict=True):
            found[place] = tf.reshape(part, lists[0][place].shape)
    for place, tensors in enumerate(zip(*lists, strict=True)):
        if place not in found:
            found[place] = function(*tensors)
    return [found[place] for place in range(len(found))]


def _is_small(tensor: tf.Tensor) -> bool:
    num_elements = tensor.shape.num_elements()  # None where a model of one's own leaves it open
    return num_elements is not None and num_elements <= MOST_ELEMENTS


def _flat(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0)
