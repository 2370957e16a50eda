"""Operations are timed in the precision that they are named after."""

import pytest

pytestmark = pytest.mark.integration


def test_float32_is_not_rounded_to_tf32(monkeypatch):
    """A bug: TensorFlow rounds float32 by default, and the product was reported as float32's."""
    import tensorflow as tf

    from benchmarks.gpu import operations

    rounds = tf.config.experimental.tensor_float_32_execution_enabled
    before = rounds()
    found = []
    monkeypatch.setattr(operations, "_seconds", lambda _: found.append(rounds()) or 1.0)
    timed = [time() for time in operations.operations("cpu", ["float32", "tf32", "bfloat16"])]
    tf.config.experimental.enable_tensor_float_32_execution(before)
    assert [(one.what, is_rounded) for one, is_rounded in zip(timed, found, strict=True)] == [
        ("matrix product float32 512", False),
        ("convolution float32 batch 2", False),
        ("normalization float32 batch 2", False),
        ("matrix product tf32 512", True),
        ("convolution tf32 batch 2", True),
        ("matrix product bfloat16 512", False),
        ("convolution bfloat16 batch 2", False),
        ("normalization bfloat16 batch 2", False),
        ("sum compiled by XLA", False),
    ]
