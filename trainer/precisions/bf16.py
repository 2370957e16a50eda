"""Computation in bfloat16, variables and gradients handed to the update in float32; no loss scale is needed."""

import tensorflow as tf


def prepare() -> str:
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return "mixed_bfloat16"
