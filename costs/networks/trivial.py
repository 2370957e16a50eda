"""The floor of a step: two affine layers over the flattened image, as tf_cnn_benchmarks and the
trainer have it.
"""

from costs.layers import Definition, Layers, Output


def _trivial(net: Layers, x: Output, num_classes: int) -> Output:
    x = net.dense(net.flatten(x), 1)
    return net.dense(net.dense(x, 4096), num_classes, relu=False)


NETWORKS = {"trivial": Definition(image_px=224, describe=_trivial)}
