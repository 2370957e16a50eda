"""Residual networks, version 1 (He et al. 2015): the stem and the stages that the ResNet files
share.
"""

from collections.abc import Callable

import keras

from trainer import layers

Block = Callable[[layers.Tensor, int, int], layers.Tensor]


def bottleneck_resnet(
    image_px: int, num_classes: int, blocks_per_stage: tuple[int, ...]
) -> keras.Model:
    """ImageNet ResNet of bottleneck blocks: 7x7 stem, then stages of 256, 512, 1024, 2048
    channels.
    """
    images, x = layers.image_input(image_px)
    x = layers.conv_norm(x, 64, 7, strides=2)
    x = keras.layers.MaxPooling2D(3, 2, "same")(x)
    return _stages_and_head(
        images, x, num_classes, bottleneck, (64, 128, 256, 512), blocks_per_stage
    )


def cifar_resnet(
    image_px: int, num_classes: int, filters: tuple[int, ...], blocks_per_stage: tuple[int, ...]
) -> keras.Model:
    """Narrow ResNet of basic blocks for small images: 3x3 stem, no pooling."""
    images, x = layers.image_input(image_px)
    x = layers.conv_norm(x, filters[0], 3)
    return _stages_and_head(images, x, num_classes, basic, filters, blocks_per_stage)


def bottleneck(x: layers.Tensor, filters: int, strides: int) -> layers.Tensor:
    """1x1 (with the stride, as version 1 has it), 3x3, 1x1 to four times the filters, plus the
    shortcut.
    """
    shortcut = x
    if strides > 1 or x.shape[layers.channel_axis()] != 4 * filters:
        shortcut = layers.conv_norm(x, 4 * filters, 1, strides=strides, relu=False)
    y = layers.conv_norm(x, filters, 1, strides=strides)
    y = layers.conv_norm(y, filters, 3)
    y = layers.conv_norm(y, 4 * filters, 1, relu=False)
    return keras.layers.ReLU()(keras.layers.add([y, shortcut]))


def basic(x: layers.Tensor, filters: int, strides: int) -> layers.Tensor:
    """Two 3x3 convolutions plus the shortcut."""
    shortcut = x
    if strides > 1 or x.shape[layers.channel_axis()] != filters:
        shortcut = layers.conv_norm(x, filters, 1, strides=strides, relu=False)
    y = layers.conv_norm(x, filters, 3, strides=strides)
    y = layers.conv_norm(y, filters, 3, relu=False)
    return keras.layers.ReLU()(keras.layers.add([y, shortcut]))


def _stages_and_head(
    images: layers.Tensor,
    x: layers.Tensor,
    num_classes: int,
    block: Block,
    filters: tuple[int, ...],
    blocks_per_stage: tuple[int, ...],
) -> keras.Model:
    for stage, (width, num_blocks) in enumerate(zip(filters, blocks_per_stage, strict=True)):
        for index in range(num_blocks):
            x = block(x, width, 2 if stage > 0 and index == 0 else 1)
    x = keras.layers.GlobalAveragePooling2D()(x)
    return keras.Model(images, layers.logits(x, num_classes))
