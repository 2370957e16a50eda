"""It trains, it does not pretend to: handwritten digits are learned in 200 steps, whatever the strategy."""

import numpy as np
import pytest

from tests.specs import small
from trainer.data import digits
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
    logits, _ = training.towers._model.stateless_call(weights, state, images, training=True)
    return np.mean(np.argmax(logits, 1) == labels.numpy())
