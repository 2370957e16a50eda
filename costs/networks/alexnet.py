"""AlexNet as tf_cnn_benchmarks and the trainer have it: 64-192-384-384-256 filters."""

from costs.layers import Definition, Layers, Output


def _alexnet(net: Layers, x: Output, num_classes: int) -> Output:
    x = net.conv(x, 64, 11, strides=4, padding="valid")
    x = net.pool(x, 3, 2)
    x = net.conv(x, 192, 5)
    x = net.pool(x, 3, 2)
    x = net.conv(x, 384, 3)
    x = net.conv(x, 384, 3)
    x = net.conv(x, 256, 3)
    x = net.flatten(net.pool(x, 3, 2))
    x = net.dropout(net.dense(x, 4096))
    x = net.dropout(net.dense(x, 4096))
    return net.dense(x, num_classes, relu=False)


NETWORKS = {"alexnet": Definition(image_px=227, describe=_alexnet)}
