"""The peak of a device is its fastest product of matrices, of real ones."""

from itertools import count

import pytest
import tensorflow as tf

from trainer.watching import utilization
from trainer.watching.utilization import peak_flops_per_s


def ticking(seconds):
    """A clock by which this long passes from one look to the next."""
    looks = count()
    return lambda: seconds * next(looks)


def test_sizes_end_with_the_first_whose_product_takes_long(make_devices):
    found = peak_flops_per_s(make_devices(1), tf.float32, clock=ticking(1 / 4))
    assert found == pytest.approx(2 * 512**3 * 4)


def test_the_fastest_size_makes_the_peak(make_devices, monkeypatch):
    monkeypatch.setattr(utilization, "SIZES", (512, 1024))
    found = peak_flops_per_s(make_devices(1), tf.float32, clock=ticking(1 / 128))
    assert found == pytest.approx(3 * 2 * 1024**3 * 128)  # three in a turn


@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.float16])
def test_products_side_by_side_all_count(make_devices, dtype):
    found = peak_flops_per_s(make_devices(2), dtype, num_at_once=3, clock=ticking(1 / 4))
    assert found == pytest.approx(3 * 2 * 512**3 * 4)


def test_products_side_by_side_are_different_ones(all_devices):
    first, second, third = utilization._products(512, tf.float32, num_at_once=3)()
    assert (float(second), float(third)) == pytest.approx((2 * float(first), 3 * float(first)))


def test_without_room_for_large_matrices_the_peak_is_unknown(make_devices, monkeypatch):
    plain = utilization._products

    def products(size, *others):
        if size > 512:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        return plain(size, *others)

    monkeypatch.setattr(utilization, "_products", products)
    assert peak_flops_per_s(make_devices(1), tf.float32) is None
