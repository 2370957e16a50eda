"""ResNet-50 version 1 (stride in the first 1x1): 25,559,081 parameters at 1001 classes."""

import keras

from trainer.resnet import bottleneck_resnet


def build(image_px: int, num_classes: int) -> keras.Model:
    """Images (B, image_px, image_px, 3) -> logits (B, num_classes)."""
    return bottleneck_resnet(image_px, num_classes, (3, 4, 6, 3))
