"""Residual networks of 32 px images: the narrow one of source 000, and those of He et al. 2015,
section 4.2.
"""

from functools import partial

from costs.layers import Definition, Layers, Output
from costs.networks.resnet import Block, basic, stages


def _padded(net: Layers, x: Output, filters: int, strides: int) -> Output:
    """Two 3x3 convolutions; the shortcut is thinned out and padded with zeros, without parameters
    (option A).
    """
    shortcut = (
        x
        if strides == 1 and x.channels == filters
        else net.pad_channels(net.pool(x, 1, strides), filters)
    )
    y = net.conv_norm(x, filters, 3, strides=strides)
    return net.relu(net.add(net.conv_norm(y, filters, 3, relu=False), shortcut))


def _cifar(
    block: Block,
    filters: tuple[int, ...],
    num_blocks: tuple[int, ...],
    net: Layers,
    x: Output,
    num_classes: int,
) -> Output:
    x = stages(net, net.conv_norm(x, filters[0], 3), block, filters, num_blocks)
    return net.dense(net.mean(x), num_classes, relu=False)


def _of_depth(num_layers: int) -> Definition:
    num = (num_layers - 2) // 6
    return Definition(
        image_px=32,
        num_classes=10,
        describe=partial(_cifar, _padded, (16, 32, 64), (num, num, num)),
    )


NETWORKS = {
    "resnet18_cifar": Definition(
        image_px=32,
        num_classes=10,
        describe=partial(_cifar, basic, (16, 32, 64, 128), (2, 2, 2, 2)),
    ),
    **{f"resnet{num_layers}_cifar": _of_depth(num_layers) for num_layers in (20, 32, 44, 56, 110)},
}
