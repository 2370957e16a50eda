"""Inception version 4 (Szegedy et al. 2016), batch normalization without gamma."""

from scalemark import layers as nn
from scalemark.models.inception3 import chain, pooled, unscaled


def inception4(image_px: int = 299, num_classes: int = 1001) -> nn.Tensor:
    x = _halved(nn.images(image_px), 32)
    x = unscaled(x, 32, 3, padding="valid")
    x = unscaled(x, 64, 3)
    x = nn.concat(nn.max_pool(x, 3, 2), _halved(x, 96))
    single = unscaled(unscaled(x, 64, 1), 96, 3, padding="valid")
    seven = chain(x, (64, 1), (64, (7, 1)), (64, (1, 7)))
    x = nn.concat(single, unscaled(seven, 96, 3, padding="valid"))
    x = nn.concat(_halved(x, 192), nn.max_pool(x, 3, 2))
    for _ in range(4):  # of 35 x 35
        first = pooled(x, 96)
        double = chain(x, (64, 1), (96, 3), (96, 3))
        x = nn.concat(first, unscaled(x, 96, 1), chain(x, (64, 1), (96, 3)), double)
    double = _halved(chain(x, (192, 1), (224, 3)), 256)
    x = nn.concat(nn.max_pool(x, 3, 2), _halved(x, 384), double)
    for _ in range(7):  # of 17 x 17
        first = pooled(x, 128)
        seven = chain(x, (192, 1), (224, (1, 7)), (256, (7, 1)))
        double = chain(x, (192, 1), (192, (1, 7)), (224, (7, 1)), (224, (1, 7)), (256, (7, 1)))
        x = nn.concat(first, unscaled(x, 384, 1), seven, double)
    three = _halved(unscaled(x, 192, 1), 192)
    seven = _halved(chain(x, (256, 1), (256, (1, 7)), (320, (7, 1))), 320)
    x = nn.concat(nn.max_pool(x, 3, 2), three, seven)
    for _ in range(3):  # of 8 x 8
        first = pooled(x, 256)
        three = unscaled(x, 384, 1)
        double = chain(x, (384, 1), (448, (1, 3)), (512, (3, 1)))
        x = nn.concat(
            first,
            unscaled(x, 256, 1),
            unscaled(three, 256, (1, 3)),
            unscaled(three, 256, (3, 1)),
            unscaled(double, 256, (3, 1)),
            unscaled(double, 256, (1, 3)),
        )
    x = nn.dropout(nn.global_mean(x), 0.2)
    return nn.logits(x, num_classes)


def _halved(x: nn.Tensor, filters: int) -> nn.Tensor:
    return unscaled(x, filters, 3, strides=2, padding="valid")


MODELS = {"inception4": inception4}
