"""Published figures in the cost model's words."""

from dataclasses import replace

import pytest

from analysis.known_boxes import is_known, work_of
from analysis.published import of_others
from analysis.results import Result
from store.reading.references import known_references

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
FIGURE = of_others(known_references(None)[:1])[0]


def figure(**axes: object) -> Result:
    return replace(FIGURE, axes=AXES | axes)


def test_doubts_and_remarks_are_left_out() -> None:
    work = work_of(figure(all_reduce="none(implicit)", data="real?", precision="amp?+XLA"))
    assert (work.all_reduce, work.real_data, work.precision, work.xla) == (
        "none",
        True,
        "fp16",
        True,
    )


@pytest.mark.parametrize(
    ("update", "all_reduce", "way"),
    [
        ("replicated", "?", ("replicated", "gpu", "none")),
        ("replicated", "hierarchical_copy+repack 8", ("replicated", "gpu", "hierarchical_copy")),
        ("kvstore(update on CPU)", "n/a", ("parameter_server", "cpu", "none")),
        ("MirroredStrategy", "", ("mirrored", "gpu", "nccl")),
        ("DistributedDataParallel", "", ("ddp", "gpu", "nccl")),
        ("", "", ("replicated", "gpu", "nccl")),
        ("PS-based", "", ("parameter_server", "cpu", "none")),
    ],
)
def test_ways_of_sharing_are_known_by_what_they_are_most_like(update, all_reduce, way) -> None:
    work = work_of(figure(variable_update=update, all_reduce=all_reduce))
    assert (work.variable_update, work.local_parameter_device, work.all_reduce) == way


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


@pytest.mark.parametrize("axes", [{"variable_update": "gossip SGD"}, {"batch_size": None}])
def test_what_nothing_is_known_of_is_refused(axes) -> None:
    with pytest.raises(ValueError, match=r"gossip SGD|batch_size is not reported"):
        work_of(figure(**axes))
