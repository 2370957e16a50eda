"""LeNet-5 as TensorFlow's tutorial of MNIST and tf_cnn_benchmarks have it, for three colors."""

from scalemark import layers as nn


def lenet5(image_px: int = 28, num_classes: int = 10) -> nn.Tensor:
    x = nn.images(image_px)
    x = nn.conv(x, 32, 5)
    x = nn.max_pool(x, 2, 2)
    x = nn.conv(x, 64, 5)
    x = nn.max_pool(x, 2, 2)
    x = nn.dense(nn.flatten(x), 512)
    return nn.logits(x, num_classes)


MODELS = {"lenet5": lenet5}
