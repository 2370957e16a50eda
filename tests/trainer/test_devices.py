"""A trial takes the first GPUs that it sees, and hides the rest inside TensorFlow."""

import pytest
import tensorflow as tf

from store.records import DeviceKind
from tests.specs import small
from trainer import devices, run
from trainer.errors import UnsupportedTrialError


@pytest.fixture
def hidden_but(monkeypatch):
    """There is no GPU here: TensorFlow is told of four, and what is left visible is noted."""
    left: list[str] = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: ["first", "second", "third", "fourth"])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda gpus, _: left.extend(gpus))
    monkeypatch.setattr(tf.config.optimizer, "set_experimental_options", lambda _: None)
    return left


def test_gpus_beyond_those_of_the_trial_are_hidden(hidden_but):
    claimed = devices.claim(DeviceKind.GPU, 2)
    assert hidden_but == ["first", "second"]
    assert [devices.short_name(name) for name in claimed.replicas] == ["GPU:0", "GPU:1"]


def test_more_replicas_than_gpus_are_unsupported(hidden_but):
    with pytest.raises(UnsupportedTrialError, match="TensorFlow sees 4 GPUs where the trial wants 5"):
        devices.claim(DeviceKind.GPU, 5)


def test_of_all_visible_gpus_the_trials_own_are_watched(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-c,GPU-d,GPU-a,GPU-b")
    assert run._gpu_uuids(small(device_kind="gpu", num_gpus=2, visibility="all")) == ["GPU-c", "GPU-d"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    assert run._gpu_uuids(small(device_kind="gpu", num_gpus=1)) == ["MIG-1"]
    assert run._gpu_uuids(small(num_gpus=1)) == []
