"""MobileNet version 1 (Howard et al. 2017), width 1: depthwise convolutions, each followed by a
1x1.
"""

from costs.layers import Definition, Layers, Output

_BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *[(512, 1)] * 5,
    (1024, 2),
    (1024, 1),
)


def _mobilenet_v1(net: Layers, x: Output, num_classes: int) -> Output:
    x = net.conv_norm(x, 32, 3, strides=2)
    for filters, strides in _BLOCKS:
        x = net.conv_norm(x, x.channels, 3, strides=strides, groups=x.channels)
        x = net.conv_norm(x, filters, 1)
    return net.dense(net.dropout(net.mean(x)), num_classes, relu=False)


NETWORKS = {"mobilenet_v1": Definition(image_px=224, describe=_mobilenet_v1)}
