"""Inception version 3 (Szegedy et al. 2015) without the auxiliary head.

Batch normalization has no gamma, as in tf_cnn_benchmarks; 190 gradient tensors.
"""

from functools import partial

from scalemark import layers as nn

# convolution, batch normalization without gamma, ReLU
unscaled = partial(nn.conv_norm, scale=False, epsilon=1e-3)


def inception3(image_px: int = 299, num_classes: int = 1001) -> nn.Tensor:
    x = nn.images(image_px)
    x = unscaled(x, 32, 3, strides=2, padding="valid")
    x = unscaled(x, 32, 3, padding="valid")
    x = unscaled(x, 64, 3)
    x = nn.max_pool(x, 3, 2)
    x = unscaled(x, 80, 1, padding="valid")
    x = unscaled(x, 192, 3, padding="valid")
    x = nn.max_pool(x, 3, 2)
    for pool_filters in (32, 64, 64):  # of 35 x 35
        five = chain(x, (48, 1), (64, 5))
        double = chain(x, (64, 1), (96, 3), (96, 3))
        x = nn.concat(unscaled(x, 64, 1), five, double, pooled(x, pool_filters))
    single = unscaled(x, 384, 3, strides=2, padding="valid")
    double = unscaled(chain(x, (64, 1), (96, 3)), 96, 3, strides=2, padding="valid")
    x = nn.concat(single, double, nn.max_pool(x, 3, 2))
    for filters in (128, 160, 160, 192):  # of 17 x 17
        seven = chain(x, (filters, 1), (filters, (1, 7)), (192, (7, 1)))
        double = chain(x, (filters, 1), (filters, (7, 1)), (filters, (1, 7)))
        double = chain(double, (filters, (7, 1)), (192, (1, 7)))
        x = nn.concat(unscaled(x, 192, 1), seven, double, pooled(x, 192))
    three = unscaled(unscaled(x, 192, 1), 320, 3, strides=2, padding="valid")
    seven = chain(x, (192, 1), (192, (1, 7)), (192, (7, 1)))
    seven = unscaled(seven, 192, 3, strides=2, padding="valid")
    x = nn.concat(three, seven, nn.max_pool(x, 3, 2))
    for _ in range(2):  # of 8 x 8
        three = unscaled(x, 384, 1)
        three = nn.concat(unscaled(three, 384, (1, 3)), unscaled(three, 384, (3, 1)))
        double = chain(x, (448, 1), (384, 3))
        double = nn.concat(unscaled(double, 384, (1, 3)), unscaled(double, 384, (3, 1)))
        x = nn.concat(unscaled(x, 320, 1), three, double, pooled(x, 192))
    return nn.logits(nn.global_mean(x), num_classes)


def chain(x: nn.Tensor, *convs: tuple[int, nn.Kernel]) -> nn.Tensor:
    """Chain convolutions of (filters, kernel)."""
    for filters, kernel in convs:
        x = unscaled(x, filters, kernel)
    return x


def pooled(x: nn.Tensor, filters: int) -> nn.Tensor:
    return unscaled(nn.mean_pool(x, 3, 1, "same"), filters, 1)


MODELS = {"inception3": inception3}
