"""OverFeat, fast version (Sermanet et al. 2014, table 1)."""

from scalemark import layers as nn


def overfeat(image_px: int = 231, num_classes: int = 1001) -> nn.Tensor:
    x = nn.images(image_px)
    x = nn.conv(x, 96, 11, strides=4, padding="valid")
    x = nn.max_pool(x, 2, 2)
    x = nn.conv(x, 256, 5, padding="valid")
    x = nn.max_pool(x, 2, 2)
    x = nn.conv(x, 512, 3)
    x = nn.conv(x, 1024, 3)
    x = nn.conv(x, 1024, 3)
    x = nn.max_pool(x, 2, 2)
    x = nn.flatten(x)
    x = nn.dropout(nn.dense(x, 3072))
    x = nn.dropout(nn.dense(x, 4096))
    return nn.logits(x, num_classes)


MODELS = {"overfeat": overfeat}
