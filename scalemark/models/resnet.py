"""Residual networks of ImageNet (He et al. 2015, table 1).

Version 1 has the stride of a bottleneck in its first 1x1, version 1.5 in its 3x3.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from scalemark import layers as nn

Block: TypeAlias = Callable[[nn.Tensor, int, int], nn.Tensor]  # (x, filters, strides) -> output


def resnet(
    image_px: int = 224, num_classes: int = 1001, *, block: Block, num_blocks: Sequence[int]
) -> nn.Tensor:
    x = nn.images(image_px)
    x = nn.conv_norm(x, 64, 7, strides=2)
    x = nn.max_pool(x, 3, 2, "same")
    x = stages(x, block, (64, 128, 256, 512), num_blocks)
    return nn.logits(nn.global_mean(x), num_classes)


def stages(
    x: nn.Tensor, block: Block, filters: Sequence[int], num_blocks: Sequence[int]
) -> nn.Tensor:
    """Chain blocks; each stage but the first begins with a stride of 2."""
    for stage, (width, num) in enumerate(zip(filters, num_blocks, strict=True)):
        for index in range(num):
            x = block(x, width, 2 if stage > 0 and index == 0 else 1)
    return x


def basic(x: nn.Tensor, filters: int, strides: int) -> nn.Tensor:
    """Add the shortcut to two 3x3 convolutions."""
    shortcut = _projected(x, filters, strides)
    y = nn.conv_norm(x, filters, 3, strides=strides)
    y = nn.conv_norm(y, filters, 3, activation="linear")
    return nn.relu(nn.add(y, shortcut))


def bottleneck(x: nn.Tensor, filters: int, strides: int) -> nn.Tensor:
    """Add the shortcut to 1x1 with the stride, 3x3, 1x1 to four times the filters."""
    shortcut = _projected(x, 4 * filters, strides)
    y = nn.conv_norm(x, filters, 1, strides=strides)
    y = nn.conv_norm(y, filters, 3)
    y = nn.conv_norm(y, 4 * filters, 1, activation="linear")
    return nn.relu(nn.add(y, shortcut))


def bottleneck_v1_5(x: nn.Tensor, filters: int, strides: int) -> nn.Tensor:
    """Add the shortcut to 1x1, 3x3 with the stride, 1x1 to four times the filters."""
    shortcut = _projected(x, 4 * filters, strides)
    y = nn.conv_norm(x, filters, 1)
    y = nn.conv_norm(y, filters, 3, strides=strides)
    y = nn.conv_norm(y, 4 * filters, 1, activation="linear")
    return nn.relu(nn.add(y, shortcut))


def _projected(x: nn.Tensor, channels: int, strides: int) -> nn.Tensor:
    """Bring `x` to the shape of the block's output, where it has another."""
    if strides == 1 and x.channels == channels:
        return x
    return nn.conv_norm(x, channels, 1, strides=strides, activation="linear")


MODELS = {
    "resnet18": partial(resnet, block=basic, num_blocks=(2, 2, 2, 2)),
    "resnet34": partial(resnet, block=basic, num_blocks=(3, 4, 6, 3)),
    "resnet50": partial(resnet, block=bottleneck, num_blocks=(3, 4, 6, 3)),
    "resnet101": partial(resnet, block=bottleneck, num_blocks=(3, 4, 23, 3)),
    "resnet152": partial(resnet, block=bottleneck, num_blocks=(3, 8, 36, 3)),
    "resnet50_v1.5": partial(resnet, block=bottleneck_v1_5, num_blocks=(3, 4, 6, 3)),
    "resnet101_v1.5": partial(resnet, block=bottleneck_v1_5, num_blocks=(3, 4, 23, 3)),
    "resnet152_v1.5": partial(resnet, block=bottleneck_v1_5, num_blocks=(3, 8, 36, 3)),
}
