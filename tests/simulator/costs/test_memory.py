"""Memory by its parts."""

from dataclasses import replace

import pytest

from simulator.costs.memory import memory_bytes
from simulator.costs.networks import Kept, network
from simulator.costs.work import Work

ONE = Work(
    network=network("gpt2", seq_len=64), num_gpus=1, batch_size=1, variable_update="replicated",
    local_parameter_device="gpu", all_reduce="none", optimizer="adam",
)  # fmt: skip
# 40 MB of weights in four tensors, and next to no activations: with adam 120 MB between steps
WEIGHTS = replace(
    ONE,
    num_gpus=2,
    network=replace(
        ONE.network,
        tensors=(6_000_000, 2_000_000, 1_000_000, 1_000_000),
        kept=Kept(0, 0),
        kept_again=Kept(0, 0),
        num_working=0,
        num_tied=0,
    ),
)
SERVER = {"variable_update": "parameter_server"}
ON_HOST = {**SERVER, "local_parameter_device": "cpu"}


@pytest.mark.parametrize(
    ("changes", "mb"),
    [
        ({}, 120 + 40),  # and the gradients
        ({"num_gpus": 8}, 120 + 40),
        ({"optimizer": "sgd"}, 40 + 40),
        ({"optimizer": "momentum"}, 80 + 40),
        ({"gradient_accumulation": 4}, 120 + 40 + 40),  # sums of gradients
        ({"precision": "bf16"}, 120 + 40 + 20),  # weights in half precision
        # all weights in a step, and the largest tensor with its slots
        (SERVER, 40 + 72 + 40),
        ({**SERVER, "num_gpus": 4}, 40 + 72 + 40),
        ({**SERVER, "num_gpus": 1}, 120 + 40),  # they are where they are needed
        ({**SERVER, "staged_vars": True}, 40 + 72 + 40 + 40),
        (ON_HOST, 40 + 40),
        ({"variable_update": "sharded"}, 40 + 60 + 40),
        ({"variable_update": "sharded", "num_gpus": 4}, 40 + 30 + 40),
    ],
)
def test_a_gpu_holds_variables_slots_and_gradients(changes, mb):
    base_mb = memory_bytes(replace(WEIGHTS, network=replace(WEIGHTS.network, tensors=()))) / 1e6
    assert memory_bytes(replace(WEIGHTS, **changes)) / 1e6 - base_mb == pytest.approx(mb)


def test_activations_are_of_one_micro_batch():
    larger, accumulated = (
        replace(ONE, batch_size=64, gradient_accumulation=2),
        replace(ONE, batch_size=64, gradient_accumulation=8),
    )
    assert memory_bytes(larger) == memory_bytes(accumulated)


@pytest.mark.parametrize(("batch_size", "saves"), [(1, False), (64, True)])
def test_recomputing_saves_where_activations_are_the_most(batch_size, saves):
    """One sequence keeps less than the gradients take when its backward pass ends."""
    kept, again = (replace(ONE, batch_size=batch_size, recompute=is_) for is_ in (False, True))
    assert (memory_bytes(again) < memory_bytes(kept)) is saves


def test_half_precision_leaves_logits_and_layer_normalization_alone():
    """gpt2's loss is in float32, and so are the 25 norms of 768 channels."""
    in_float32 = 2 * 64 * 50257 + 25 * 64 * 768
    few, many = (
        [memory_bytes(replace(ONE, batch_size=size, precision=precision)) for size in (64, 65)]
        for precision in ("fp32", "bf16")
    )
    one_in_fp32, one_in_bf16 = few[1] - few[0], many[1] - many[0]
    assert one_in_bf16 == pytest.approx(one_in_fp32 / 2 + 2 * in_float32)


@pytest.mark.parametrize(
    ("precision", "batch_size", "gib", "fits"),
    [  # NVIDIA's BERT-Large on V100 with 32 GB and A100 with 80 GB; the last is far more than ran
        ("fp16", 60, 32, True),
        ("fp32", 32, 32, True),
        ("fp16", 312, 80, True),
        ("tf32", 176, 80, True),
        ("tf32", 312, 80, False),
    ],
)
def test_what_a_source_ran_fits(precision, batch_size, gib, fits):
    bert = replace(
        ONE,
        network=network("bert_large", seq_len=128),
        precision=precision,
        batch_size=batch_size,
        optimizer="lamb",
        gradient_accumulation=64,
    )
    assert (memory_bytes(bert) <= gib * 2**30) is fits
