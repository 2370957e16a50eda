"""Sends images to the devices as bytes, of which float32 has four times as many.

```
  host: decode, distort ─► 0..255 uint8 ─► PCIe ─► device: -1..1 float32, in the tower
```
"""

from __future__ import annotations

import tensorflow as tf

_PER_BYTE = 1.0 / 127.5  # TensorFlow turns a division into this product anyway


def as_bytes(image: tf.Tensor) -> tf.Tensor:
    """Round an image from 0..255 float32 to uint8."""
    return tf.cast(tf.round(image), tf.uint8)


def normalized(inputs: tf.Tensor, wanted: str) -> tf.Tensor:
    """Turn 0..255 uint8 to -1..1 float32 where a model takes these; leave all else as it is."""
    if inputs.dtype != tf.uint8 or wanted != "float32":
        return inputs
    return tf.cast(inputs, tf.float32) * _PER_BYTE - 1.0
