"""LeNet-5 as TensorFlow's tutorial of MNIST and tf_cnn_benchmarks have it; of images of three
colors.
"""

from costs.layers import Definition, Layers, Output


def _lenet5(net: Layers, x: Output, num_classes: int) -> Output:
    x = net.pool(net.conv(x, 32, 5), 2, 2)
    x = net.flatten(net.pool(net.conv(x, 64, 5), 2, 2))
    return net.dense(net.dense(x, 512), num_classes, relu=False)


NETWORKS = {"lenet5": Definition(image_px=28, num_classes=10, describe=_lenet5)}
