"""Predictions that may be far off say so, and why; others do not."""

from dataclasses import replace

import pytest

from analysis.calibration.boxes import possible
from analysis.calibration.doubts import doubts
from analysis.calibration.environments import Guess
from analysis.calibration.fit import Fit, Prepared, fit
from analysis.calibration.predicted import predicted
from analysis.calibration.predictive import Predictive
from analysis.calibration.row import Row
from costs.hardware import Hardware
from costs.profiles import profile
from costs.step import Rates
from tests.analysis.calibration.test_fit import BOX, TRUE, reported, row, rows


def one(target: Row, known: list[Row], box: Hardware = BOX) -> Predictive:
    return reported(known, [target], box)[0]


def test_a_sound_prediction_is_not_doubted() -> None:
    assert one(row("resnet50", 8, "ps_cpu"), rows()).uncertain == ()


def test_a_ring_that_leaves_its_clique_is_doubted_and_its_interval_wider() -> None:
    dgx1 = profile("dgx1_p100")
    found = one(row("vgg16", 8, "nccl", batch_size=32), rows(), dgx1)
    assert any(
        "from one NVLink clique to another, which no row does" in why for why in found.uncertain
    )


def test_peers_of_another_socket_are_doubted_until_a_row_has_met_them() -> None:
    target = row("vgg16", 8, "nccl")
    assert any("from one CPU socket to another" in why for why in one(target, rows()).uncertain)
    met = [*rows(), row("vgg16", 6, "nccl", TRUE), row("vgg16", 6, "nccl", TRUE, 32)]
    assert not any("CPU socket" in why for why in one(target, met).uncertain)


def test_a_strategy_that_no_row_has_is_doubted() -> None:
    found = one(row("vgg16", 4, "none"), rows())
    assert "no row has replicated_none on more than one GPU" in found.uncertain


def test_a_curve_that_stopped_rising_is_doubted() -> None:
    known = [
        replace(row("resnet50", num, "nccl", TRUE), throughput=speed)
        for num, speed in ((1, 100.0), (2, 195.0), (3, 280.0), (4, 290.0))
    ]
    found = one(row("resnet50", 8, "nccl"), known)
    assert any("from 3 to 4 GPUs its rows gain 4% of 33%" in why for why in found.uncertain)


def test_an_input_pipeline_at_its_limit_is_doubted() -> None:
    real = [
        replace(one, work=replace(one.work, real_data=True, distortions=True))
        for one in (row("alexnet", 1, "nccl", TRUE, 512),)
    ]
    asked = row("alexnet", 8, "nccl", batch_size=512)
    found = one(replace(asked, work=replace(asked.work, real_data=True, distortions=True)), real)
    assert any("input is, or is near, the limit" in why for why in found.uncertain)


def test_rows_that_the_model_cannot_follow_are_doubted() -> None:
    known = [*rows(), row("vgg16", 1, "nccl", TRUE, 64, times=1.5)]
    assert any(
        "off the model" in why
        for why in one(row("vgg16", 4, "nccl", batch_size=48), known).uncertain
    )


def test_another_precision_is_doubted() -> None:
    asked = row("vgg16", 4, "ps_cpu")
    found = one(replace(asked, work=replace(asked.work, precision="fp16")), rows())
    assert "no row has vgg16 in half" in found.uncertain


def test_another_batch_is_doubted_where_rows_have_one_and_covered() -> None:
    """A bug: the simulator's kernels start faster than the prior has it, and where all rows had
    batch 64 its batch of 128 was 15 % slower than predicted, outside of the interval.
    """
    rates = Rates()
    alike = [one for one in rows(rates) if one.work.batch_size == 64]
    asked = row("resnet50", 4, "ps_cpu", batch_size=128)
    found = one(asked, alike)
    said = "all rows have batch_size 64: none shows how a larger or smaller batch scales"
    assert said in found.uncertain
    truth = row("resnet50", 4, "ps_cpu", rates, batch_size=128).throughput
    assert truth is not None
    assert found.low < truth < found.high
    assert said not in one(asked, rows(rates)).uncertain


def test_a_way_that_its_source_does_not_tell_is_doubted_until_its_curve_shows_it() -> None:
    asked = replace(row("vgg16", 4, "nccl"), is_known=False)
    single = [known for known in rows() if known.work.num_gpus == 1]
    assert "how variables are shared is assumed" in one(asked, single).uncertain
    assert "how variables are shared is assumed" not in one(asked, rows()).uncertain


def test_the_memory_of_another_socket_only_widens_the_interval() -> None:
    target = row("vgg16", 8, "ps_cpu", batch_size=32)
    one_socket = replace(BOX, num_sockets=1)
    near, far = one(target, rows(), one_socket), one(target, rows())
    assert far.half_width > 1.3 * near.half_width
    assert far.reasons == ()


def test_more_than_twice_the_gpus_of_all_rows_are_doubted_where_links_are_guessed() -> None:
    two = [one for one in rows() if one.work.num_gpus <= 2]
    guess = Guess(hardware=BOX, reason="guessed", others=possible(BOX, is_gpu_known=True))
    asked = [row("vgg16", num_gpus, "ps_cpu") for num_gpus in (8, 4)]
    eight, four = predicted(two, asked, guess)
    assert "it has 4 times the most GPUs that rows have, 2" in eight.reasons
    assert not any("times the most GPUs" in why for why in four.reasons)
    described = one(asked[0], two)
    assert not any("times the most GPUs" in why for why in described.reasons)


def test_what_gradients_of_biases_wait_is_doubted_until_a_row_shows_it() -> None:
    """A bug: of one GPU it was profiled, and taken for certain of all."""
    asked = row("vgg16", 1, "nccl")
    half = replace(asked, work=replace(asked.work, precision="fp16", data_format="NHWC"))
    unknown = replace(half, work=replace(half.work, data_format=""))
    without = fit(rows(), [half, unknown], BOX)
    waited_s, step_s = (15 * 132 + 63) * 3.4e-6, without.targets[0].costs(without.vector).step_s
    errors = [errors_of(target, without) for target in without.targets]
    assert errors == [pytest.approx(0.5 * waited_s / step_s), 0.0]
    shown = fit([replace(half, throughput=250.0)], [half], BOX)
    assert errors_of(shown.targets[0], shown) == 0.0


def errors_of(target: Prepared, found: Fit) -> float:
    return sum(doubt.error for doubt in doubts(target, found))
