"""AlexNet as tf_cnn_benchmarks has it (64-192-384-384-256 filters, 227 px): 61,842,345 parameters
at 1001 classes.
"""

import keras

from trainer import layers


def build(image_px: int, num_classes: int) -> keras.Model:
    """Images (B, image_px, image_px, 3) -> logits (B, num_classes). Needs image_px >= 67."""
    images, x = layers.image_input(image_px)
    x = layers.conv(x, 64, 11, strides=4, padding="valid")
    x = keras.layers.MaxPooling2D(3, 2)(x)
    x = layers.conv(x, 192, 5)
    x = keras.layers.MaxPooling2D(3, 2)(x)
    x = layers.conv(x, 384, 3)
    x = layers.conv(x, 384, 3)
    x = layers.conv(x, 256, 3)
    x = keras.layers.MaxPooling2D(3, 2)(x)
    x = keras.layers.Flatten()(x)
    x = layers.dense_relu_dropout(x, 4096)
    x = layers.dense_relu_dropout(x, 4096)
    return keras.Model(images, layers.logits(x, num_classes))
