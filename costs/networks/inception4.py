"""Inception version 4 (Szegedy et al. 2016) as tf_cnn_benchmarks has it: batch normalization
without gamma.
"""

from functools import partial

from costs.layers import Definition, Layers, Output, Padding

_conv = partial(Layers.conv_norm, scale=False)
Kernel = int | tuple[int, int]


def _inception4(net: Layers, x: Output, num_classes: int) -> Output:
    x = _stem(net, x)
    for _ in range(4):
        x = _block_35(net, x)
    x = _reduce_to_17(net, x)
    for _ in range(7):
        x = _block_17(net, x)
    x = _reduce_to_8(net, x)
    for _ in range(3):
        x = _block_8(net, x)
    return net.dense(net.dropout(net.mean(x)), num_classes, relu=False)


def _chain(
    net: Layers,
    x: Output,
    *layers: tuple[int, Kernel],
    last: tuple[int, int, Padding] | None = None,
) -> Output:
    """Convolutions of (filters, kernel) behind each other; `last` is a 3x3 of (filters, strides,
    padding).
    """
    for filters, kernel in layers:
        x = _conv(net, x, filters, kernel)
    if last:
        filters, strides, padding = last
        x = _conv(net, x, filters, 3, strides=strides, padding=padding)
    return x


def _stem(net: Layers, x: Output) -> Output:
    x = _conv(net, x, 32, 3, strides=2, padding="valid")
    x = _conv(net, _conv(net, x, 32, 3, padding="valid"), 64, 3)
    x = net.join(net.pool(x, 3, 2), _chain(net, x, last=(96, 2, "valid")))
    single = _chain(net, x, (64, 1), last=(96, 1, "valid"))
    x = net.join(single, _chain(net, x, (64, 1), (64, (7, 1)), (64, (1, 7)), last=(96, 1, "valid")))
    return net.join(_chain(net, x, last=(192, 2, "valid")), net.pool(x, 3, 2))


def _block_35(net: Layers, x: Output) -> Output:
    pooled = _conv(net, net.pool(x, 3, 1, "same"), 96, 1)
    double = _chain(net, x, (64, 1), (96, 3), (96, 3))
    return net.join(pooled, _conv(net, x, 96, 1), _chain(net, x, (64, 1), (96, 3)), double)


def _reduce_to_17(net: Layers, x: Output) -> Output:
    double = _chain(net, x, (192, 1), (224, 3), last=(256, 2, "valid"))
    return net.join(net.pool(x, 3, 2), _chain(net, x, last=(384, 2, "valid")), double)


def _block_17(net: Layers, x: Output) -> Output:
    pooled = _conv(net, net.pool(x, 3, 1, "same"), 128, 1)
    seven = _chain(net, x, (192, 1), (224, (1, 7)), (256, (7, 1)))
    double = _chain(net, x, (192, 1), (192, (1, 7)), (224, (7, 1)), (224, (1, 7)), (256, (7, 1)))
    return net.join(pooled, _conv(net, x, 384, 1), seven, double)


def _reduce_to_8(net: Layers, x: Output) -> Output:
    three = _chain(net, x, (192, 1), last=(192, 2, "valid"))
    seven = _chain(net, x, (256, 1), (256, (1, 7)), (320, (7, 1)), last=(320, 2, "valid"))
    return net.join(net.pool(x, 3, 2), three, seven)


def _block_8(net: Layers, x: Output) -> Output:
    pooled = _conv(net, net.pool(x, 3, 1, "same"), 256, 1)
    three = _conv(net, x, 384, 1)
    double = _chain(net, x, (384, 1), (448, (1, 3)), (512, (3, 1)))
    of_three = (_conv(net, three, 256, (1, 3)), _conv(net, three, 256, (3, 1)))
    return net.join(
        pooled,
        _conv(net, x, 256, 1),
        *of_three,
        _conv(net, double, 256, (3, 1)),
        _conv(net, double, 256, (1, 3)),
    )


NETWORKS = {"inception4": Definition(image_px=299, describe=_inception4)}
