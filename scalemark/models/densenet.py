"""DenseNet (Huang et al. 2017) with growth 32: every layer sees all before it in its block."""

from collections.abc import Sequence
from functools import partial

from scalemark import layers as nn

GROWTH = 32


def densenet(
    image_px: int = 224, num_classes: int = 1001, *, num_layers: Sequence[int]
) -> nn.Tensor:
    x = nn.images(image_px)
    x = nn.conv_norm(x, 64, 7, strides=2)
    x = nn.max_pool(x, 3, 2, "same")
    for block, num in enumerate(num_layers):
        if block > 0:  # the transition halves channels and size
            x = _norm_conv(x, x.channels // 2, 1)
            x = nn.mean_pool(x, 2, 2)
        for _ in range(num):
            y = _norm_conv(x, 4 * GROWTH, 1)
            y = _norm_conv(y, GROWTH, 3)
            x = nn.concat(x, y)
    x = nn.relu(nn.batch_norm(x))
    return nn.logits(nn.global_mean(x), num_classes)


def _norm_conv(x: nn.Tensor, filters: int, kernel: int) -> nn.Tensor:
    return nn.conv(nn.relu(nn.batch_norm(x)), filters, kernel, bias=False, activation="linear")


MODELS = {"densenet121": partial(densenet, num_layers=(6, 12, 24, 16))}
