"""Keras' own `fit` trains as our towers do, step by step, and is timed from outside."""

from dataclasses import replace

import pytest

from scalemark.abilities import OPTIMIZERS
from tests.own_models import CONVOLUTIONAL, REGRESSION, TOKENS
from tests.specs import small
from tests.trainer.test_own_model import own
from trainer import UnsupportedTrialError, measured, run
from trainer.mode_check import largest_difference

FIT = {"variable_update": "fit", "all_reduce": "collective"}
NUM_STEPS = 5
EXACT = 1e-6  # share of a loss, and difference of weights


def losses(training, data, spec):
    """Return the loss of each step, as a trial takes and reads them."""
    clock = measured.StepClock(
        synchronize=lambda: None,
        effort=measured.Effort(
            min_warm_up_steps=0,
            num_steps=NUM_STEPS,
            min_window_s=0.0,
        ),
        on_sample=lambda _: None,
    )
    if spec.variable_update == "fit":
        training.towers.run_steps(data.next(), clock)
    else:
        measured.run_steps(clock, data.next, training.towers.step)
    timed = clock.timed
    assert all(sample.duration_s > 0 for sample in timed.samples)
    return [sample.loss for sample in timed.samples]


def assert_trains_as_towers(spec, devices):
    """Compare all losses and the weights of each replica."""
    theirs, ours = replace(spec, **FIT), replace(spec, variable_update="replicated")
    fit, data = run.open_training(theirs, devices)
    towers, same_data = run.open_training(ours, devices)
    assert losses(fit, data, theirs) == pytest.approx(losses(towers, same_data, ours), rel=EXACT)
    for replica in range(spec.num_gpus):
        of_fit, of_towers = fit.update.weights(replica), towers.update.weights(replica)
        assert largest_difference(of_fit, of_towers) < EXACT


@pytest.mark.parametrize("num_replicas", [1, 2])
def test_losses_of_fit_are_ours_step_by_step(make_devices, num_replicas):
    spec = small(num_gpus=num_replicas, learning_rate=0.05, weight_decay=0.01)
    assert_trains_as_towers(spec, make_devices(num_replicas))


OF_OPTIMIZERS = {
    "momentum": {"momentum": 0.9},
    "rmsprop": {"momentum": 0.5},
    "adamw": {"weight_decay": 0.1},
}


@pytest.mark.integration
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_optimizer_of_keras_updates_as_ours(make_devices, optimizer):
    changes = {"momentum": 0.0, "weight_decay": 0.01, "learning_rate": 0.001}
    spec = small(optimizer=optimizer, num_gpus=2, **changes | OF_OPTIMIZERS.get(optimizer, {}))
    assert_trains_as_towers(spec, make_devices(2))


@pytest.mark.integration
@pytest.mark.parametrize("text", [CONVOLUTIONAL, REGRESSION, TOKENS])
def test_fit_trains_a_model_of_ones_own_as_towers_do(make_devices, text):
    assert_trains_as_towers(own(text, num_gpus=2), make_devices(2))


def test_fit_counts_the_bytes_of_one_replica(make_devices):
    training = run.build(small(num_gpus=2, optimizer="adam", momentum=0.0, **FIT), make_devices(2))
    counted = training.num_parameters * 4
    assert run.towers.variable_bytes(training.update) == counted
    assert run.towers.optimizer_state_bytes(training.update) == 2 * counted


def test_fit_refuses_what_keras_would_do_otherwise(make_devices):
    with pytest.raises(UnsupportedTrialError) as refused:
        run.build(small(xla="on", **FIT), make_devices(1))
    assert str(refused.value) == (
        "xla=on: variable_update=fit trains with xla=off alone; leave it out, or choose another "
        "strategy"
    )
