"""The 18-layer narrow ResNet of source 000 (filters 16 to 128, 32 px): 701,466 parameters at 10
classes.
"""

import keras

from trainer.resnet import cifar_resnet


def build(image_px: int, num_classes: int) -> keras.Model:
    """Images (B, image_px, image_px, 3) -> logits (B, num_classes)."""
    return cifar_resnet(image_px, num_classes, (16, 32, 64, 128), (2, 2, 2, 2))
