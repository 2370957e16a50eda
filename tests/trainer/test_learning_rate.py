"""A learning rate rises over its warm-up, by one share per update, in every optimizer."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf

from scalemark.abilities import OPTIMIZERS
from tests.specs import small
from trainer import towers
from trainer.mode_check import gradients_at, largest_difference, train, whole_batches
from trainer.optimizers import LearningRate
from trainer.towers import Placed

SGD = small(num_gpus=2, optimizer="sgd", momentum=0.0, weight_decay=0.0, learning_rate=0.1)


def rates(num_updates: int, **changes) -> list[float]:
    """Return the learning rate of each update, on a device of its own."""
    rate = LearningRate(small(learning_rate=0.4, **changes))

    @tf.function(autograph=False)
    def update():
        rate.begin_step(["/CPU:0"])
        return rate.on("/CPU:0")

    return [float(update()) for _ in range(num_updates)]


def test_it_rises_linearly_to_its_value():
    assert rates(6, learning_rate_warm_up=4) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    assert rates(2) == pytest.approx([0.4, 0.4])


def test_without_a_warm_up_it_is_a_number_and_counts_nothing():
    with tf.Graph().as_default() as graph:
        rate = LearningRate(small(learning_rate=0.4))
        rate.begin_step(["/CPU:0"])
        assert rate.on("/CPU:0") == 0.4
    assert graph.get_operations() == []


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_optimizer_takes_the_rate_of_the_update(make_devices, optimizer):
    """The first update of a warm-up over 4 is that of a quarter of the rate."""
    device = make_devices(1).replicas[0]
    spec = small(optimizer=optimizer, learning_rate=0.4, weight_decay=0.1)

    def first_update(spec) -> np.ndarray:
        rule = towers.load("optimizers", optimizer).create(spec)
        placed = Placed.create(np.array([1.0, -2.0]), device, rule)

        @tf.function(autograph=False)
        def update():
            rule.begin_step([placed.variable.device])
            placed.apply(tf.constant([0.5, 0.25]), rule)

        update()
        return placed.variable.numpy()

    warming = first_update(replace(spec, learning_rate_warm_up=4))
    assert warming == pytest.approx(first_update(replace(spec, learning_rate=0.1)), abs=1e-7)
    assert np.abs(warming - first_update(spec)).max() > 1e-3


@pytest.mark.parametrize(
    "changes",
    [
        {"variable_update": "parameter_server"},
        {"variable_update": "replicated"},
        pytest.param(
            {"variable_update": "replicated", "steps_per_execution": 3},
            marks=pytest.mark.integration,
        ),
        pytest.param(
            {"variable_update": "mirrored", "all_reduce": "none"}, marks=pytest.mark.integration
        ),
        pytest.param({"variable_update": "replicated", "xla": "on"}, marks=pytest.mark.integration),
    ],
)
def test_three_steps_of_a_mode_take_three_rates(make_devices, changes):
    """w(t) = w(t - 1) - rate(t) g(w(t - 1)), with rates of 0.05, 0.1 and 0.1."""
    batches = list(whole_batches(2, 3))
    wanted = train(SGD, make_devices(2), [])[0].update.weights(0)
    for rate, batch in zip((0.05, 0.1, 0.1), batches, strict=True):
        gradients = gradients_at(wanted, replace(SGD, num_gpus=1), make_devices(1), batch)
        wanted = [w - rate * g for w, g in zip(wanted, gradients, strict=True)]
    spec = replace(SGD, **changes)
    ours, _ = train(replace(spec, learning_rate_warm_up=2), make_devices(2), batches)
    assert largest_difference(ours.update.weights(1), wanted) < 1e-6
    without = train(spec, make_devices(2), batches)[0].update.weights(1)
    assert largest_difference(without, wanted) > 1e-4


def test_an_update_that_is_skipped_does_not_count(make_devices):
    """A loss scale that overflows float16 skips all steps, and one that does not, none."""
    spec = small(
        num_gpus=2, precision="fp16", optimizer="sgd", momentum=0.0, learning_rate_warm_up=4
    )

    def count(loss_scale: str) -> int:
        training, _ = train(
            replace(spec, loss_scale=loss_scale), make_devices(2), list(whole_batches(2, 2))
        )
        counts = training.towers._optimizer.learning_rate._counts.values()
        (num_updates,) = {float(count) for count in counts}
        return int(num_updates)

    assert (count("1e30"), count("1")) == (0, 2)
