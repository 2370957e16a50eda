"""VGG16 (Simonyan and Zisserman 2014, configuration D): 138,361,641 parameters at 224 px and 1001
classes.
"""

import keras

from trainer import layers


def build(image_px: int, num_classes: int) -> keras.Model:
    """Images (B, image_px, image_px, 3) -> logits (B, num_classes). Needs image_px >= 32."""
    images, x = layers.image_input(image_px)
    for num_convs, filters in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(num_convs):
            x = layers.conv(x, filters, 3)
        x = keras.layers.MaxPooling2D(2, 2)(x)
    x = keras.layers.Flatten()(x)
    x = layers.dense_relu_dropout(x, 4096)
    x = layers.dense_relu_dropout(x, 4096)
    return keras.Model(images, layers.logits(x, num_classes))
