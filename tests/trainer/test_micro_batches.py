"""k micro-batches per update train as one batch that is k times as large."""

from dataclasses import replace

import numpy as np
import pytest
from tensorflow.python.eager import context

from scalemark.abilities import OPTIMIZERS
from tests.specs import small
from tests.tiers import every_other
from tests.trainer.test_towers import INDEPENDENT, MODES, OF_EACH_UPDATE, RATE, recorded, trained
from trainer.mode_check import (
    convolutional,
    largest_difference,
    normalized,
    split,
    train,
    whole_batches,
)
from trainer.run import build, open_training

ACCUMULATED = {"gradient_accumulation": 4, **RATE}


@pytest.mark.parametrize("mode", ["replicated_none", "sharded"])
def test_four_micro_batches_train_as_the_whole_batch_does(make_devices, alone, mode):
    wanted = alone(2, 3, weight_decay=0.1)
    placement, training, placed = recorded(
        make_devices, 2, whole_batches(2, 3), weight_decay=0.1, **MODES[mode], **ACCUMULATED
    )
    assert placement.problem(placed) is None
    assert set(placement.summary()["convolution"]) == {"Conv2D @ CPU:1", "Conv2D @ CPU:2"}
    for replica in range(2):
        assert largest_difference(training.update.weights(replica), wanted) < 1e-6


def accumulation_cases():
    """Every mode with several steps in a call, and some compiled; the rest is slow."""
    for mode in MODES:
        for xla, num_steps in [("off", 3), ("on", 3), ("off", 1), ("on", 1)]:
            is_quick = (xla, num_steps) == ("off", 3)
            is_quick |= (xla, num_steps) == ("on", 3) and mode in OF_EACH_UPDATE
            marks = () if is_quick else pytest.mark.slow
            changes = {"xla": xla, "steps_per_execution": num_steps}
            yield pytest.param(mode, changes, marks=marks)


@pytest.mark.integration
@pytest.mark.parametrize(("mode", "changes"), list(accumulation_cases()), ids=str)
def test_every_mode_accumulates_exactly(make_devices, alone, mode, changes):
    placement, training, placed = recorded(
        make_devices, 2, whole_batches(2, 3), **MODES[mode], **ACCUMULATED, **changes
    )
    assert placement.problem(placed) is None
    for replica in range(2):
        assert largest_difference(training.update.weights(replica), alone(2, 3)) < 1e-6


@pytest.mark.integration
@pytest.mark.parametrize(
    ("mode", "optimizer", "packs"),
    every_other(("replicated_none", "sharded"), tuple(OPTIMIZERS), (0, 3)),
)
def test_every_optimizer_updates_once_for_all_micro_batches(
    make_devices, alone, mode, optimizer, packs
):
    changes = {"optimizer": optimizer, "momentum": 0.0, "learning_rate": 0.01}
    wanted = alone(2, 3, **changes)
    update = trained(
        make_devices,
        2,
        whole_batches(2, 3),
        gradient_accumulation=4,
        gradient_repacking=packs,
        **MODES[mode],
        **changes,
    ).update
    # adam divides by roots of squares, which enlarges what rounding does to small gradients
    bound = 1e-5 if optimizer == "adam" else 1e-6
    assert largest_difference(update.weights(1), wanted) < bound


def test_an_independent_replica_accumulates_its_own_batches(make_devices):
    batches = list(whole_batches(2, 3))
    whole = trained(make_devices, 2, batches, **INDEPENDENT).update
    update = trained(make_devices, 2, batches, **INDEPENDENT, **ACCUMULATED).update
    for replica in range(2):
        assert largest_difference(update.weights(replica), whole.weights(replica)) < 1e-6


@pytest.mark.integration
@pytest.mark.parametrize("local_parameter_device", ["cpu", "gpu"])
def test_staged_weights_are_the_same_for_all_micro_batches(make_devices, local_parameter_device):
    mode = {
        "variable_update": "parameter_server",
        "local_parameter_device": local_parameter_device,
        "staged_vars": True,
    }
    batches = list(whole_batches(2, 3))
    whole = trained(make_devices, 2, batches, **mode).update.weights(0)
    update = trained(make_devices, 2, batches, **mode, **ACCUMULATED).update
    assert largest_difference(update.weights(0), whole) < 1e-6


def test_the_loss_is_the_mean_over_micro_batches(make_devices):
    batches = list(whole_batches(2, 1))
    spec = small(num_gpus=2, **RATE)
    _, whole = train(spec, make_devices(2), batches)
    _, loss = train(replace(spec, gradient_accumulation=4), make_devices(2), batches)
    assert loss == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("loss_scale", ["128", "dynamic"])
def test_scaled_losses_are_accumulated_and_unscaled_once(make_devices, alone, loss_scale):
    wanted = alone(2, 3)
    changes = {"precision": "fp16", "loss_scale": loss_scale}
    training = trained(make_devices, 2, whole_batches(2, 3), **ACCUMULATED, **changes)
    assert 0 < largest_difference(training.update.weights(1), wanted) < 2e-3
    assert training.towers.loss_scale.num_skipped == 0


def test_one_micro_batch_that_overflows_skips_the_update(make_devices):
    images, labels = next(whole_batches(2, 1))
    images[:2] *= 1e30  # a quarter of the first replica's
    changes = {"precision": "fp16", "loss_scale": "dynamic", **ACCUMULATED}
    start = trained(make_devices, 2, [], **changes).update.weights(0)
    training = trained(make_devices, 2, [(images, labels)], **changes)
    assert largest_difference(training.update.weights(0), start) == 0
    assert training.towers.loss_scale.num_skipped == 1


def test_micro_batches_hand_on_statistics_and_seeds(make_devices):
    """With weights that stand still two micro-batches leave the state that two steps leave."""
    images, labels = next(whole_batches(1, 1))
    halves = [(images[:4], labels[:4]), (images[4:], labels[4:])]
    still = {"learning_rate": 0.0}
    steps = trained(make_devices, 1, halves, normalized, **still).towers
    micro = trained(
        make_devices, 1, [(images, labels)], normalized, gradient_accumulation=2, **still
    ).towers
    once = trained(make_devices, 1, halves[:1], normalized, **still).towers
    # differently fused, sums of statistics are rounded differently
    assert largest_difference(micro.statistics(0), steps.statistics(0)) < 1e-6
    assert largest_difference(micro.statistics(0), once.statistics(0)) > 1e-4
    for ours, theirs in zip(seeds(micro), seeds(steps), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert any((ours != first).any() for ours, first in zip(seeds(micro), seeds(once), strict=True))


def seeds(towers):
    return [values for values in towers.state(0) if values.dtype.kind != "f"]


def test_dropout_differs_between_micro_batches(make_devices):
    """The same image in both: equal seeds would make one batch of both the same as one alone."""
    images, labels = next(whole_batches(1, 1))
    twice = [(np.concatenate([images, images]), np.concatenate([labels, labels]))]
    alone = trained(make_devices, 1, [(images, labels)], normalized, **RATE)
    micro = trained(make_devices, 1, twice, normalized, gradient_accumulation=2, **RATE)
    assert largest_difference(micro.update.weights(0), alone.update.weights(0)) > 1e-4


def test_there_is_a_loop_only_where_micro_batches_are_accumulated(make_devices):
    assert not any(op in loops(make_devices, 1) for op in ("While", "StatelessWhile"))
    assert "StatelessWhile" in loops(make_devices, 4)


def test_towers_that_accumulate_do_not_wait_for_each_other(make_devices):
    """A stateful op in the loop, as Empty, would have TensorFlow call one tower after the other."""
    graph = step_graph(make_devices, 4)
    calls = [op for op in graph.get_operations() if op.name.startswith("tower_")]
    assert [op.type for op in calls if "Call" in op.type] == ["PartitionedCall"] * 2
    assert [op.control_inputs for op in calls if "Call" in op.type] == [[], []]


def test_sums_begin_with_zeros_that_are_no_constant(make_devices):
    """A constant would be held for ever beside the sums, which could not be made in place."""
    devices = make_devices(2)
    training = build(small(num_gpus=2, **ACCUMULATED), devices, convolutional)
    context.context().enable_graph_collection()
    try:
        context.context().export_run_metadata()  # drop what was collected before
        training.towers.step(split(list(whole_batches(2, 1)), devices))
        metadata = context.context().export_run_metadata()
    finally:
        context.context().disable_graph_collection()
    fills = [
        node
        for of_function in metadata.function_graphs
        for graph in of_function.partition_graphs
        for function in graph.library.function
        for node in function.node_def
        if node.op == "Fill"
    ]
    assert len(fills) >= len(training.update.weights(0))


def step_graph(make_devices, num):
    devices = make_devices(2)
    training = build(small(num_gpus=2, gradient_accumulation=num), devices, convolutional)
    batches = split(list(whole_batches(2, 1)), devices)
    return training.towers.step.trace(batches)


def loops(make_devices, num):
    """Return the types of op in all functions of the step."""
    functions = step_graph(make_devices, num).as_graph_def().library.function
    return {node.op for function in functions for node in function.node_def}


def test_an_input_hands_a_step_all_micro_batches(make_devices):
    spec = small(num_gpus=2, gradient_accumulation=4)  # of 2 images each
    training, data = open_training(spec, make_devices(2))
    assert [images.shape for images, _ in data.next()] == [(8, 32, 32, 3)] * 2
    assert [labels.shape for _, labels in data.next()] == [(8,)] * 2
    assert spec.examples_per_step == training.items_per_step(spec) == 16


@pytest.mark.integration
@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_records_are_fed_for_all_micro_batches(make_devices, steps_per_execution):
    spec = small(
        num_gpus=2,
        gradient_accumulation=3,
        data="digits",
        steps_per_execution=steps_per_execution,
    )
    training, data = open_training(spec, make_devices(2))
    assert np.isfinite(float(training.towers.step(data.next())))
