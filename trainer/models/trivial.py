"""Almost no computation: two affine layers over the flattened image, as tf_cnn_benchmarks has it.
The floor of a step.
"""

import keras

from trainer import layers


def build(image_px: int, num_classes: int) -> keras.Model:
    """Images (B, image_px, image_px, 3) -> logits (B, num_classes). No batch normalization, no
    dropout.
    """
    images, x = layers.image_input(image_px)
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dense(1, activation="relu")(x)
    x = keras.layers.Dense(4096, activation="relu")(x)
    return keras.Model(images, layers.logits(x, num_classes))
