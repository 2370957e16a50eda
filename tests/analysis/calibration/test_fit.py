"""Calibration finds what was injected, and its intervals hold what they promise."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.calibration.boxes import possible
from analysis.calibration.environments import Guess
from analysis.calibration.fit import fit
from analysis.calibration.layout import Layout
from analysis.calibration.predicted import predicted
from analysis.calibration.predictive import Predictive
from analysis.calibration.row import Row
from costs.hardware import Hardware
from costs.networks import network
from costs.profiles import profile
from costs.step import Rates, Step
from costs.work import Work

BOX = profile("p100_pcie_8")
WAYS = {
    "ps_cpu": ("parameter_server", "cpu", "none"),
    "nccl": ("replicated", "gpu", "nccl"),
    "none": ("replicated", "gpu", "none"),
}


def row(
    model: str,
    num_gpus: int,
    way: str,
    rates: Rates | None = None,
    batch_size: int = 64,
    times: float = 1.0,
) -> Row:
    """Without rates one that is asked for."""
    update, device, all_reduce = WAYS[way]
    work = Work(
        network=network(model), num_gpus=num_gpus, batch_size=batch_size,
        variable_update=update, local_parameter_device=device, all_reduce=all_reduce,
    )  # fmt: skip
    speed = None if rates is None else Step.of(work, BOX).costs(rates).throughput / times
    return Row(work=work, throughput=speed, name=f"{model} {num_gpus} {way}")


TRUE = Rates(compute=0.3, memory=0.42, start=5.0, link=0.5, overlap=0.4, host_s=2e-3, sync=0.01)


def rows(rates: Rates = TRUE) -> list[Row]:
    return [
        row(model, num, way, rates, batch)
        for model, batch in (("vgg16", 32), ("vgg16", 64), ("resnet50", 32), ("resnet50", 64))
        for num in (1, 2, 4)
        for way in ("ps_cpu", "nccl")
    ]


def reported(known: list[Row], targets: list[Row], box: Hardware = BOX) -> list[Predictive]:
    """By the profile of a box."""
    return predicted(known, targets, Guess(hardware=box, reason="reported"))


def test_injected_rates_are_found() -> None:
    found = fit(rows(), [row("vgg16", 4, "ps_cpu")], BOX)
    rates = found.targets[0].rates(found.vector)
    assert rates.compute == pytest.approx(TRUE.compute, rel=0.05)
    assert rates.start == pytest.approx(TRUE.start, rel=0.3)
    assert (1 - rates.overlap) / rates.link == pytest.approx(
        (1 - TRUE.overlap) / TRUE.link, rel=0.4
    )
    assert np.abs(found.residuals).max() < 0.08


def test_rates_that_rows_do_not_tell_keep_their_prior() -> None:
    known = fit(rows(), [row("vgg16", 8, "none")], BOX)
    environment = Layout.of([one.row for one in (*known.rows, *known.targets)], is_known=True)
    index = list(environment.priors).index(("link", *WAYS["none"]))
    assert known.vector[index] == pytest.approx(0, abs=1e-6)
    assert known.covariance[index, index] == pytest.approx(1, abs=1e-6)


@pytest.mark.slow
def test_most_intervals_hold_the_truth_of_boxes_drawn_from_the_priors() -> None:
    assert covered(150) >= 0.92


def covered(num_boxes: int) -> float:
    """Share of the intervals that hold what each of so many boxes, with other rates each, reaches on 8 GPUs, noise included."""
    random = np.random.default_rng(7)
    target = [row("vgg16", 8, "nccl", batch_size=32), row("resnet50", 8, "ps_cpu")]
    known = [one for one in rows() if one.work.batch_size == 64 or one.work.network.name == "vgg16"]
    shape = Layout.of([*known, *target], is_known=True)
    inside = []
    for _ in range(num_boxes):
        truth = random.standard_normal(len(shape.priors))
        found = reported([_drawn(one, shape, truth, random) for one in known], target)
        true = [_drawn(one, shape, truth, random).throughput or 0.0 for one in target]
        inside += [one.low <= speed <= one.high for one, speed in zip(found, true, strict=True)]
    return sum(inside) / len(inside)


def _drawn(one: Row, shape: Layout, truth: np.ndarray, random: np.random.Generator) -> Row:
    rates = shape.rates(one, BOX)(truth)
    speed = Step.of(one.work, BOX).costs(rates).throughput * float(
        np.exp(0.012 * random.standard_normal())
    )
    return replace(one, throughput=speed)


def test_a_curve_that_lies_off_the_physics_stays_off_it() -> None:
    slower = [
        replace(one, throughput=one.throughput / _DRAG[one.work.num_gpus])
        for one in rows()
        if one.throughput
    ]
    target = [row("vgg16", 8, "nccl")]
    plain, dragged = (reported(known, target)[0].throughput for known in (rows(), slower))
    assert dragged < 0.93 * plain


_DRAG = {1: 1.0, 2: 1.05, 4: 1.1}


def test_the_interval_is_narrower_with_more_rows() -> None:
    target = [row("vgg16", 8, "ps_cpu")]
    few = reported([one for one in rows() if one.work.num_gpus == 1], target)[0]
    many = reported(rows(), target)[0]
    assert many.half_width < 0.7 * few.half_width


def test_a_guessed_box_has_wider_intervals() -> None:
    """Where no curve says more: from rows on 1 GPU."""
    known = [one for one in rows() if one.work.num_gpus == 1]
    target = [row("vgg16", 8, "ps_cpu")]
    guess = Guess(hardware=BOX, reason="guessed", others=possible(BOX, is_gpu_known=True))
    assert predicted(known, target, guess)[0].half_width > reported(known, target)[0].half_width


def test_what_else_is_asked_for_changes_nothing() -> None:
    one, other = row("vgg16", 8, "ps_cpu"), row("resnet50", 8, "none", batch_size=32)
    [alone] = reported(rows(), [one])
    _, beside = reported(rows(), [other, one])
    assert (beside.throughput, beside.low, beside.high) == pytest.approx(
        (alone.throughput, alone.low, alone.high), rel=1e-6
    )


def test_the_same_rows_give_the_same_prediction() -> None:
    target = [row("resnet50", 8, "nccl")]
    assert reported(rows(), target)[0].low == reported(rows(), target)[0].low
