"""It trains, it does not pretend to: digits and text are learned, whatever the strategy."""

from dataclasses import replace

import numpy as np
import pytest

from scalemark.abilities import ALL_REDUCES, VARIABLE_UPDATES
from tests.specs import small
from trainer import model_tower
from trainer.data import digits, text
from trainer.run import build

pytestmark = pytest.mark.slow

NUM_STEPS = 200


@pytest.mark.parametrize(
    ("variable_update", "num_replicas"),
    [
        ("replicated", 4),
        pytest.param("replicated", 1, marks=pytest.mark.slow),
        pytest.param("parameter_server", 1, marks=pytest.mark.slow),
        pytest.param("parameter_server", 4, marks=pytest.mark.slow),
    ],
)
def test_digits_are_learned_within_200_steps(make_devices, variable_update, num_replicas):
    """Nine of ten images of 10 more training batches are then classified rightly."""
    spec = small(
        model="resnet18_cifar",
        data="digits",
        num_gpus=num_replicas,
        variable_update=variable_update,
        image_px=32,
        batch_size=32 if num_replicas == 1 else 16,
        learning_rate=0.02,
    )
    devices = make_devices(num_replicas)
    data = digits.open_input(spec, devices)
    training = build(spec, devices)
    losses: list[float] = []
    while len(losses) < NUM_STEPS and (
        len(losses) < 20 or np.median(losses[-20:]) > 0.1
    ):  # below that, they are learned
        losses.append(float(training.towers.step(data.next())))
    assert np.median(losses[-20:]) < 0.3 < losses[0]
    assert np.mean([_accuracy(training, *data.next()[0]) for _ in range(10)]) >= 0.9


def _accuracy(training, images, labels) -> float:
    weights, state = training.update.weights(0), training.towers.state(0)
    inputs = model_tower.normalized(images, "float32")
    logits, _ = training.template.model.stateless_call(weights, state, inputs, training=True)
    return np.mean(np.argmax(logits, 1) == labels.numpy())


ENTROPY = (
    3.26  # nats of a byte of the text by itself: who gets below has seen what stands around it
)
ADAMW = {"optimizer": "adamw", "momentum": 0.0, "weight_decay": 0.01, "learning_rate": 0.001}
ON_TEXT = ADAMW | {"data": "text", "image_px": 0, "num_classes": 256, "seq_len": 64}
GPT = small(model="gpt_mini", num_gpus=2, batch_size=8, learning_rate_warm_up=10, **ON_TEXT)
SYNCHRONOUS = [
    name
    for name, one in VARIABLE_UPDATES.items()
    if one.is_synchronous and not one.is_distributed and not one.has_own_loop
]


def in_mode(spec, variable_update: str):
    """Return the trial in a variable update, with the first all-reduce that CPU devices run."""
    update = VARIABLE_UPDATES[variable_update]
    able = (name for name in update.all_reduces if not ALL_REDUCES[name].gpu_only)
    device = update.local_parameter_devices[0]
    return replace(
        spec,
        variable_update=variable_update,
        all_reduce=next(able),
        local_parameter_device=device,
    )


def losses_of(spec, make_devices, num_steps: int) -> list[float]:
    devices = make_devices(spec.num_gpus)
    training, data = build(spec, devices), text.open_input(spec, devices)
    return [float(training.towers.step(data.next())) for _ in range(num_steps)]


@pytest.fixture(scope="module")
def replicated_curve(all_devices) -> list[float]:
    """Return the losses of 200 steps in variable_update=replicated."""
    devices = replace(all_devices, replicas=all_devices.replicas[: GPT.num_gpus])
    return losses_of(in_mode(GPT, "replicated"), lambda _: devices, NUM_STEPS)


def test_a_causal_model_learns_text_within_200_steps(replicated_curve):
    assert replicated_curve[0] == pytest.approx(np.log(256), abs=0.1)
    assert np.median(replicated_curve[-20:]) < 2.8 < ENTROPY


@pytest.mark.parametrize("variable_update", [one for one in SYNCHRONOUS if one != "replicated"])
def test_a_synchronous_mode_learns_as_replicated_does(
    make_devices, replicated_curve, variable_update
):
    """Gradients of two replicas have one sum, whatever the order, so that both curves are one."""
    curve = losses_of(in_mode(GPT, variable_update), make_devices, NUM_STEPS)
    assert np.abs(np.subtract(curve, replicated_curve)).max() < 1e-6
    assert np.median(curve[-20:]) < 2.8


def test_a_masked_model_learns_text_within_1200_steps(make_devices):
    """It learns how frequent each byte is in about 100 steps, and what surrounds it much later."""
    spec = small(model="bert_tiny", num_gpus=2, batch_size=8, learning_rate_warm_up=100, **ON_TEXT)
    devices = make_devices(2)
    training, data = build(spec, devices), text.open_input(spec, devices)
    losses: list[float] = []
    while len(losses) < 1200 and (len(losses) < NUM_STEPS or np.median(losses[-50:]) > 2.8):
        losses.append(float(training.towers.step(data.next())))
    assert np.median(losses[150:NUM_STEPS]) == pytest.approx(ENTROPY, abs=0.2)
    assert np.median(losses[-50:]) < 2.8 < ENTROPY
