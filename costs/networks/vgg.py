"""VGG (Simonyan and Zisserman 2014), configurations A, B, D and E."""

from functools import partial

from costs.layers import Definition, Layers, Output


def _vgg(num_convs: tuple[int, ...], net: Layers, x: Output, num_classes: int) -> Output:
    for num, filters in zip(num_convs, (64, 128, 256, 512, 512), strict=True):
        for _ in range(num):
            x = net.conv(x, filters, 3)
        x = net.pool(x, 2, 2)
    x = net.dropout(net.dense(net.flatten(x), 4096))
    x = net.dropout(net.dense(x, 4096))
    return net.dense(x, num_classes, relu=False)


_CONVS = {
    "vgg11": (1, 1, 2, 2, 2),
    "vgg13": (2, 2, 2, 2, 2),
    "vgg16": (2, 2, 3, 3, 3),
    "vgg19": (2, 2, 4, 4, 4),
}
NETWORKS = {
    name: Definition(image_px=224, describe=partial(_vgg, num_convs))
    for name, num_convs in _CONVS.items()
}
