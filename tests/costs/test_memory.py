"""Memory by its parts; `python -m benchmarks.memory_estimate` holds it against what is measured."""

from dataclasses import replace

import pytest

from costs.memory import memory_bytes, process_bytes
from costs.networks import network
from costs.work import Work

MODEL = network("gpt2", seq_len=64)
PARAMETERS = 4.0 * MODEL.num_parameters
ONE = Work(
    network=MODEL, num_gpus=1, batch_size=1, variable_update="replicated",
    local_parameter_device="gpu", all_reduce="none", optimizer="adam",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "copies"),
    [
        ({"optimizer": "sgd"}, -2),
        ({"optimizer": "momentum"}, -1),
        ({"optimizer": "lamb"}, 0),
        ({"gradient_accumulation": 4}, 1),
        ({"num_gpus": 8}, 0),
        # instead of a variable and two slots: the gathered variable, and a 4th of all three
        ({"variable_update": "sharded", "num_gpus": 4}, 1 + 3 / 4 - 3),
        ({"variable_update": "parameter_server", "local_parameter_device": "cpu"}, -2),
    ],
)
def test_a_gpu_keeps_copies_of_the_variables(changes, copies):
    found = memory_bytes(replace(ONE, **changes)) - memory_bytes(ONE)
    assert found == pytest.approx(copies * PARAMETERS)


def test_activations_are_of_one_micro_batch():
    larger, accumulated = (
        replace(ONE, batch_size=4, gradient_accumulation=2),
        replace(ONE, batch_size=4, gradient_accumulation=8),
    )
    assert memory_bytes(larger) == memory_bytes(accumulated)


def test_recomputing_saves_activations_alone():
    saved = memory_bytes(ONE) - memory_bytes(replace(ONE, recompute=True))
    assert saved == 4 * (MODEL.num_kept - MODEL.num_kept_again) > 0


def test_half_precision_halves_activations_and_adds_half_a_copy():
    found = memory_bytes(replace(ONE, precision="bf16")) - memory_bytes(ONE)
    assert found == pytest.approx(0.5 * PARAMETERS - 2 * MODEL.num_kept)


def test_replicas_of_a_process_share_what_servers_and_shards_keep_once():
    two = replace(ONE, num_gpus=2)
    shared = replace(two, variable_update="parameter_server")
    sharded = replace(two, variable_update="sharded")
    assert process_bytes(two, 2) - process_bytes(shared, 2) == pytest.approx(3 * PARAMETERS)
    assert process_bytes(shared, 2) == process_bytes(sharded, 2)


def test_as_many_replicas_compute_at_once_as_there_are_cores():
    large = replace(ONE, network=network("gpt_mini"), num_gpus=4, batch_size=64)
    one, two, four = (process_bytes(large, num) for num in (1, 2, 4))
    assert four - two == pytest.approx(2 * (two - one))
    assert process_bytes(large, 4) == process_bytes(large, 64)


@pytest.mark.parametrize(
    ("precision", "batch_size", "gib", "fits"),
    [  # NVIDIA's BERT-Large on V100 with 32 GB and A100 with 80 GB: what ran, and what did not
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
