"""Small tensors are worked on as one, and nothing else changes."""

import numpy as np
import pytest
import tensorflow as tf

from tests.specs import small
from tests.trainer.gpu_kernels import step_graph, step_nodes
from trainer import model_tower
from trainer.run import open_training

SHAPES = [(2, 3), (70, 30), (5,), (), (3000,)]
LARGE = [(70, 30), (3000,)]


def tensors(seed):
    draws = np.random.default_rng(seed)
    return [tf.constant(draws.normal(size=shape), tf.float32) for shape in SHAPES]


def test_a_function_is_called_once_for_all_small_ones(all_devices):
    shapes = []

    def both(one, other):
        shapes.append(tuple(one.shape))
        return one * 3 + other

    ones, others = tensors(1), tensors(2)
    found = model_tower.elementwise(both, ones, others)
    assert shapes == [(2 * 3 + 5 + 1,), *LARGE]
    for one, other, sum_ in zip(ones, others, found, strict=True):
        assert np.array_equal(sum_, one * 3 + other)


def test_small_ones_are_joined_into_one(all_devices):
    given = tensors(1)
    *large, flat = model_tower.joined(given)
    assert [tuple(tensor.shape) for tensor in large] == LARGE
    wanted = [np.ravel(given[place]) for place in (0, 2, 3)]
    assert np.array_equal(flat, np.concatenate(wanted))
    assert model_tower.joined(large) == large


def test_a_shape_that_is_not_known_is_not_joined(all_devices):
    @tf.function(input_signature=[tf.TensorSpec((None,))])
    def doubled(tensor):
        return model_tower.elementwise(lambda one: 2 * one, [tensor])[0]

    assert doubled(tf.constant([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    "changes", [{}, {"precision": "bf16", "loss_scale": "1024"}, {"num_gpus": 2}]
)
def test_training_is_the_same_to_the_last_bit(make_devices, monkeypatch, changes):
    found = []
    for most in (model_tower.MOST_ELEMENTS, -1):
        monkeypatch.setattr(model_tower, "MOST_ELEMENTS", most)
        spec = small(model="lenet5", image_px=28, weight_decay=0.1, **changes)
        training, data = open_training(spec, make_devices(spec.num_gpus))
        losses = [float(training.towers.step(data.next())) for _ in range(3)]
        found.append((losses, [weights.tolist() for weights in training.update.weights(0)]))
    assert found[0] == found[1]


@pytest.mark.parametrize(("num_replicas", "num_saved"), [(1, 3), (2, 0)])
def test_gradients_that_are_summed_wait_for_no_others(
    make_devices, monkeypatch, num_replicas, num_saved
):
    """Of lenet5 the gradients of all four biases are small."""
    devices, num_divisions = make_devices(num_replicas), []
    spec = small(
        model="lenet5", image_px=28, num_gpus=num_replicas, precision="bf16", loss_scale="1024"
    )
    for most in (-1, model_tower.MOST_ELEMENTS):
        monkeypatch.setattr(model_tower, "MOST_ELEMENTS", most)
        nodes = step_nodes(step_graph(spec, devices), devices)
        num_divisions.append(sum(node.op == "RealDiv" for node in nodes))
    assert num_divisions[0] - num_divisions[1] == num_saved
