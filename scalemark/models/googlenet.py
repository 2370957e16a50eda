"""GoogLeNet (Szegedy et al. 2014, table 1) without auxiliary heads and local normalization."""

from scalemark import layers as nn


def googlenet(image_px: int = 224, num_classes: int = 1001) -> nn.Tensor:
    x = nn.images(image_px)
    x = nn.conv(x, 64, 7, strides=2)
    x = nn.max_pool(x, 3, 2, "same")
    x = nn.conv(x, 64, 1)
    x = nn.conv(x, 192, 3)
    x = nn.max_pool(x, 3, 2, "same")
    #      1x1, before 3x3, 3x3, before 5x5, 5x5, after pooling
    x = _block(x, 64, 96, 128, 16, 32, 32)
    x = _block(x, 128, 128, 192, 32, 96, 64)
    x = nn.max_pool(x, 3, 2, "same")
    x = _block(x, 192, 96, 208, 16, 48, 64)
    x = _block(x, 160, 112, 224, 24, 64, 64)
    x = _block(x, 128, 128, 256, 24, 64, 64)
    x = _block(x, 112, 144, 288, 32, 64, 64)
    x = _block(x, 256, 160, 320, 32, 128, 128)
    x = nn.max_pool(x, 3, 2, "same")
    x = _block(x, 256, 160, 320, 32, 128, 128)
    x = _block(x, 384, 192, 384, 48, 128, 128)
    return nn.logits(nn.global_mean(x), num_classes)


def _block(
    x: nn.Tensor, single: int, to_three: int, three: int, to_five: int, five: int, pooled: int
) -> nn.Tensor:
    return nn.concat(
        nn.conv(x, single, 1),
        nn.conv(nn.conv(x, to_three, 1), three, 3),
        nn.conv(nn.conv(x, to_five, 1), five, 5),
        nn.conv(nn.max_pool(x, 3, 1, "same"), pooled, 1),
    )


MODELS = {"googlenet": googlenet}
