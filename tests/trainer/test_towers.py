"""Every synchronous mode trains exactly as one device with the whole batch does, and does it where it says."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from scalemark.abilities import ALL_REDUCES, OPTIMIZERS, VARIABLE_UPDATES
from scalemark.records.machine import DeviceKind
from tests.specs import small
from tests.tiers import every_other
from trainer import UnsupportedTrialError
from trainer.all_reduces import nccl
from trainer.devices import Devices
from trainer.mode_check import (
    convolutional,
    gradients_at,
    largest_difference,
    normalized,
    one_step_stale,
    split,
    train,
    whole_batches,
)
from trainer.run import build, cannot_cancel
from trainer.watching import op_placement

HAS_AVX512 = "avx512f" in Path("/proc/cpuinfo").read_text()
MODES = {
    "ps_cpu": {"variable_update": "parameter_server", "local_parameter_device": "cpu"},
    "ps_gpu": {"variable_update": "parameter_server", "local_parameter_device": "gpu"},
    **{
        f"replicated_{name}": {"variable_update": "replicated", "all_reduce": name}
        for name in ("none", "pscpu", "psgpu", "hierarchical_copy", "ring", "collective")
    },
    **{
        f"mirrored_{name}": {"variable_update": "mirrored", "all_reduce": name}
        for name in ("none", "pscpu", "hierarchical_copy", "ring", "collective")
    },
    "sharded": {"variable_update": "sharded"},
    "sharded_ring": {"variable_update": "sharded", "all_reduce": "ring"},
}
COMPACT = [name for name in MODES if name.startswith(("replicated", "sharded"))]
OF_EACH_UPDATE = [
    "ps_cpu",
    "ps_gpu",
    "replicated_pscpu",
    "mirrored_ring",
    "sharded",
    "sharded_ring",
]
"""What takes long to compile is compiled in these; in the others it is slow."""
PACKS = [*COMPACT, "mirrored_hierarchical_copy"]
INDEPENDENT = {"variable_update": "independent"}
RATE = {"learning_rate": 0.1}


def trained(make_devices, num_replicas, batches, model=convolutional, **changes):
    """Train on the first so many CPU devices."""
    devices = make_devices(num_replicas)
    return train(small(num_gpus=num_replicas, **RATE | changes), devices, list(batches), model)[0]


def recorded(make_devices, num_replicas, batches, **changes):
    with op_placement.recorded() as placement:
        training = trained(make_devices, num_replicas, batches, **changes)
    return placement, training, training.wanted(small(num_gpus=num_replicas, **changes))


def exactness_cases():
    """Every mode as it is and compiled with several steps in a call; the rest is slow."""
    for mode, packs in [(mode, 0) for mode in MODES] + [(mode, 2) for mode in PACKS]:
        for xla, num_steps in [("off", 1), ("on", 3), ("off", 3), ("on", 1)]:
            is_quick = (xla, num_steps) == ("off", 1) or (xla, num_steps, packs) == ("on", 3, 0)
            marks = () if is_quick else pytest.mark.slow
            yield pytest.param(mode, packs, xla, num_steps, marks=marks)


@pytest.mark.integration
@pytest.mark.parametrize(("mode", "packs", "xla", "steps_per_execution"), list(exactness_cases()))
def test_a_synchronous_mode_reaches_one_devices_weights(
    make_devices, alone, mode, packs, xla, steps_per_execution
):
    """Gradients are averaged: tf_cnn_benchmarks' replicated summed them, and took N times the step."""
    changes = MODES[mode] | {
        "gradient_repacking": packs,
        "xla": xla,
        "steps_per_execution": steps_per_execution,
    }
    placement, training, wanted = recorded(make_devices, 2, whole_batches(2, 3), **changes)
    assert placement.problem(wanted) is None
    for replica in range(2):
        assert largest_difference(training.update.weights(replica), alone(2, 3)) < 1e-6


def test_mirrored_refuses_the_hierarchical_copy_that_sums_wrongly(make_devices):
    with pytest.raises(
        UnsupportedTrialError, match="sums wrongly over an odd number of replicas; num_gpus=3"
    ):
        build(small(num_gpus=3, **MODES["mirrored_hierarchical_copy"]), make_devices(3))


@pytest.mark.integration
@pytest.mark.parametrize("mode", MODES)
def test_a_synchronous_mode_is_exact_with_more_replicas(make_devices, alone, mode):
    num_replicas = 4 if "hierarchical_copy" in mode else 3
    update = trained(
        make_devices, num_replicas, whole_batches(num_replicas, 1), **MODES[mode]
    ).update
    for replica in range(num_replicas):
        assert largest_difference(update.weights(replica), alone(num_replicas, 1)) < 1e-6


def test_three_steps_train_something(make_devices, alone):
    training = trained(make_devices, 1, [])
    assert largest_difference(training.update.weights(0), alone(2, 3)) > 1e-2


def test_every_all_reduce_and_variable_update_is_among_the_modes():
    """A new file in these folders must be proven exact, here or, of several processes, in test_distributed_modes or test_process_per_gpu, and of other loops in test_fit.

    nccl needs GPUs, and independent is no synchronous mode.
    """
    reductions = {mode.get("all_reduce") for mode in MODES.values()} - {None}
    assert reductions | {"nccl"} == {*ALL_REDUCES}
    updates = {mode["variable_update"] for mode in MODES.values()} | {"independent"}
    elsewhere = {
        name for name, one in VARIABLE_UPDATES.items() if one.is_distributed or one.has_own_loop
    }
    assert updates | elsewhere >= {*VARIABLE_UPDATES}


@pytest.mark.integration
@pytest.mark.parametrize("local_parameter_device", ["cpu", "gpu"])
@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_staged_weights_are_those_of_the_step_before(
    make_devices, local_parameter_device, steps_per_execution
):
    """w(t+1) = w(t) - lr v(t) with gradients taken at w(t-1): computed here step by step from plain training."""
    batches = list(whole_batches(2, 3))
    weights = one_step_stale(small(**RATE), make_devices(1), batches)
    mode = {
        "variable_update": "parameter_server",
        "local_parameter_device": local_parameter_device,
        "weight_decay": 0.0,
    }
    staged = trained(
        make_devices, 2, batches, staged_vars=True, steps_per_execution=steps_per_execution, **mode
    )
    fresh = trained(make_devices, 2, batches, **mode)
    assert largest_difference(staged.update.weights(0), weights) < 1e-6
    assert largest_difference(staged.update.weights(0), fresh.update.weights(0)) > 1e-3


@pytest.mark.integration
@pytest.mark.parametrize(("mode", "packs"), every_other(COMPACT, (0, 2)))
def test_compact_gradients_cost_half_precision(make_devices, alone, mode, packs):
    update = trained(
        make_devices,
        2,
        whole_batches(2, 3),
        compact_gradients=True,
        gradient_repacking=packs,
        **MODES[mode],
    ).update
    assert largest_difference(update.weights(0), update.weights(1)) == 0
    assert 0 < largest_difference(update.weights(0), alone(2, 3)) < 1e-3


def test_independent_replicas_drift_apart(make_devices, alone):
    update = trained(make_devices, 2, whole_batches(2, 3), **INDEPENDENT).update
    assert largest_difference(update.weights(0), update.weights(1)) > 1e-4
    assert largest_difference(update.weights(0), alone(2, 3)) > 1e-4


def test_an_independent_replica_trains_as_if_alone(make_devices):
    data = list(whole_batches(2, 2))
    first_half = [
        (images[: len(images) // 2], labels[: len(labels) // 2]) for images, labels in data
    ]
    by_itself = trained(make_devices, 1, first_half).update.weights(0)
    assert (
        largest_difference(
            trained(make_devices, 2, data, **INDEPENDENT).update.weights(0), by_itself
        )
        < 1e-6
    )


@pytest.mark.integration
@pytest.mark.parametrize(("mode", "xla"), every_other(tuple(MODES), ("off", "on")))
def test_replicas_share_weights_and_keep_their_own_statistics(make_devices, mode, xla):
    training = trained(make_devices, 2, whole_batches(2, 2), normalized, xla=xla, **MODES[mode])
    assert largest_difference(training.update.weights(0), training.update.weights(1)) == 0
    assert largest_difference(training.towers.statistics(0), training.towers.statistics(1)) > 0


def test_dropout_differs_between_replicas(make_devices):
    """The seed in the template's state is the same for all; a shared one would drop the same units everywhere."""
    (images, labels) = next(whole_batches(1, 1))
    same_for_both = [(np.concatenate([images, images]), np.concatenate([labels, labels]))]
    update = trained(make_devices, 2, same_for_both, normalized, **INDEPENDENT).update
    assert largest_difference(update.weights(0), update.weights(1)) > 1e-6


@pytest.mark.parametrize(
    ("mode", "reduction_devices", "update_devices"),
    [
        ("ps_cpu", {"CPU:0"}, {"CPU:0"}),
        ("ps_gpu", {"CPU:1", "CPU:2"}, {"CPU:1", "CPU:2"}),
        ("replicated_none", {"CPU:1", "CPU:2"}, {"CPU:1", "CPU:2"}),
        ("replicated_pscpu", {"CPU:0"}, {"CPU:1", "CPU:2"}),
        ("replicated_psgpu", {"CPU:1", "CPU:2"}, {"CPU:1", "CPU:2"}),
        ("replicated_hierarchical_copy", {"CPU:1", "CPU:2"}, {"CPU:1", "CPU:2"}),
        ("replicated_ring", {"CPU:1", "CPU:2"}, {"CPU:1", "CPU:2"}),
        ("mirrored_none", {"CPU:1"}, {"CPU:1", "CPU:2"}),
        ("mirrored_pscpu", {"CPU:0"}, {"CPU:1", "CPU:2"}),
        ("mirrored_ring", {"CPU:1", "CPU:2"}, {"CPU:1", "CPU:2"}),
    ],
)
def test_ops_sit_where_the_mode_says(make_devices, mode, reduction_devices, update_devices):
    placement, training, wanted = recorded(make_devices, 2, whole_batches(2, 1), **MODES[mode])
    assert placement.problem(wanted) is None
    summary = placement.summary()
    found = {
        role: {name.split(" @ ")[1] for name in summary[role]}
        for role in ("convolution", "reduction", "update")
    }
    assert found == {
        "convolution": {"CPU:1", "CPU:2"},
        "reduction": reduction_devices,
        "update": update_devices,
    }
    num_convolutions = {
        device: sum(n for name, n in summary["convolution"].items() if device in name)
        for device in found["convolution"]
    }
    assert num_convolutions == {"CPU:1": 2, "CPU:2": 2}
    assert summary["compute_type"] == {"float @ CPU:1": 5, "float @ CPU:2": 5}, (
        "two convolutions, one dense layer, its gradients"
    )
    assert summary["xla"] == {}
    num_variables = len(training.update.weights(0))
    num_copies = 1 if mode.startswith("ps_") else 2
    assert sum(summary["update"].values()) == num_copies * num_variables
    num_ops = {
        "replicated_psgpu": 2,
        "replicated_ring": 2,
        "mirrored_ring": 2,
        "replicated_hierarchical_copy": 2,
    }.get(mode, 1)
    assert sum(summary["reduction"].values()) in (num_ops * num_variables, num_ops), (
        "one per tensor, or a pack of all"
    )


def test_packs_travel_instead_of_tensors(make_devices):
    placement, _, _ = recorded(
        make_devices, 2, whole_batches(2, 1), gradient_repacking=2, **MODES["replicated_pscpu"]
    )
    assert placement.summary()["reduction"] == {"AddN @ CPU:0": 2}


def test_hierarchical_copy_sums_within_two_groups_and_then_across(make_devices):
    placement, training, _ = recorded(
        make_devices, 4, whole_batches(4, 1), **MODES["replicated_hierarchical_copy"]
    )
    assert sum(placement.summary()["reduction"].values()) == 4 * len(training.update.weights(0))


def test_independent_replicas_reduce_nothing(make_devices):
    placement, _, wanted = recorded(make_devices, 2, whole_batches(2, 1), **INDEPENDENT)
    assert placement.problem(wanted) is None
    assert placement.summary()["reduction"] == {}


def test_ops_in_the_wrong_place_make_a_trial_invalid(make_devices):
    placement, training, wanted = recorded(
        make_devices, 2, whole_batches(2, 1), **MODES["replicated_pscpu"]
    )
    training.update.reduction_devices = training.update.update_devices
    assert (
        placement.problem(wanted)
        == "reduction ops ran on CPU:0, the variable update says CPU:1, CPU:2"
    )


def test_gradients_reduced_by_another_op_make_a_trial_invalid(make_devices):
    placement, training, wanted = recorded(
        make_devices, 2, whole_batches(2, 1), **MODES["replicated_none"]
    )
    training.update.reduction_ops = ("NcclAllReduce",)
    assert placement.problem(wanted) == "gradients were reduced by AddN, not NcclAllReduce"


@pytest.mark.integration
@pytest.mark.parametrize(("optimizer", "warm_up"), every_other(tuple(OPTIMIZERS), (0, 3)))
def test_updates_that_xla_compiles_are_those_of_tensorflow(make_devices, optimizer, warm_up):
    batches = list(whole_batches(1, 3))
    rule = {"optimizer": optimizer, "learning_rate": 0.01, "learning_rate_warm_up": warm_up}
    placement, compiled, wanted = recorded(make_devices, 1, batches, xla="on", **rule)
    assert placement.problem(wanted) is None
    assert sum(placement.counts["xla"].values()) == 2  # the tower, and all updates
    plain = trained(make_devices, 1, batches, **RATE | rule)
    assert largest_difference(compiled.update.weights(0), plain.update.weights(0)) < 1e-5


@pytest.mark.integration
@pytest.mark.parametrize(
    ("reported", "problem"),
    [
        ({"data_format": "NCHW"}, "convolutions ran in NHWC, not NCHW"),
        ({"compute_type": "half"}, "products were computed in float, not half"),
        ({"xla": "on"}, "XLA compiled on no device, not on every replica"),
    ],
)
def test_another_format_type_or_compiler_makes_it_invalid(make_devices, reported, problem):
    placement, _, wanted = recorded(make_devices, 2, whole_batches(2, 1))
    assert placement.problem(replace(wanted, **reported)) == problem


@pytest.mark.integration
def test_xla_where_the_trial_says_off_makes_it_invalid(make_devices):
    placement, _, wanted = recorded(make_devices, 2, whole_batches(2, 1), xla="on")
    assert placement.problem(wanted) is None
    assert (
        placement.problem(replace(wanted, xla="off"))
        == "XLA compiled something, the trial says xla=off"
    )


@pytest.mark.integration
@pytest.mark.parametrize("mode", MODES)
def test_towers_inlined_as_on_gpus_train_the_same_in_the_same_places(make_devices, alone, mode):
    """The towers of GPUs are inlined; their graph is built here over CPU devices that pass for GPUs."""
    as_gpus = replace(make_devices(2), kind=DeviceKind.GPU)
    spec = small(num_gpus=2, **RATE | MODES[mode])
    with op_placement.recorded() as placement:
        training, _ = train(spec, as_gpus, list(whole_batches(2, 3)))
    assert placement.problem(training.wanted(spec)) is None
    assert largest_difference(training.update.weights(1), alone(2, 3)) < 1e-6


def test_a_tower_that_runs_alone_changes_nothing(make_devices):
    """Before the first step with NCCL, in which the others would wait for one without memory."""
    training = trained(make_devices, 1, [], normalized)
    batches = split(list(whole_batches(1, 1)), training.devices)
    before = [*training.update.weights(0), *training.towers.state(0)]
    loss = float(training.towers.traced_alone(batches)())
    assert largest_difference([*training.update.weights(0), *training.towers.state(0)], before) == 0
    assert loss == float(training.towers.step(batches)) != 0


def test_only_nccls_own_op_cannot_be_cancelled(make_devices, monkeypatch):
    monkeypatch.setattr(Devices, "check_own_gpus", lambda _: None)
    nccl = {"all_reduce": "nccl", "variable_update": "replicated"}
    assert cannot_cancel(trained(make_devices, 2, [], **nccl).update)
    assert not cannot_cancel(trained(make_devices, 1, [], **nccl).update)
    assert not cannot_cancel(trained(make_devices, 2, [], **MODES["replicated_collective"]).update)


@pytest.mark.integration
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_channels_first_trains_as_channels_last_does(make_devices, precision):
    if precision == "bf16" and not HAS_AVX512:
        pytest.skip("oneDNN has bf16 with AVX-512 alone, and TensorFlow's own kernels want NHWC")
    changes = {"precision": precision, "all_reduce": "none"}
    last = trained(make_devices, 2, whole_batches(2, 3), **changes).update.weights(0)
    placement, training, wanted = recorded(
        make_devices, 2, whole_batches(2, 3), data_format="NCHW", **changes, **RATE
    )
    assert placement.problem(wanted) is None
    assert set(placement.summary()["data_format"]) == {"NCHW @ CPU:1", "NCHW @ CPU:2"}
    assert largest_difference(training.update.weights(0), last) < (
        1e-6 if precision == "fp32" else 1e-2
    )


def test_channels_first_normalization_is_that_of_channels_last(make_devices):
    last = trained(make_devices, 1, whole_batches(1, 2), normalized)
    first = trained(make_devices, 1, whole_batches(1, 2), normalized, data_format="NCHW")
    assert largest_difference(first.update.weights(0), last.update.weights(0)) < 1e-5
    assert largest_difference(first.towers.state(0), last.towers.state(0)) < 1e-5


@pytest.mark.integration
@pytest.mark.parametrize(
    ("mode", "loss_scale", "steps_per_execution"),
    every_other(
        ("ps_cpu", "ps_gpu", "replicated_none", "replicated_ring", "mirrored_ring", "sharded",
         "sharded_ring"),
        ("none", "128", "dynamic"),
        (1, 3),
    ),
)  # fmt: skip
def test_float16_follows_float32_under_every_loss_scale(
    make_devices, alone, mode, loss_scale, steps_per_execution
):
    changes = {
        "precision": "fp16",
        "loss_scale": loss_scale,
        "steps_per_execution": steps_per_execution,
    }
    placement, training, wanted = recorded(
        make_devices, 2, whole_batches(2, 3), **MODES[mode], **changes, **RATE
    )
    assert placement.problem(wanted) is None
    assert 0 < largest_difference(training.update.weights(1), alone(2, 3)) < 2e-3
    assert training.towers.loss_scale.num_skipped == 0


def test_bfloat16_follows_float32_and_keeps_variables_in_float32(make_devices, alone):
    placement, training, wanted = recorded(
        make_devices, 2, whole_batches(2, 3), precision="bf16", **RATE
    )
    assert placement.problem(wanted) is None
    assert 0 < largest_difference(training.update.weights(1), alone(2, 3)) < 2e-2
    assert {weights.dtype for weights in training.update.weights(0)} == {np.dtype("float32")}


@pytest.mark.parametrize(
    "mode", ["ps_cpu", "ps_gpu", "replicated_none", "mirrored_none", "sharded", "sharded_ring"]
)
def test_a_step_that_overflows_changes_nothing_and_halves_the_scale(make_devices, mode):
    images, labels = next(whole_batches(2, 1))
    changes = MODES[mode] | {"precision": "fp16", "loss_scale": "dynamic"}
    start = trained(make_devices, 2, [], **changes).update.weights(0)
    training = trained(make_devices, 2, [(images * 1e30, labels)] * 3, **changes)
    assert largest_difference(training.update.weights(0), start) == 0
    assert (training.towers.loss_scale.num_skipped, training.towers.loss_scale.current) == (
        3,
        2.0**12,
    )


def test_one_overflowing_replica_stops_the_others_from_updating(make_devices):
    images, labels = next(whole_batches(2, 1))
    images[: len(images) // 2] *= 1e30
    for mode in ("ps_gpu", "replicated_none"):
        changes = MODES[mode] | {"precision": "fp16", "loss_scale": "128"}
        start = trained(make_devices, 2, [], **changes).update.weights(1)
        training = trained(make_devices, 2, [(images, labels)], **changes)
        assert largest_difference(training.update.weights(1), start) == 0
        assert (training.towers.loss_scale.num_skipped, training.towers.loss_scale.current) == (
            1,
            128.0,
        )


def test_the_dynamic_scale_doubles_after_enough_good_steps(make_devices, monkeypatch):
    from trainer import model_tower

    monkeypatch.setattr(model_tower, "STEPS_TO_GROW", 2)
    monkeypatch.setattr(model_tower, "INITIAL_DYNAMIC_SCALE", 4.0)
    training = trained(make_devices, 2, whole_batches(2, 5), precision="fp16", loss_scale="dynamic")
    assert training.towers.loss_scale.current == 16.0


def test_nccl_reduces_every_gradient_on_every_gpu_under_one_name():
    """The graph alone: NCCL itself runs only on GPUs."""
    gpus = Devices(
        kind=DeviceKind.GPU, host="/device:CPU:0", replicas=("/device:GPU:0", "/device:GPU:1")
    )
    with tf.Graph().as_default() as graph:
        all_reduce = nccl.create(gpus)
        for index in range(2):
            copies = [tf.compat.v1.placeholder(tf.float32, [3]) for _ in gpus.replicas]
            assert len(all_reduce.sum(copies, index)) == 2
    ops = [op for op in graph.get_operations() if op.type == "NcclAllReduce"]
    names = {op.get_attr("shared_name") for op in ops}
    assert {(op.device, op.get_attr("shared_name")) for op in ops} == {
        (gpu, name) for gpu in gpus.replicas for name in names
    }
    assert len(names) == 2
    assert {op.get_attr("num_devices") for op in ops} == {2}


@pytest.mark.parametrize("variable_update", ["replicated", "mirrored", "sharded"])
@pytest.mark.parametrize(
    ("changes", "described"),
    [
        ({}, "CPU devices"),
        ({"kind": DeviceKind.GPU, "shared": True}, "logical GPUs cut from one"),
    ],
)
def test_nccl_is_refused_without_a_physical_gpu_per_replica(
    make_devices, variable_update, changes, described
):
    devices = replace(make_devices(2), **changes)
    with pytest.raises(
        UnsupportedTrialError, match=f"one physical GPU per replica; these replicas are {described}"
    ):
        build(small(num_gpus=2, variable_update=variable_update, all_reduce="nccl"), devices)


@pytest.mark.parametrize(
    ("variable_update", "has"),
    [("mirrored", "collective, nccl, ring, none"), ("sharded", "none, nccl, ring")],
)
def test_an_all_reduce_that_a_variable_update_lacks_is_refused(make_devices, variable_update, has):
    """A bug: sharded took any other name for none."""
    wanted = f"all_reduce=psgpu: variable_update={variable_update} has {has}"
    spec = small(num_gpus=2, variable_update=variable_update, all_reduce="psgpu")
    with pytest.raises(UnsupportedTrialError, match=wanted):
        build(spec, make_devices(2))


def test_each_variable_goes_to_the_least_loaded_gpu(make_devices):
    update = trained(make_devices, 2, [], **MODES["ps_gpu"]).update
    sizes = [weights.nbytes for weights in update.weights(0)]
    load = [0, 0]
    for size, placed in zip(sizes, update._shared, strict=True):
        owner = int(placed.variable.device[-1]) - 1
        assert load[owner] == min(load)
        load[owner] += size


def _reference(make_devices, num_steps, rule, **reported):
    """Weights after `num_steps` of rule(weights, slots, gradients) -> weights, slots, in numpy."""
    weights = trained(make_devices, 1, []).update.weights(0)
    slots: list = []
    for batch in whole_batches(1, num_steps):
        weights, slots = rule(
            weights, slots, gradients_at(weights, small(), make_devices(1), batch)
        )
    return weights


def test_momentum_and_weight_decay_follow_their_formula(make_devices):
    """a = m a + (g + wd v); v = v - lr a."""

    def rule(weights, slots, gradients):
        slots = slots or [np.zeros_like(value) for value in weights]
        slots = [0.9 * a + g + 0.01 * w for a, g, w in zip(slots, gradients, weights, strict=True)]
        return [w - 0.1 * a for w, a in zip(weights, slots, strict=True)], slots

    ours = trained(
        make_devices, 1, whole_batches(1, 3), momentum=0.9, weight_decay=0.01
    ).update.weights(0)
    assert largest_difference(ours, _reference(make_devices, 3, rule)) < 1e-6


def test_adam_follows_its_formula(make_devices):
    def rule(weights, slots, gradients):
        t, first, second = slots or (0, [0.0] * len(weights), [0.0] * len(weights))
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients, strict=True)]
        second = [0.999 * v + 0.001 * g**2 for v, g in zip(second, gradients, strict=True)]
        rate = 0.01 * (1 - 0.999 ** (t + 1)) ** 0.5 / (1 - 0.9 ** (t + 1))
        moved = [
            w - rate * m / (v**0.5 + 1e-8) for w, m, v in zip(weights, first, second, strict=True)
        ]
        return moved, (t + 1, first, second)

    changes = {"optimizer": "adam", "momentum": 0.0, "weight_decay": 0.0, "learning_rate": 0.01}
    ours = trained(make_devices, 1, whole_batches(1, 3), **changes).update.weights(0)
    # Where a gradient is near 0 its sign decides, so single weights may differ; nearly all must not.
    differences = np.concatenate(
        [
            np.abs(a - b).ravel()
            for a, b in zip(ours, _reference(make_devices, 3, rule), strict=True)
        ]
    )
    assert np.quantile(differences, 0.99) < 1e-5


def test_rmsprop_follows_its_formula(make_devices):
    def rule(weights, slots, gradients):
        squares, momenta = slots or ([1.0] * len(weights), [0.0] * len(weights))
        squares = [0.9 * s + 0.1 * g**2 for s, g in zip(squares, gradients, strict=True)]
        momenta = [
            0.9 * a + 0.1 * g / (s + 1.0) ** 0.5
            for a, g, s in zip(momenta, gradients, squares, strict=True)
        ]
        return [w - a for w, a in zip(weights, momenta, strict=True)], (squares, momenta)

    ours = trained(
        make_devices, 1, whole_batches(1, 3), optimizer="rmsprop", weight_decay=0.0
    ).update.weights(0)
    assert largest_difference(ours, _reference(make_devices, 3, rule)) < 1e-6


@pytest.mark.integration
@pytest.mark.parametrize(
    ("optimizer", "mode", "steps_per_execution"),
    every_other(
        tuple(OPTIMIZERS), ("ps_cpu", "ps_gpu", "replicated_none", "mirrored_ring"), (1, 3)
    ),
)
def test_every_optimizer_is_exact_in_every_variable_update(
    make_devices, alone, optimizer, mode, steps_per_execution
):
    """Those of shards are in test_sharded."""
    changes = {"optimizer": optimizer, "momentum": 0.0, "learning_rate": 0.01}
    one = alone(2, 3, **changes)
    two = trained(
        make_devices,
        2,
        whole_batches(2, 3),
        steps_per_execution=steps_per_execution,
        **MODES[mode],
        **changes,
    )
    assert largest_difference(two.update.weights(1), one) < (
        1e-5 if optimizer.startswith("adam") else 1e-6
    )


def test_a_switch_that_is_not_in_the_environment_is_refused(make_devices):
    with pytest.raises(
        UnsupportedTrialError,
        match=r"TF_ENABLE_ONEDNN_OPTS.* must be in the environment before TensorFlow",
    ):
        build(small(free=(("env.TF_ENABLE_ONEDNN_OPTS", "0"),)), make_devices(1))
