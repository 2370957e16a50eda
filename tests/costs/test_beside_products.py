"""What limits work beside products: a GPU's memory, its multiprocessors, or what waits."""

import math
from dataclasses import replace

import pytest

from costs.beside_products import BesideProducts
from costs.hardware import Hardware
from costs.networks import network
from costs.profiles import profile
from costs.work import Work

H200 = profile("h200_8")
L4 = profile("l4_8")  # 300 GB/s


def beside(
    model: str, precision: str, hardware: Hardware = H200, **others: object
) -> BesideProducts:
    work = Work(
        network=network(model), num_gpus=1, batch_size=64, precision=precision,
        variable_update="replicated", local_parameter_device="gpu", all_reduce="nccl", **others,
    )  # fmt: skip
    return BesideProducts.of(work, hardware, 1.0)


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
    assert brain.scalar_s == brain.serial_s == 0.0


def test_gradients_of_biases_wait_where_channels_come_last_in_half_precision() -> None:
    last = beside("vgg16", "fp16", data_format="NHWC").serial_s
    assert last == pytest.approx(16 * 0.45e-3)
    dense = beside("vgg16", "fp16", data_format="NCHW").serial_s
    assert dense == pytest.approx(3 * 0.45e-3)
    assert beside("vgg16", "fp16").serial_s == 0.0
    assert beside("vgg16", "fp32", data_format="NHWC").serial_s == 0.0


def test_few_channels_of_float32_leave_multiprocessors_idle() -> None:
    """16 blocks of 17 GB/s take most of the time of resnet18_cifar; of a P100 they are more."""
    wide, narrow = beside("resnet50", "fp32"), beside("resnet18_cifar", "fp32")
    assert 3 * wide.serial_s < wide.traffic_s
    assert narrow.serial_s > 5 * narrow.traffic_s
    slow = beside("resnet18_cifar", "fp32", profile("p100_pcie_8"))
    assert slow.serial_s < slow.traffic_s
    assert beside("resnet18_cifar", "fp16").serial_s == 0.0


def test_channels_are_brought_first_for_normalization_in_float32() -> None:
    last, first = (beside("resnet50", "tf32", data_format=one) for one in ("NHWC", "NCHW"))
    normalized = sum(elements for elements, _ in network("resnet50").normalized)
    more_s = 10 * 4 * 64 * normalized / 4.8e12
    assert last.traffic_s - first.traffic_s == pytest.approx(more_s)
    assert math.isclose(last.serial_s, first.serial_s)
