"""Loops written by hand run where ours does, and have the layers of Keras."""

import sys

import pytest

from benchmarks.peers import device_names
from scalemark.records.machine import DeviceKind
from tests.conftest import PROJECT
from tests.ran import ran
from tests.specs import small


@pytest.mark.parametrize(
    ("kind", "names"),
    [(DeviceKind.GPU, ["GPU:0", "GPU:1"]), (DeviceKind.CPU_DEVICE, ["CPU:0", "CPU:1"])],
)
def test_peers_run_on_devices_of_the_trials_kind(kind, names):
    assert device_names(small(num_gpus=2, device_kind=kind)) == names


LAYERS_OF_OURS = """
import sys
from benchmarks import keras_layers, peers
from tests.specs import small
text = {"image_px": 0, "seq_len": 16, "num_classes": 256}
keras_layers.use()
for spec in (small(model="resnet18_cifar"), small(model="bert_tiny", **text)):
    layers = peers._model(spec)._flatten_layers()
    print(*sorted({type(layer).__name__ for layer in layers if type(layer).__module__.startswith("trainer")}))
"""


@pytest.mark.integration
def test_models_of_peers_have_the_layers_of_keras_where_it_has_them():
    """A bug: normalization moved within the trainer, and peers were compared with ours in both."""
    ended = ran([sys.executable, "-c", LAYERS_OF_OURS], cwd=PROJECT)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-2:] == ["", "AddBias AddPositions AddSegments Mask"]
