"""VGG (Simonyan and Zisserman 2014, table 1): configurations A, B, D and E."""

from collections.abc import Sequence
from functools import partial

from scalemark import layers as nn


def vgg(image_px: int = 224, num_classes: int = 1001, *, num_convs: Sequence[int]) -> nn.Tensor:
    x = nn.images(image_px)
    for num, filters in zip(num_convs, (64, 128, 256, 512, 512), strict=True):
        for _ in range(num):
            x = nn.conv(x, filters, 3)
        x = nn.max_pool(x, 2, 2)
    x = nn.flatten(x)
    x = nn.dropout(nn.dense(x, 4096))
    x = nn.dropout(nn.dense(x, 4096))
    return nn.logits(x, num_classes)


MODELS = {
    "vgg11": partial(vgg, num_convs=(1, 1, 2, 2, 2)),
    "vgg13": partial(vgg, num_convs=(2, 2, 2, 2, 2)),
    "vgg16": partial(vgg, num_convs=(2, 2, 3, 3, 3)),
    "vgg19": partial(vgg, num_convs=(2, 2, 4, 4, 4)),
}
