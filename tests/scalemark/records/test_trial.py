"""A trial counts the examples of an update."""

from dataclasses import replace

from scalemark.records.trial import TrialSpec
from tests.specs import small


def test_an_update_takes_the_micro_batches_of_all_replicas():
    spec = small(num_gpus=3, batch_size=2, gradient_accumulation=4)
    assert (spec.examples_per_replica, spec.examples_per_step) == (8, 24)


def test_trials_of_one_micro_batch_keep_their_identity():
    spec = small(num_gpus=3)
    assert "gradient_accumulation" not in spec.to_json()
    assert TrialSpec.from_json(spec.to_json()).gradient_accumulation == 1
    assert replace(spec, gradient_accumulation=2).trial_id != spec.trial_id


def test_trials_of_one_curve_under_strong_scaling_take_as_many_examples():
    four = small(num_gpus=4, batch_size=2, gradient_accumulation=2, scaling="strong")
    assert four.curve == replace(four, num_gpus=1, batch_size=8).curve
    assert four.curve != replace(four, num_gpus=1, batch_size=2).curve
