"""AlexNet (Krizhevsky et al. 2012) with the filters of tf_cnn_benchmarks: 64-192-384-384-256."""

from scalemark import layers as nn


def alexnet(image_px: int = 227, num_classes: int = 1001) -> nn.Tensor:
    x = nn.images(image_px)
    x = nn.conv(x, 64, 11, strides=4, padding="valid")
    x = nn.max_pool(x, 3, 2)
    x = nn.conv(x, 192, 5)
    x = nn.max_pool(x, 3, 2)
    x = nn.conv(x, 384, 3)
    x = nn.conv(x, 384, 3)
    x = nn.conv(x, 256, 3)
    x = nn.max_pool(x, 3, 2)
    x = nn.flatten(x)
    x = nn.dropout(nn.dense(x, 4096))
    x = nn.dropout(nn.dense(x, 4096))
    return nn.logits(x, num_classes)


MODELS = {"alexnet": alexnet}
