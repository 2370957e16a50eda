"""The cost model counts the biases that TensorFlow's graph has gradients of."""

from collections import Counter

import pytest

from costs.networks import network
from tests.specs import small
from tests.trainer.gpu_kernels import step_graph, step_nodes

IMAGES = {"image_px": 32, "num_classes": 10}
TOKENS = {"seq_len": 32, "num_classes": 256, "image_px": 0}


@pytest.mark.parametrize(
    ("model", "sizes", "data_format"),
    [("vit_tiny", IMAGES, "NCHW"), ("vit_tiny", IMAGES, "NHWC"), ("bert_tiny", TOKENS, "NHWC")],
)
def test_the_format_of_images_moves_channels_of_convolutions_alone(
    make_devices, model, sizes, data_format
):
    """A bug: in NCHW biases of dense layers were taken to have their channels first, too."""
    devices = make_devices(1)
    spec = small(model=model, batch_size=2, data_format=data_format, **sizes)
    found = Counter(
        node.attr["data_format"].s.decode()
        for node in step_nodes(step_graph(spec, devices), devices)
        if node.op == "BiasAddGrad"
    )
    counted = Counter(
        data_format if one.is_of_convolution else "NHWC" for one in network(model, **sizes).biases
    )
    assert found == counted
