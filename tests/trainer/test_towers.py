"""Every synchronous mode trains exactly as one device with the whole batch does, and does it where it says."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from store.records import DeviceKind
from tests.specs import small
from trainer import op_placement
from trainer.all_reduces import nccl
from trainer.devices import Devices
from trainer.errors import UnsupportedTrialError
from trainer.run import build

IMAGE_PX, NUM_CLASSES, BATCH_SIZE = 8, 5, 3

MODES = {
    "ps_cpu": {"variable_update": "parameter_server", "local_parameter_device": "cpu"},
    "ps_gpu": {"variable_update": "parameter_server", "local_parameter_device": "gpu"},
    "replicated_none": {"variable_update": "replicated", "all_reduce": "none"},
    "replicated_pscpu": {"variable_update": "replicated", "all_reduce": "pscpu"},
    "replicated_psgpu": {"variable_update": "replicated", "all_reduce": "psgpu"},
}
INDEPENDENT = {"variable_update": "independent"}


def conv_model() -> keras.Model:
    """Convolutions and a dense layer; no batch normalization, no dropout."""
    images = keras.Input((IMAGE_PX, IMAGE_PX, 3))
    x = keras.layers.Conv2D(4, 3, activation="relu")(images)
    x = keras.layers.Conv2D(5, 3, activation="relu")(x)
    return keras.Model(images, keras.layers.Dense(NUM_CLASSES)(keras.layers.Flatten()(x)))


def normalized_model() -> keras.Model:
    from trainer import layers

    images = keras.Input((IMAGE_PX, IMAGE_PX, 3))
    x = keras.layers.Flatten()(layers.conv_norm(images, 4, 3))
    return keras.Model(images, keras.layers.Dense(NUM_CLASSES)(keras.layers.Dropout(0.5)(x)))


def batches(num_replicas: int, num_steps: int, batch_size: int):
    """Per step, the batches of all replicas; one replica with the whole batch sees the same images."""
    random = np.random.default_rng(7)
    for _ in range(num_steps):
        images = random.normal(size=(num_replicas * batch_size, IMAGE_PX, IMAGE_PX, 3)).astype("float32")
        labels = random.integers(0, NUM_CLASSES, num_replicas * batch_size).astype("int32")
        yield images, labels


def train(devices, num_steps: int, whole_batches, model=conv_model, **mode):
    training = build(small(num_gpus=len(devices.replicas), num_classes=NUM_CLASSES, **mode), devices, keras_model(model))
    for images, labels in whole_batches:
        parts = [(tf.constant(i), tf.constant(n)) for i, n in zip(split(images, devices), split(labels, devices), strict=True)]
        training.towers.step(parts)
    return training


def keras_model(model) -> keras.Model:
    keras.utils.set_random_seed(3)
    keras.mixed_precision.set_global_policy("float32")
    return model()


def split(array, devices):
    return np.split(array, len(devices.replicas))


def largest_difference(ours, theirs) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_replicas", [2, 4])
@pytest.mark.parametrize("num_steps", [1, 3])
def test_a_synchronous_mode_has_one_devices_weights_with_the_same_total_batch(make_devices, mode, num_replicas, num_steps):
    data = list(batches(num_replicas, num_steps, BATCH_SIZE))
    initial = [np.asarray(variable) for variable in keras_model(conv_model).trainable_variables]
    alone = train(make_devices(1), num_steps, data, variable_update="replicated").update.weights(0)
    together = train(make_devices(num_replicas), num_steps, data, **MODES[mode]).update
    assert largest_difference(alone, initial) > 1e-4, "nothing was trained"
    for replica in range(num_replicas):
        assert largest_difference(together.weights(replica), alone) < 1e-6


def test_independent_replicas_drift_apart(make_devices):
    data = list(batches(2, 3, BATCH_SIZE))
    alone = train(make_devices(1), 3, data, variable_update="replicated").update.weights(0)
    update = train(make_devices(2), 3, data, **INDEPENDENT).update
    assert largest_difference(update.weights(0), update.weights(1)) > 1e-4
    assert largest_difference(update.weights(0), alone) > 1e-4


def test_an_independent_replica_trains_as_if_alone(make_devices):
    data = list(batches(2, 2, BATCH_SIZE))
    first_half = [(images[:BATCH_SIZE], labels[:BATCH_SIZE]) for images, labels in data]
    alone = train(make_devices(1), 2, first_half, variable_update="replicated").update.weights(0)
    assert largest_difference(train(make_devices(2), 2, data, **INDEPENDENT).update.weights(0), alone) < 1e-6


@pytest.mark.parametrize("mode", MODES)
def test_replicas_of_a_normalized_model_share_weights_and_keep_their_own_statistics(make_devices, mode):
    training = train(make_devices(2), 2, batches(2, 2, BATCH_SIZE), normalized_model, **MODES[mode])
    assert largest_difference(training.update.weights(0), training.update.weights(1)) == 0
    assert largest_difference(training.towers.state(0), training.towers.state(1)) > 0


def test_dropout_differs_between_replicas(make_devices):
    """The seed in the template's state is the same for all; a shared one would drop the same units everywhere."""
    images = np.ones((BATCH_SIZE, IMAGE_PX, IMAGE_PX, 3), "float32")
    labels = np.zeros(BATCH_SIZE, "int32")
    same_for_both = [(np.concatenate([images, images]), np.concatenate([labels, labels]))]
    update = train(make_devices(2), 1, same_for_both, normalized_model, **INDEPENDENT).update
    assert largest_difference(update.weights(0), update.weights(1)) > 1e-6


def test_gradients_are_averaged_not_summed(make_devices):
    """tf_cnn_benchmarks' replicated summed: with the same images on every replica, a sum would take N times the step."""
    images, labels = next(batches(1, 1, BATCH_SIZE))
    doubled = [(np.concatenate([images, images]), np.concatenate([labels, labels]))]
    one = train(make_devices(1), 1, [(images, labels)], variable_update="replicated").update.weights(0)
    for mode in MODES.values():
        assert largest_difference(train(make_devices(2), 1, doubled, **mode).update.weights(0), one) < 1e-6


@pytest.mark.parametrize(
    ("mode", "reduction_devices", "update_devices"),
    [
        ("ps_cpu", {"CPU:0"}, {"CPU:0"}),
        ("ps_gpu", {"CPU:1", "CPU:2"}, {"CPU:1", "CPU:2"}),
        ("replicated_none", {"CPU:1", "CPU:2"}, {"CPU:1", "CPU:2"}),
        ("replicated_pscpu", {"CPU:0"}, {"CPU:1", "CPU:2"}),
        ("replicated_psgpu", {"CPU:1", "CPU:2"}, {"CPU:1", "CPU:2"}),
    ],
)
def test_ops_sit_where_the_mode_says(make_devices, mode, reduction_devices, update_devices):
    with op_placement.recorded() as placement:
        training = train(make_devices(2), 1, batches(2, 1, BATCH_SIZE), **MODES[mode])
    assert placement.problem(training.update, make_devices(2)) is None
    found = {role: {name.split(" @ ")[1] for name in counts} for role, counts in placement.summary().items()}
    assert found == {"convolution": {"CPU:1", "CPU:2"}, "reduction": reduction_devices, "update": update_devices}
    num_variables = len(training.update.weights(0))
    assert set(placement.summary()["convolution"].values()) == {2}, "two convolutions per tower"
    num_copies = 1 if mode.startswith("ps_") else 2
    assert sum(placement.summary()["update"].values()) == num_copies * num_variables
    num_shards = 2 if mode == "replicated_psgpu" else 1
    assert sum(placement.summary()["reduction"].values()) == num_shards * num_variables


def test_independent_replicas_reduce_nothing(make_devices):
    with op_placement.recorded() as placement:
        training = train(make_devices(2), 1, batches(2, 1, BATCH_SIZE), **INDEPENDENT)
    assert placement.problem(training.update, make_devices(2)) is None
    assert placement.summary()["reduction"] == {}


def test_ops_in_the_wrong_place_make_a_trial_invalid(make_devices):
    with op_placement.recorded() as placement:
        training = train(make_devices(2), 1, batches(2, 1, BATCH_SIZE), **MODES["replicated_pscpu"])
    training.update.reduction_devices = training.update.update_devices
    problem = placement.problem(training.update, make_devices(2))
    assert problem == "reduction ops ran on CPU:0, the variable update says CPU:1, CPU:2"


def test_gradients_reduced_by_another_op_make_a_trial_invalid(make_devices):
    with op_placement.recorded() as placement:
        training = train(make_devices(2), 1, batches(2, 1, BATCH_SIZE), **MODES["replicated_none"])
    training.update.reduction_op = "NcclAllReduce"
    assert placement.problem(training.update, make_devices(2)) == "gradients were reduced by AddN, not by NcclAllReduce"


@pytest.mark.parametrize("mode", MODES)
def test_towers_inlined_as_on_gpus_train_the_same_in_the_same_places(make_devices, mode):
    """The towers of GPUs are inlined; their graph is built here over stand-ins that pass for GPUs."""
    as_gpus = replace(make_devices(2), kind=DeviceKind.GPU)
    data = list(batches(2, 2, BATCH_SIZE))
    alone = train(make_devices(1), 2, data, variable_update="replicated").update.weights(0)
    with op_placement.recorded() as placement:
        training = train(as_gpus, 2, data, **MODES[mode])
    assert placement.problem(training.update, as_gpus) is None
    assert largest_difference(training.update.weights(1), alone) < 1e-6


def test_nccl_reduces_every_gradient_on_every_gpu_under_one_name_of_its_own():
    """The graph alone: NCCL itself runs only on GPUs."""
    gpus = Devices(kind=DeviceKind.GPU, host="/device:CPU:0", replicas=("/device:GPU:0", "/device:GPU:1"))
    with tf.Graph().as_default() as graph:
        for index in range(2):
            copies = [tf.compat.v1.placeholder(tf.float32, [3]) for _ in gpus.replicas]
            assert len(nccl.average(copies, index, gpus)) == 2
    ops = [op for op in graph.get_operations() if op.type == "NcclAllReduce"]
    assert {(op.device, op.get_attr("shared_name")) for op in ops} == {
        (device, name) for device in gpus.replicas for name in (b"gradient_0", b"gradient_1")
    }
    assert {op.get_attr("num_devices") for op in ops} == {2}


def test_nccl_is_refused_on_stand_ins(make_devices):
    with pytest.raises(UnsupportedTrialError, match="one physical GPU per replica; these replicas are CPU stand-ins"):
        train(make_devices(2), 1, [], variable_update="replicated", all_reduce="nccl")


def test_a_parameter_server_over_gpus_gives_each_variable_to_the_least_loaded(make_devices):
    update = train(make_devices(2), 0, [], **MODES["ps_gpu"]).update
    sizes = [weights.nbytes for weights in update.weights(0)]
    load = [0, 0]
    for size, placed in zip(sizes, update._shared, strict=True):
        owner = int(placed.variable.device[-1]) - 1
        assert load[owner] == min(load)
        load[owner] += size


def test_momentum_and_weight_decay_follow_their_formula(make_devices):
    """a = m a + (g + wd v); v = v - lr a, with the gradients taken from a run without either."""
    data = list(batches(1, 2, BATCH_SIZE))
    plain = {"momentum": 0.0, "weight_decay": 0.0, "learning_rate": 0.1}
    start = [np.asarray(variable) for variable in keras_model(conv_model).trainable_variables]

    def gradients(weights, batch):
        model = keras_model(conv_model)
        for variable, value in zip(model.trainable_variables, weights, strict=True):
            variable.assign(value)
        after = _train_from(model, make_devices(1), [batch], **plain)
        return [(before - now) / 0.1 for before, now in zip(weights, after, strict=True)]

    velocity = [np.zeros_like(value) for value in start]
    weights = start
    for batch in data:
        found = gradients(weights, batch)
        velocity = [0.9 * v + g + 0.01 * w for v, g, w in zip(velocity, found, weights, strict=True)]
        weights = [w - 0.1 * v for w, v in zip(weights, velocity, strict=True)]
    ours = train(make_devices(1), 2, data, momentum=0.9, weight_decay=0.01, learning_rate=0.1).update.weights(0)
    assert largest_difference(ours, weights) < 1e-5


def _train_from(model, devices, data, **changes):
    training = build(small(num_classes=NUM_CLASSES, **changes), devices, model)
    for images, labels in data:
        training.towers.step([(tf.constant(images), tf.constant(labels))])
    return training.update.weights(0)


def test_bfloat16_computes_in_bfloat16_and_keeps_variables_in_float32(make_devices):
    spec = small(model="trivial", precision="bf16", num_gpus=2, image_px=IMAGE_PX)
    try:
        training = build(spec, make_devices(2))
    finally:
        keras.mixed_precision.set_global_policy("float32")
    images, labels = next(batches(2, 1, 2))
    loss = training.towers.step(
        [(tf.constant(images[:2]), tf.constant(labels[:2])), (tf.constant(images[2:]), tf.constant(labels[2:]))]
    )
    assert {weights.dtype for weights in training.update.weights(0)} == {np.dtype("float32")}
    assert np.isfinite(float(loss))
    graph = training.towers._tower._list_all_concrete_functions()[0].graph
    assert "bfloat16" in {output.dtype.name for op in graph.get_operations() if op.type == "MatMul" for output in op.outputs}
