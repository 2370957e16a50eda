"""What the cost model counts beside products is what the ops of TensorFlow's graph read and write."""

import pytest

from costs.memory import is_half
from costs.networks import network
from tests.specs import small
from tests.trainer.gpu_kernels import step_graph
from tests.trainer.moved_bytes import moved_bytes


@pytest.mark.parametrize(
    ("model", "sizes", "precision"),
    [
        ("resnet20_cifar", {"image_px": 32, "num_classes": 10}, "fp32"),
        ("gpt_mini", {"seq_len": 128, "num_classes": 256, "image_px": 0}, "fp32"),
        ("gpt_mini", {"seq_len": 128, "num_classes": 256, "image_px": 0}, "bf16"),
    ],
)
def test_what_ops_read_and_write_is_counted(make_devices, model, sizes, precision):
    claimed = make_devices(1)
    two, four = (
        moved_bytes(
            step_graph(
                small(model=model, precision=precision, batch_size=batch_size, **sizes), claimed
            )
        ).total()
        for batch_size in (2, 4)
    )
    of_example = network(model, **sizes).op_by_op.num_bytes(2.0 if is_half(precision) else 4.0)
    assert of_example == pytest.approx((four - two) / 2, rel=0.15)
