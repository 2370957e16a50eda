"""A trial takes the first GPUs that it sees, and hides the rest inside TensorFlow."""

from dataclasses import replace

import pytest
import tensorflow as tf

from scalemark.host import gpu_libraries
from scalemark.records.machine import DeviceKind
from tests.specs import small
from trainer import UnsupportedTrialError, devices, run

DETAILS = {
    "first": {"device_name": "NVIDIA A100", "compute_capability": (8, 0)},
    "second": {"device_name": "Tesla V100", "compute_capability": (7, 0)},
    "third": {"device_name": "of another vendor"},
}


@pytest.fixture
def hidden_but(monkeypatch):
    """There is no GPU here: TensorFlow is reported of four, and what is left visible is noted."""
    left: list[str] = []
    monkeypatch.setattr(
        tf.config, "list_physical_devices", lambda _: ["first", "second", "third", "fourth"]
    )
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda gpus, _: left.extend(gpus))
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: left)
    monkeypatch.setattr(tf.config.experimental, "get_device_details", DETAILS.__getitem__)
    monkeypatch.setattr(tf.config.optimizer, "set_experimental_options", lambda _: None)
    return left


def test_gpus_beyond_those_of_the_trial_are_hidden(hidden_but):
    claimed = devices.claim(DeviceKind.GPU, 2)
    assert hidden_but == ["first", "second"]
    assert [devices.short_name(name) for name in claimed.replicas] == ["GPU:0", "GPU:1"]


def test_more_replicas_than_gpus_are_unsupported(hidden_but):
    with pytest.raises(
        UnsupportedTrialError, match="TensorFlow sees 4 GPUs where the trial wants 5"
    ):
        devices.claim(DeviceKind.GPU, 5)


def test_a_driver_that_cannot_compile_tensorflows_kernels_is_unsupported(hidden_but, monkeypatch):
    """A bug: the self-check and trials by hand gave CUDA's raw error for every kernel."""
    card = {"device_name": "NVIDIA H100 80GB HBM3", "compute_capability": (9, 0)}
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda _: ["first"])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: card)
    driver_550 = gpu_libraries.Libraries(cuda=(12, 4))
    monkeypatch.setattr(gpu_libraries, "installed", lambda: driver_550)
    with pytest.raises(UnsupportedTrialError, match=r"the driver knows CUDA 12\.4, and .* 12\.5"):
        devices.claim(DeviceKind.GPU, 1)


def test_the_oldest_gpu_of_a_trial_says_what_all_can_do(hidden_but):
    assert devices.claim(DeviceKind.GPU, 3).compute_capability == (7, 0)


@pytest.mark.parametrize(
    ("precision", "found", "message"),
    [
        ("tf32", (7, 0), "precision=tf32: needs compute capability 8.0, found 7.0"),
        ("bf16", (7, 5), "precision=bf16: needs compute capability 8.0, found 7.5"),
    ],
)
def test_a_precision_that_a_gpu_lacks_is_unsupported(make_devices, precision, found, message):
    old = replace(make_devices(1), kind=DeviceKind.GPU, compute_capability=found)
    with pytest.raises(UnsupportedTrialError, match=f"^{message}$"):
        run.build(small(precision=precision), old)


@pytest.mark.parametrize(("precision", "override"), [("tf32", "0"), ("fp32", "1"), ("bf16", "1")])
def test_a_precision_that_a_variable_overrides_is_unsupported(monkeypatch, precision, override):
    """A bug: the self-check passed tf32 that was fp32."""
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", override)
    with pytest.raises(UnsupportedTrialError, match=f"override precision={precision}; unset it$"):
        run.prepare(small(precision=precision, device_kind=DeviceKind.GPU))
