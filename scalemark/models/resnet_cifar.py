"""Residual networks of 32 px images: those of He et al. 2015, section 4.2, and a narrow one.

The narrow one, `resnet18_cifar`, is that of source 000; its shortcuts are projections.
"""

from collections.abc import Sequence
from functools import partial

from scalemark import layers as nn
from scalemark.models.resnet import Block, basic, stages


def resnet_cifar(
    image_px: int = 32,
    num_classes: int = 10,
    *,
    block: Block,
    filters: Sequence[int],
    num_blocks: Sequence[int],
) -> nn.Tensor:
    x = nn.images(image_px)
    x = nn.conv_norm(x, filters[0], 3)
    x = stages(x, block, filters, num_blocks)
    return nn.logits(nn.global_mean(x), num_classes)


def padded(x: nn.Tensor, filters: int, strides: int) -> nn.Tensor:
    """Add to two 3x3 convolutions a shortcut without parameters (option A)."""
    shortcut = x
    if strides > 1 or x.channels != filters:
        shortcut = nn.pad_channels(nn.mean_pool(x, 1, strides), filters)
    y = nn.conv_norm(x, filters, 3, strides=strides)
    y = nn.conv_norm(y, filters, 3, activation="linear")
    return nn.relu(nn.add(y, shortcut))


_published = partial(resnet_cifar, block=padded, filters=(16, 32, 64))
MODELS = {
    "resnet18_cifar": partial(
        resnet_cifar, block=basic, filters=(16, 32, 64, 128), num_blocks=(2, 2, 2, 2)
    ),
    "resnet20_cifar": partial(_published, num_blocks=(3, 3, 3)),
    "resnet32_cifar": partial(_published, num_blocks=(5, 5, 5)),
    "resnet44_cifar": partial(_published, num_blocks=(7, 7, 7)),
    "resnet56_cifar": partial(_published, num_blocks=(9, 9, 9)),
    "resnet110_cifar": partial(_published, num_blocks=(18, 18, 18)),
}
