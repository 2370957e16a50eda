"""MobileNet version 1 (Howard et al. 2017, table 1) of width 1."""

from functools import partial

from scalemark import layers as nn

_conv = partial(nn.conv_norm, epsilon=1e-3)


def mobilenet_v1(image_px: int = 224, num_classes: int = 1001) -> nn.Tensor:
    x = nn.images(image_px)
    x = _conv(x, 32, 3, strides=2)
    x = _separable(x, 64, 1)
    x = _separable(x, 128, 2)
    x = _separable(x, 128, 1)
    x = _separable(x, 256, 2)
    x = _separable(x, 256, 1)
    x = _separable(x, 512, 2)
    for _ in range(5):
        x = _separable(x, 512, 1)
    x = _separable(x, 1024, 2)
    x = _separable(x, 1024, 1)
    x = nn.dropout(nn.global_mean(x), 0.001)
    return nn.logits(x, num_classes)


def _separable(x: nn.Tensor, filters: int, strides: int) -> nn.Tensor:
    """Convolve each channel by itself, then mix them by a 1x1."""
    x = _conv(x, x.channels, 3, strides=strides, depthwise=True)
    return _conv(x, filters, 1)


MODELS = {"mobilenet_v1": mobilenet_v1}
