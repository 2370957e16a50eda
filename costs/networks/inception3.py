"""Inception version 3 (Szegedy et al. 2015) without the auxiliary head, batch normalization without
gamma.
"""

from functools import partial

from costs.layers import Definition, Layers, Output

_conv = partial(Layers.conv_norm, scale=False)


def _inception3(net: Layers, x: Output, num_classes: int) -> Output:
    x = _conv(net, x, 32, 3, strides=2, padding="valid")
    x = _conv(net, x, 32, 3, padding="valid")
    x = net.pool(_conv(net, x, 64, 3), 3, 2)
    x = _conv(net, x, 80, 1, padding="valid")
    x = net.pool(_conv(net, x, 192, 3, padding="valid"), 3, 2)
    for pooled in (32, 64, 64):
        x = _block_35(net, x, pooled)
    x = _reduce_to_17(net, x)
    for filters in (128, 160, 160, 192):
        x = _block_17(net, x, filters)
    x = _reduce_to_8(net, x)
    for _ in range(2):
        x = _block_8(net, x)
    return net.dense(net.mean(x), num_classes, relu=False)


def _pooled(net: Layers, x: Output, filters: int) -> Output:
    return _conv(net, net.pool(x, 3, 1, "same"), filters, 1)


def _chain(net: Layers, x: Output, *layers: tuple[int, int | tuple[int, int]]) -> Output:
    """Convolutions of (filters, kernel) behind each other."""
    for filters, kernel in layers:
        x = _conv(net, x, filters, kernel)
    return x


def _block_35(net: Layers, x: Output, pooled: int) -> Output:
    five = _chain(net, x, (48, 1), (64, 5))
    double = _chain(net, x, (64, 1), (96, 3), (96, 3))
    return net.join(_conv(net, x, 64, 1), five, double, _pooled(net, x, pooled))


def _reduce_to_17(net: Layers, x: Output) -> Output:
    single = _conv(net, x, 384, 3, strides=2, padding="valid")
    double = _conv(net, _chain(net, x, (64, 1), (96, 3)), 96, 3, strides=2, padding="valid")
    return net.join(single, double, net.pool(x, 3, 2))


def _block_17(net: Layers, x: Output, filters: int) -> Output:
    seven = _chain(net, x, (filters, 1), (filters, (1, 7)), (192, (7, 1)))
    double = _chain(
        net, x, (filters, 1), (filters, (7, 1)), (filters, (1, 7)), (filters, (7, 1)), (192, (1, 7))
    )
    return net.join(_conv(net, x, 192, 1), seven, double, _pooled(net, x, 192))


def _reduce_to_8(net: Layers, x: Output) -> Output:
    three = _conv(net, _conv(net, x, 192, 1), 320, 3, strides=2, padding="valid")
    seven = _conv(
        net,
        _chain(net, x, (192, 1), (192, (1, 7)), (192, (7, 1))),
        192,
        3,
        strides=2,
        padding="valid",
    )
    return net.join(three, seven, net.pool(x, 3, 2))


def _block_8(net: Layers, x: Output) -> Output:
    three = _conv(net, x, 384, 1)
    three = net.join(_conv(net, three, 384, (1, 3)), _conv(net, three, 384, (3, 1)))
    double = _chain(net, x, (448, 1), (384, 3))
    double = net.join(_conv(net, double, 384, (1, 3)), _conv(net, double, 384, (3, 1)))
    return net.join(_conv(net, x, 320, 1), three, double, _pooled(net, x, 192))


NETWORKS = {"inception3": Definition(image_px=299, describe=_inception3)}
