"""Vision transformer (Dosovitskiy et al. 2020): patches of an image are the tokens."""

from functools import partial

from scalemark import layers as nn
from scalemark.models.gpt import attention, feed_forward


def vit(
    image_px: int = 224,
    num_classes: int = 1000,
    *,
    patch_px: int,
    num_layers: int,
    width: int,
    num_heads: int,
    dropout_rate: float = 0.1,
) -> nn.Tensor:
    if image_px >= patch_px and image_px % patch_px:
        raise nn.SizeError(f"image_px={image_px}: wanted a multiple of {patch_px}, the patch")
    x = nn.images(image_px)
    x = nn.conv(x, width, patch_px, strides=patch_px, padding="valid", activation="linear")
    x = nn.class_token(nn.in_a_row(x))
    x = nn.dropout(nn.positions(x, x.shape[0]), dropout_rate)
    for _ in range(num_layers):
        x = nn.kept(x)
        x = nn.add(x, attention(_norm(x), num_heads, dropout_rate))
        x = nn.add(x, feed_forward(_norm(x), dropout_rate))
    x = nn.first(_norm(nn.kept(x)))
    return nn.logits(x, num_classes)


_norm = partial(nn.layer_norm, epsilon=1e-6)

MODELS = {
    "vit_b16": partial(vit, patch_px=16, num_layers=12, width=768, num_heads=12),
    # for images of 32 px on CPU devices
    "vit_tiny": partial(
        vit, image_px=32, num_classes=10, patch_px=4, num_layers=4, width=128, num_heads=4
    ),
}
