"""Memory by its parts."""

from dataclasses import replace

import pytest

from scalemark.records.trial import TrialSpec
from simulator.costs.networks import Kept, network
from simulator.costs.step import memory_bytes, replica_bytes
from tests.specs import small

NETWORK = network("gpt2", seq_len=64)
# 40 MB of weights in four tensors, and no activations: with adam 120 MB between steps
WEIGHTS = replace(
    NETWORK,
    tensors=(6_000_000, 2_000_000, 1_000_000, 1_000_000),
    kept=Kept(0, 0),
    kept_again=Kept(0, 0),
    num_working=0,
    num_tied=0,
)
SERVER = {"variable_update": "parameter_server"}
ON_HOST = {**SERVER, "local_parameter_device": "cpu"}


def spec(**changes: object) -> TrialSpec:
    axes = {"num_gpus": 2, "device_kind": "simulated_gpu", "optimizer": "adam", "batch_size": 1}
    return small(**axes | changes)


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
    framework_mb = memory_bytes(spec(), replace(WEIGHTS, tensors=())) / 1e6
    assert memory_bytes(spec(**changes), WEIGHTS) / 1e6 - framework_mb == pytest.approx(mb)


def test_activations_are_of_one_micro_batch():
    two, eight = (spec(batch_size=64, gradient_accumulation=num) for num in (2, 8))
    assert memory_bytes(two, NETWORK) == memory_bytes(eight, NETWORK)


@pytest.mark.parametrize(("batch_size", "saves"), [(1, False), (64, True)])
def test_recomputing_saves_where_activations_are_the_most(batch_size, saves):
    """One sequence keeps less than the gradients take when its backward pass ends."""
    kept, again = (
        memory_bytes(spec(batch_size=batch_size, recompute=recompute), NETWORK)
        for recompute in (False, True)
    )
    assert (again < kept) is saves


def test_half_precision_leaves_logits_and_layer_normalization_alone():
    """gpt2's loss is in float32, and so are the 25 norms of 768 channels."""
    in_float32 = 2 * 64 * 50257 + 25 * 64 * 768
    added = {}
    for precision in ("fp32", "bf16"):
        fewer, more = (replica_bytes(NETWORK, size, precision) for size in (64, 65))
        added[precision] = more - fewer
    assert added["bf16"] == pytest.approx(added["fp32"] / 2 + 2 * in_float32)


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
    axes = {"precision": precision, "batch_size": batch_size, "gradient_accumulation": 64}
    needed_bytes = memory_bytes(spec(**axes), network("bert_large", seq_len=128))
    assert (needed_bytes <= gib * 2**30) is fits
