"""Residual networks of ImageNet (He et al. 2015): basic blocks, and bottlenecks of version 1 and
1.5.
"""

from collections.abc import Callable
from functools import partial

from costs.layers import Definition, Layers, Output

Block = Callable[[Layers, Output, int, int], Output]


def basic(net: Layers, x: Output, filters: int, strides: int) -> Output:
    """Two 3x3 convolutions plus the shortcut."""
    shortcut = _projected(net, x, filters, strides)
    y = net.conv_norm(x, filters, 3, strides=strides)
    return net.relu(net.add(net.conv_norm(y, filters, 3, relu=False), shortcut))


def bottleneck(net: Layers, x: Output, filters: int, strides: int) -> Output:
    """Version 1: the stride is in the first 1x1."""
    return _bottleneck(net, x, filters, strides, 1)


def late_bottleneck(net: Layers, x: Output, filters: int, strides: int) -> Output:
    """Version 1.5: the stride is in the 3x3."""
    return _bottleneck(net, x, filters, 1, strides)


def stages(
    net: Layers, x: Output, block: Block, filters: tuple[int, ...], num_blocks: tuple[int, ...]
) -> Output:
    """Each stage but the first begins with a stride of 2."""
    for stage, (width, num) in enumerate(zip(filters, num_blocks, strict=True)):
        for index in range(num):
            x = block(net, x, width, 2 if stage > 0 and index == 0 else 1)
    return x


def _bottleneck(net: Layers, x: Output, filters: int, first: int, second: int) -> Output:
    shortcut = _projected(net, x, 4 * filters, first * second)
    y = net.conv_norm(x, filters, 1, strides=first)
    y = net.conv_norm(y, filters, 3, strides=second)
    return net.relu(net.add(net.conv_norm(y, 4 * filters, 1, relu=False), shortcut))


def _projected(net: Layers, x: Output, channels: int, strides: int) -> Output:
    return (
        net.conv_norm(x, channels, 1, strides=strides, relu=False)
        if strides > 1 or x.channels != channels
        else x
    )


def _resnet(
    block: Block, num_blocks: tuple[int, ...], net: Layers, x: Output, num_classes: int
) -> Output:
    x = net.pool(net.conv_norm(x, 64, 7, strides=2), 3, 2, "same")
    x = stages(net, x, block, (64, 128, 256, 512), num_blocks)
    return net.dense(net.mean(x), num_classes, relu=False)


_BASIC = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}
_DEEP = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3), "resnet152": (3, 8, 36, 3)}
NETWORKS = {
    **{
        name: Definition(image_px=224, describe=partial(_resnet, basic, num))
        for name, num in _BASIC.items()
    },
    **{
        name: Definition(image_px=224, describe=partial(_resnet, bottleneck, num))
        for name, num in _DEEP.items()
    },
    **{
        f"{name}_v1.5": Definition(image_px=224, describe=partial(_resnet, late_bottleneck, num))
        for name, num in _DEEP.items()
    },
}
