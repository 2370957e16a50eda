"""Published figures in the cost model's words."""

from dataclasses import replace

import pytest

from analysis.calibration.environments import guessed
from analysis.calibration.row import completed, is_known, row
from analysis.prediction.predictions import cells
from analysis.published import of_source, published
from costs.profiles import profile
from store.reading.queries import known_references
from tests.analysis.made import made

BOX = profile("dgx1_v100")
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


def test_doubts_and_remarks_are_left_out() -> None:
    reported = completed(
        {**AXES, "all_reduce": "none(implicit copies)", "data": "real?", "precision": "fp16?+XLA"},
        BOX,
    )
    assert (reported["all_reduce"], reported["data"], reported["precision"]) == (
        "none",
        "real",
        "fp16",
    )


def test_notes_tell_of_packs() -> None:
    reported = completed(AXES, BOX, "default; compact fp16 + repack 8")
    assert (reported["gradient_repacking"], reported["compact_gradients"]) == (8, True)
    assert (
        completed({**AXES, "all_reduce": "hierarchical_copy+gradient_repacking=8"}, BOX)[
            "gradient_repacking"
        ]
        == 8
    )
    assert "gradient_repacking" not in completed(AXES, BOX, "packed up in 2018")


@pytest.mark.parametrize(
    ("update", "all_reduce", "way"),
    [
        ("replicated", "?", ("replicated", "gpu", "none")),
        ("replicated", "hierarchical_copy+repack 8", ("replicated", "gpu", "hierarchical_copy")),
        ("replicated", "nccl (repack 2, XLA)", ("replicated", "gpu", "nccl")),
        ("kvstore(update on CPU)", "n/a", ("parameter_server", "cpu", "none")),
        ("MirroredStrategy", "", ("mirrored", "gpu", "nccl")),
        ("DistributedDataParallel", "", ("ddp", "gpu", "nccl")),
        ("", "", ("replicated", "gpu", "nccl")),
        ("PS-based", "", ("parameter_server", "cpu", "none")),
    ],
)
def test_ways_of_sharing_are_known_by_what_they_are_most_like(
    update: str, all_reduce: str, way: tuple[str, str, str]
) -> None:
    reported = completed({**AXES, "variable_update": update, "all_reduce": all_reduce}, BOX)
    assert (
        reported["variable_update"],
        reported["local_parameter_device"],
        reported["all_reduce"],
    ) == way


def test_other_words_than_ours_are_remembered() -> None:
    assert is_known(AXES)
    assert not is_known({**AXES, "variable_update": "kvstore"})
    assert not is_known({**AXES, "all_reduce": "?"})
    assert not is_known(
        {**AXES, "variable_update": "parameter_server", "local_parameter_device": ""}
    )


@pytest.mark.parametrize("all_reduce", ["n/a", "?", ""])
def test_on_one_gpu_no_reduction_need_be_reported(all_reduce: str) -> None:
    """A bug: it was called not reported, where nothing is reduced."""
    (one,) = made(({"model": "resnet50"}, [100.0]))
    (reported,) = (row(replace(one, axes=one.axes | {"all_reduce": all_reduce}), BOX),)
    assert (
        reported.is_known,
        reported.assumed,
        reported.on(1).is_known,
        reported.on(2).is_known,
    ) == (
        True,
        (),
        True,
        False,
    )
    assert not is_known(
        {**AXES, "num_gpus": 1, "variable_update": "parameter_server", "local_parameter_device": ""}
    )


def test_a_strategy_that_is_none_of_those_known_becomes_no_other() -> None:
    """A bug: whatever a source named became replicated_nccl."""
    with pytest.raises(
        ValueError,
        match="'gossip SGD' is no strategy that the cost model knows: independent, mirrored, parameter_server, replicated",
    ):
        completed({**AXES, "variable_update": "gossip SGD"}, BOX)


@pytest.mark.parametrize(
    ("changes", "assumed"),
    [
        ({}, ()),
        (
            {"batch_size": None},
            (
                "batch_size is not reported, 128 is assumed: the largest power of two up to 256 that fits",
            ),
        ),
        (
            {"variable_update": "PS-based"},
            ("how variables are shared is reported as 'PS-based', ps_cpu is assumed",),
        ),
        (
            {"variable_update": "?"},
            ("how variables are shared is not reported, replicated_nccl is assumed",),
        ),
        ({"all_reduce": "?"}, ("all_reduce is not reported, replicated_none is assumed",)),
        (
            {
                "variable_update": "parameter_server",
                "local_parameter_device": "",
                "all_reduce": "none",
            },
            ("local_parameter_device is not reported, ps_gpu is assumed",),
        ),
    ],
)
def test_what_is_not_reported_is_said_to_be_assumed(
    changes: dict[str, object], assumed: tuple[str, ...]
) -> None:
    (found,) = made(({"model": "resnet50"}, [100.0]))
    assert row(replace(found, axes={**AXES, **changes}), BOX).assumed == assumed


@pytest.mark.parametrize(
    ("repeats", "error"),
    [([99.0, 101.0], 0.01), ([98.0, 100.0, 102.0], 0.02 / 3**0.5), ([100.0, 100.0, 100.0], 0.0)],
)
def test_a_row_is_as_sure_as_the_mean_of_its_processes(repeats: list[float], error: float) -> None:
    (found,) = made(({"model": "resnet50"}, repeats))
    low, high = 40.0, 250.0  # an interval that so few repeats leave wide
    assert row(replace(found, low=low, high=high), BOX).spread == pytest.approx(error, rel=1e-3)


def test_the_interval_of_a_single_run_is_no_spread_over_processes() -> None:
    (found,) = made(({"model": "resnet50"}, [100.0]))
    assert row(replace(found, low=99.9, high=100.1), BOX).spread == 0


def test_a_batch_that_is_not_reported_is_the_largest_that_fits() -> None:
    assert completed({**AXES, "batch_size": None}, BOX)["batch_size"] == 128
    assert completed({**AXES, "batch_size": None, "precision": "fp16"}, BOX)["batch_size"] == 256


@pytest.mark.parametrize(
    ("text", "name", "is_known"),
    [
        ("NVIDIA DGX-1 8xP100-SXM2 NVLink", "dgx1_p100", True),
        ("GCE n1-standard-32-k80x8", "k80_8", True),
        ("8x Titan X 12GB PCIe", "titanx_pcie_8", True),
        ("DGX-1V 8xV100", "dgx1_v100", True),
        ("8 x Tesla V100-SXM2-16GB, driver 535", "dgx1_v100", True),
        ("4xV100 server", "v100_pcie_8", True),
        ("8 x Tesla P100-PCIE-16GB", "p100_pcie_8", True),
        ("DGX-2 16xV100-32G", "dgx2_v100", True),
        ("DGX A100 8xA100-40G", "dgx_a100", True),
        ("8xH100-SXM-80G HGX", "h100_8", True),
        ("8x GeForce GTX 1080 Ti", "guessed", False),
        ("2 GPUs (model not stated)", "guessed", False),
    ],
)
def test_a_box_is_known_by_its_words(text: str, name: str, is_known: bool) -> None:
    found = guessed(text, 8)
    assert (found.hardware.name, found.is_known) == (name, is_known)
    assert text in found.reason


def test_a_guessed_box_has_as_many_gpus_as_its_words_tell() -> None:
    assert guessed("10 x GeForce RTX 2080 Ti", 4).hardware.num_gpus == 10
    assert guessed("2 GPUs (model not stated)", 2).hardware.num_gpus == 8


STRONG = {
    **{"model": "resnet50", "image_px": 224, "num_classes": 1001, "scaling": "strong"},
    **{"num_gpus": 2, "batch_size": 8, "gradient_accumulation": 4},
}


def asked(**to: str):
    """Return the only cell that `--to` makes of a row of 64 images in all."""
    (one,) = cells([row(made((STRONG, [100.0]))[0], BOX)], {axis: [to[axis]] for axis in to})
    return one


@pytest.mark.parametrize("axis", ["gradient_accumulation", "num_gpus"])
def test_strong_scaling_keeps_the_batch_in_all(axis) -> None:
    """A bug: of twice as many micro-batches it was twice as large."""
    one = asked(**{axis: "8"})
    assert getattr(one.work, axis) == 8
    assert (one.work.num_examples, one.undivided) == (64, "")


def test_what_does_not_divide_a_batch_in_all_is_named() -> None:
    assert asked(gradient_accumulation="3", num_gpus="4").undivided == (
        "num_gpus=4 gradient_accumulation=3: 64 images in all (scaling=strong) do not divide among "
        "4 * 3 micro-batches; choose numbers whose product divides 64"
    )


def test_micro_batches_in_all_that_do_not_divide_are_no_cell() -> None:
    """A bug: 1024 / 3 was rounded."""
    source = published(of_source(known_references(None), "BERT"))
    one = row(source[0], profile("dgx1_v100"))
    assert (one.on(4).work.gradient_accumulation, one.on(4).undivided) == (256, "")
    assert one.on(3).undivided == (
        "num_gpus=3: 1024 micro-batches in all do not divide among 3 GPUs; choose a number of GPUs "
        "that divides 1024"
    )
