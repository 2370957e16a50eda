"""The bytes of an update, counted from the model's layers."""

import pytest

from analysis.explanation.communication.update_bytes import update_bytes
from analysis.explanation.text import sentences
from tests.analysis.explanation.explained import CPU_DEVICES, GPUS, PS, explained, result

GRADIENTS = 4 * 25_559_081  # of resnet50 with 1001 classes
RESNET = {"model": "resnet50", "num_classes": 1001, "image_px": 64, "num_gpus": 4, "batch_size": 32}


@pytest.mark.parametrize("environment", [GPUS, CPU_DEVICES], ids=["gpus", "CPU devices"])
def test_a_parameter_server_sends_weights_and_gets_gradients(environment):
    found = update_bytes(result(100, environment, **RESNET, **PS))
    assert (found.weights, found.gradients) == (4 * GRADIENTS, 4 * GRADIENTS)
    assert found.per_item == 8 * GRADIENTS / (4 * 32)


def test_accumulation_sends_as_much_for_more_items():
    one, four = (update_bytes(result(100, **RESNET, gradient_accumulation=num)) for num in (1, 4))
    assert four.gradients == one.gradients
    assert four.per_item == one.per_item / 4


def test_shards_send_as_much_as_an_all_reduce_in_two_parts():
    strategy = {"variable_update": "sharded", "all_reduce": "none"}
    found = update_bytes(result(100, **{**RESNET, **strategy}))
    assert found.weights == found.gradients == pytest.approx(3 * GRADIENTS)


def test_what_is_not_known_is_not_told():
    assert update_bytes(result(100, **{**RESNET, "model": "my.py:build"})) is None
    over_hosts = {"variable_update": "distributed_all_reduce", "all_reduce": "ring", "hosts": 2}
    assert update_bytes(result(100, **{**RESNET, **over_hosts})) is None


def test_the_sentence_names_the_micro_batches(snapshot):
    target = result(100, **{**RESNET, **PS, "gradient_accumulation": 4})
    (sentence,) = [one for one in sentences(explained(target)) if one.startswith("An update")]
    assert sentence == snapshot
