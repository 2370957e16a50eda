"""Transformers without dropout train on N replicas as on one, and with it each replica drops its
own.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from scalemark.models.bert import MASKED, bert
from scalemark.models.gpt import gpt
from tests.specs import small
from tests.trainer.test_towers import MODES, OF_EACH_UPDATE, RATE, trained
from trainer import keras_model
from trainer.keras_model import Example
from trainer.mode_check import largest_difference
from trainer.run import build, open_training

TOKENS = Example(
    input_shape=(9,), input_dtype="int64", num_symbols=17, label_shape=(9,), num_classes=17
)
MASKED_TOKENS = replace(TOKENS, label_shape=(-(-9 // MASKED),))
SMALL = {"num_layers": 2, "width": 8, "num_heads": 2, "dropout_rate": 0}


def causal(kernels, num_layers=2):
    sizes = SMALL | {"num_layers": num_layers}
    return keras_model.build(
        gpt(TOKENS.input_shape[0], TOKENS.num_symbols, **sizes), kernels=kernels
    )


def masked(kernels):
    logits = bert(TOKENS.input_shape[0], TOKENS.num_symbols, **SMALL)
    return keras_model.build(logits, recompute=True, kernels=kernels)


MODELS = {
    "causal": (causal, TOKENS),
    "masked, recomputed": (masked, MASKED_TOKENS),
    "of one layer": (partial(causal, num_layers=1), TOKENS),  # which is compiled in half the time
}
TEXT = {"image_px": 0, "seq_len": 16, "num_classes": 256}


def _batches_of(example, num_replicas, num_steps):
    random = np.random.default_rng(7)
    size = num_replicas * 8
    for _ in range(num_steps):
        inputs = random.integers(0, example.num_symbols, (size, *example.input_shape))
        yield inputs, random.integers(0, example.num_classes, (size, *example.label_shape))


@pytest.fixture(scope="module")
def difference(all_devices):
    """difference(kind, num_replicas, **changes): to one device with the whole batches, after 3 steps."""
    known = {}

    def make_devices(num_replicas):
        return replace(all_devices, replicas=all_devices.replicas[:num_replicas])

    def largest(kind, num_replicas, **changes):
        model, example = MODELS[kind]
        batches = list(_batches_of(example, num_replicas, 3))
        key = kind, num_replicas
        if key not in known:
            known[key] = trained(make_devices, 1, batches, model, **RATE).update.weights(0)
        update = trained(make_devices, num_replicas, batches, model, **RATE, **changes).update
        weights = map(update.weights, range(num_replicas))
        return max(largest_difference(each, known[key]) for each in weights)

    return largest


@pytest.mark.parametrize("kind", ["causal", "masked, recomputed"])
@pytest.mark.parametrize("mode", ["replicated_none", "sharded"])
def test_a_transformer_trains_on_two_replicas_as_on_one(difference, kind, mode):
    assert difference(kind, 2, **MODES[mode], gradient_accumulation=4) < 1e-6


def exactness_cases():
    """Every mode as it is, and some compiled with micro-batches; the rest is slow."""
    for mode in MODES:
        for xla, gradient_accumulation in [("off", 1), ("on", 4), ("off", 4), ("on", 1)]:
            is_quick = (xla, gradient_accumulation) == ("off", 1)
            is_quick |= (xla, gradient_accumulation) == ("on", 4) and mode in OF_EACH_UPDATE
            marks = () if is_quick else pytest.mark.slow
            yield pytest.param(mode, xla, gradient_accumulation, marks=marks)


@pytest.mark.integration
@pytest.mark.parametrize(("mode", "xla", "gradient_accumulation"), list(exactness_cases()))
def test_a_transformer_trains_exactly_in_every_mode(difference, mode, xla, gradient_accumulation):
    axes = {"gradient_accumulation": gradient_accumulation, "xla": xla}
    assert difference("of one layer", 2, **MODES[mode], **axes) < 1e-6


@pytest.mark.integration
@pytest.mark.parametrize(
    ("precision", "xla", "recompute"),
    [
        ("fp16", "off", False),
        ("bf16", "on", True),
        *(
            pytest.param(*axes, marks=pytest.mark.slow)
            for axes in [("fp32", "off", False), ("fp32", "off", True), ("fp16", "on", False)]
        ),
    ],
)
def test_a_model_with_dropout_learns_in_every_precision(make_devices, precision, xla, recompute):
    loss_scale = "dynamic" if precision == "fp16" else "none"
    axes = {"precision": precision, "xla": xla, "recompute": recompute, "loss_scale": loss_scale}
    spec = small(model="gpt_mini", learning_rate=0.05, **TEXT, **axes)
    training, data = open_training(spec, make_devices(1))
    losses = [float(training.towers.step(data.next())) for _ in range(8)]
    assert np.isfinite(losses).all()
    assert losses[0] - min(losses[-3:]) > 0.05


@pytest.mark.parametrize("recompute", [False, True])
def test_each_replica_has_dropout_seeds_of_its_own(make_devices, recompute):
    training = build(
        small(model="gpt_mini", num_gpus=2, recompute=recompute, **TEXT), make_devices(2)
    )
    first, second = training.towers.state(0), training.towers.state(1)
    assert len(first) == 13  # of the embedding, and of each block's attention and two layers
    for ours, theirs in zip(first, second, strict=True):
        assert not np.array_equal(ours, theirs)
