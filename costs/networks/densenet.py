"""DenseNet (Huang et al. 2017) of ImageNet, growth 32: every layer is joined to all before it in
its block.
"""

from functools import partial

from costs.layers import Definition, Layers, Output

_GROWTH = 32


def _densenet(num_layers: tuple[int, ...], net: Layers, x: Output, num_classes: int) -> Output:
    x = net.pool(net.conv_norm(x, 64, 7, strides=2), 3, 2, "same")
    for block, num in enumerate(num_layers):
        if block > 0:
            x = net.pool(_norm_conv(net, x, x.channels // 2, 1), 2, 2)
        for _ in range(num):
            x = net.join(x, _norm_conv(net, _norm_conv(net, x, 4 * _GROWTH, 1), _GROWTH, 3))
    return net.dense(net.mean(net.relu(net.norm(x))), num_classes, relu=False)


def _norm_conv(net: Layers, x: Output, filters: int, kernel: int) -> Output:
    return net.conv(net.relu(net.norm(x)), filters, kernel, bias=False, relu=False)


NETWORKS = {"densenet121": Definition(image_px=224, describe=partial(_densenet, (6, 12, 24, 16)))}
