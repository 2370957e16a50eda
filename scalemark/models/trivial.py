"""Affine layers over the flattened image, as in tf_cnn_benchmarks: the floor of a step's time."""

from scalemark import layers as nn


def trivial(image_px: int = 224, num_classes: int = 1001) -> nn.Tensor:
    x = nn.flatten(nn.images(image_px))
    x = nn.dense(x, 1, initial="glorot_uniform")
    x = nn.dense(x, 4096, initial="glorot_uniform")
    return nn.logits(x, num_classes)


MODELS = {"trivial": trivial}
