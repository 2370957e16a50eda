"""Batches that no input costs anything."""

import pytest
import tensorflow as tf

from tests.specs import small
from trainer.data import synthetic
from trainer.keras_model import Example

TOKENS = Example(
    input_shape=(9,), input_dtype="int64", num_symbols=17, label_shape=(9,), num_classes=17
)


@pytest.mark.parametrize("example", [Example(input_shape=(8, 8, 3), num_classes=5), TOKENS])
def test_labels_are_of_a_type_that_gpus_keep_in_their_own_memory(make_devices, example):
    """A bug: TensorFlow keeps int32 on the host, and copied real labels back in each step."""
    batches = synthetic.Synthetic(small(), make_devices(2), example).next()
    assert [labels.dtype for _, labels in batches] == [tf.int64, tf.int64]


def test_tokens_are_not_their_own_labels(make_devices):
    ((tokens, labels),) = synthetic.Synthetic(small(), make_devices(1), TOKENS).next()
    num_equal = int(tf.reduce_sum(tf.cast(tokens == labels, tf.int32)))
    assert num_equal < tf.size(labels) / 2
