"""GoogLeNet (Szegedy et al. 2014) as tf_cnn_benchmarks has it: biases, no normalization, no
auxiliary heads.
"""

from costs.layers import Definition, Layers, Output

_BLOCKS = (
    ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
    (
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
    ),
    ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)


def _googlenet(net: Layers, x: Output, num_classes: int) -> Output:
    x = net.pool(net.conv(x, 64, 7, strides=2), 3, 2, "same")
    x = net.conv(net.conv(x, 64, 1), 192, 3)
    for blocks in _BLOCKS:
        x = net.pool(x, 3, 2, "same")
        for filters in blocks:
            x = _block(net, x, *filters)
    return net.dense(net.mean(x), num_classes, relu=False)


def _block(
    net: Layers,
    x: Output,
    one: int,
    to_three: int,
    three: int,
    to_five: int,
    five: int,
    pooled: int,
) -> Output:
    return net.join(
        net.conv(x, one, 1),
        net.conv(net.conv(x, to_three, 1), three, 3),
        net.conv(net.conv(x, to_five, 1), five, 5),
        net.conv(net.pool(x, 3, 1, "same"), pooled, 1),
    )


NETWORKS = {"googlenet": Definition(image_px=224, describe=_googlenet)}
