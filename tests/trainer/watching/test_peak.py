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


def test_without_room_for_large_matrices_the_peak_is_unknown(make_devices, monkeypatch):
    plain = utilization._products

    def products(size, *others):
        if size > 512:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")
        return plain(size, *others)

    monkeypatch.setattr(utilization, "_products", products)
    assert peak_flops_per_s(make_devices(1), tf.float32) is None
