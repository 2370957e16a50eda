"""A published strategy is known where its source names it in full."""

import pytest

from analysis.known_boxes import is_known

AXES = {
    "model": "resnet50",
    "batch_size": 64,
    "data": "synthetic",
    "precision": "fp32",
    "variable_update": "replicated",
    "local_parameter_device": "gpu",
    "all_reduce": "nccl",
    "num_gpus": 8,
}


@pytest.mark.parametrize(
    ("axes", "known"),
    [
        ({}, True),
        ({"variable_update": "kvstore"}, False),
        ({"all_reduce": "?"}, False),
        ({"all_reduce": "?", "num_gpus": 1}, True),
        ({"variable_update": "parameter_server", "local_parameter_device": ""}, False),
    ],
)
def test_only_a_strategy_that_is_named_in_full_is_known(axes, known) -> None:
    assert is_known(AXES | axes) is known
