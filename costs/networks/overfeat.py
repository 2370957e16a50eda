"""OverFeat, fast version (Sermanet et al. 2014), as tf_cnn_benchmarks has it."""

from costs.layers import Definition, Layers, Output


def _overfeat(net: Layers, x: Output, num_classes: int) -> Output:
    x = net.conv(x, 96, 11, strides=4, padding="valid")
    x = net.pool(x, 2, 2)
    x = net.conv(x, 256, 5, padding="valid")
    x = net.pool(x, 2, 2)
    x = net.conv(x, 512, 3)
    x = net.conv(x, 1024, 3)
    x = net.conv(x, 1024, 3)
    x = net.flatten(net.pool(x, 2, 2))
    x = net.dropout(net.dense(x, 3072))
    x = net.dropout(net.dense(x, 4096))
    return net.dense(x, num_classes, relu=False)


NETWORKS = {"overfeat": Definition(image_px=231, describe=_overfeat)}
