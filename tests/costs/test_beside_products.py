"""Work beside products is limited by a GPU's memory, its multiprocessors, or what waits."""

from dataclasses import replace

import numpy as np
import pytest

from costs.beside_products import BesideProducts
from costs.hardware import Hardware
from costs.networks import network
from costs.profiles import profile
from costs.work import Work

H200 = profile("h200_8")
L4 = profile("l4_8")  # 300 GB/s


def work(
    model: str,
    precision: str,
    batch_size: int = 64,
    seq_len: int | None = None,
    **others: object,
) -> Work:
    return Work(
        network=network(model, seq_len=seq_len), num_gpus=1, batch_size=batch_size,
        precision=precision, variable_update="replicated", local_parameter_device="gpu",
        all_reduce="nccl", **others,
    )  # fmt: skip


def beside(
    model: str, precision: str, hardware: Hardware = H200, **others: object
) -> BesideProducts:
    return BesideProducts.of(work(model, precision, **others), hardware, 1.0)


def test_kernels_of_one_value_at_a_time_take_longer_than_fast_memory() -> None:
    """ResNet-50 in bf16 on an H200; its fp16 kernels are vectorized."""
    brain, half = beside("resnet50", "bf16"), beside("resnet50", "fp16")
    assert brain.traffic_s + brain.scalar_traffic_s == pytest.approx(half.traffic_s)
    assert brain.scalar_s > 2 * brain.scalar_traffic_s
    assert brain.seconds(0.7) == pytest.approx(brain.traffic_s / 0.7 + brain.scalar_s)
    assert half.seconds(0.7) == half.traffic_s / 0.7


def test_slow_memory_takes_longer_than_such_kernels() -> None:
    slow = beside("resnet50", "bf16", L4)
    assert slow.seconds(0.7) == pytest.approx((slow.traffic_s + slow.scalar_traffic_s) / 0.7)


def test_multiprocessors_are_told_by_the_peak_in_fp32() -> None:
    """An A100 has 64 lanes in each of 108, an H100 128 in each of 132, at 1.41 and 1.98 GHz."""
    a100 = beside("resnet50", "bf16", profile("dgx_a100")).scalar_s
    h200 = beside("resnet50", "bf16").scalar_s
    assert a100 / h200 == pytest.approx(132 * 1.98 / (108 * 1.41), rel=0.02)
    unknown = replace(H200, tflops={"bf16": 989.0})
    assert beside("resnet50", "bf16", unknown).scalar_s == 0.0


def test_xla_makes_its_own_kernels() -> None:
    brain, half = (beside("gpt2", one, xla=True, data_format="NHWC") for one in ("bf16", "fp16"))
    assert brain == half
    assert brain.scalar_s == brain.bias_gradients_s == 0.0


def test_gradients_of_biases_wait_where_channels_come_last_in_half_precision() -> None:
    """The classifier's has a block for each 1,024 of 64 x 1000 values, and all others have 132."""
    last = beside("vgg16", "fp16", data_format="NHWC").bias_gradients_s
    assert last == pytest.approx((15 * 132 + 63) * 3.4e-6)
    dense = beside("vgg16", "fp16", data_format="NCHW").bias_gradients_s
    assert dense == pytest.approx((2 * 132 + 63) * 3.4e-6)
    assert beside("vgg16", "fp16").bias_gradients_s == 0.0
    assert beside("vgg16", "fp32", data_format="NHWC").bias_gradients_s == 0.0


def test_gradients_of_biases_of_few_tokens_wait_less() -> None:
    """A bug: they took as long whatever the batch. 12 layers of 768 to 3,072 channels."""
    few, many = (
        beside("gpt2", "bf16", batch_size=num, seq_len=16, data_format="NHWC").bias_gradients_s
        for num in (1, 512)
    )
    assert few == pytest.approx(12 * (12 + 12 + 36 + 48) * 3.4e-6)
    assert many == pytest.approx(48 * 132 * 3.4e-6)


def test_gradients_of_biases_come_once_for_each_micro_batch() -> None:
    """A bug: `recompute` was taken to repeat them, though it repeats the forward pass alone."""
    plain, again = (
        BesideProducts.of(
            work("gpt2", "bf16", gradient_accumulation=2, data_format="NHWC"), H200, num_passes
        )
        for num_passes in (2.0, 2.0 * 4 / 3)
    )
    assert plain.bias_gradients_s == again.bias_gradients_s
    assert again.traffic_s > plain.traffic_s


def test_few_channels_of_float32_leave_multiprocessors_idle() -> None:
    """16 blocks of 17 GB/s take most of the time of resnet18_cifar; of a P100 they are more."""
    assert waiting("resnet50", H200) < 0.4
    assert waiting("resnet18_cifar", H200) > 2
    assert waiting("resnet18_cifar", profile("p100_pcie_8")) < 0.8
    assert beside("resnet18_cifar", "fp16").by_channels_s == ()


def test_slower_memory_leaves_less_to_wait_for() -> None:
    """A bug: what blocks take besides was counted by one share of the bandwidth, whatever it is."""
    narrow = beside("resnet18_cifar", "fp32")
    own_s = [narrow.seconds(share) - narrow.traffic_s / share for share in (0.7, 0.35)]
    assert own_s[1] < 0.97 * own_s[0]
    both = narrow.seconds(np.array([0.7, 0.35]))
    assert list(both) == [narrow.seconds(0.7), narrow.seconds(0.35)]


def waiting(model: str, hardware: Hardware) -> float:
    """Return what blocks take besides, over what memory takes, in float32."""
    found = beside(model, "fp32", hardware)
    return float(found.seconds(0.7)) / (found.traffic_s / 0.7) - 1


def test_channels_are_brought_first_for_normalization_in_float32() -> None:
    last, first = (beside("resnet50", "tf32", data_format=one) for one in ("NHWC", "NCHW"))
    normalized = sum(elements for elements, _ in network("resnet50").normalized)
    more_s = 10 * 4 * 64 * normalized / 4.8e12
    assert last.traffic_s - first.traffic_s == pytest.approx(more_s)
    assert last.by_channels_s == first.by_channels_s
