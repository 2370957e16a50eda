"""Everything in float32; TensorFloat-32 is switched off, so that fp32 means fp32 on every GPU."""

import tensorflow as tf


def prepare() -> str:
    tf.config.experimental.enable_tensor_float_32_execution(False)
    return "float32"
