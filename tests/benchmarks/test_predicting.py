"""What must hold of predictions: published figures on 5 GPUs and more, from the same source's on 1 to 4."""

from collections.abc import Sequence

import numpy as np
import pytest

from analysis.calibration.rules import RULES
from benchmarks.predicting import (
    FAR,
    FEW,
    Checked,
    calibrated,
    checked,
    judged,
    pairs,
    rested,
    summary,
    summary_of,
)
from store.reading.queries import known_references

pytestmark = pytest.mark.integration


@pytest.fixture(name="found", scope="module")
def found_of_all() -> list[Checked]:
    return checked(known_references(None))


def on_eight(found: Sequence[Checked]) -> list[Checked]:
    return [one for one in rested(found) if one.row.work.num_gpus == 8]


def of_curves(found: Sequence[Checked]) -> list[Checked]:
    """On 8 GPUs, where a curve has rows on several counts."""
    return [one for one in on_eight(found) if len(one.by_rule) > 1]


def test_curves_are_carried_on_to_8_gpus_with_few_percent_of_error(found: list[Checked]) -> None:
    assert len(on_eight(found)) > 70
    assert len(of_curves(found)) > 50
    assert summary(of_curves(found)).median_error < 0.02
    assert summary(of_curves(found)).p90_error < 0.1


@pytest.mark.parametrize("rule", RULES)
def test_no_one_line_rule_is_off_by_less_in_nine_of_ten(found: list[Checked], rule: str) -> None:
    carried = [one for one in of_curves(found) if rule in one.by_rule]
    errors = [abs(one.rule_error(rule)) for one in carried]
    assert summary(carried).p90_error < np.quantile(errors, 0.9)


def test_intervals_by_other_publishers_hold(found: list[Checked]) -> None:
    reported = summary(of_curves(calibrated(found, found)))
    assert reported.share_inside >= 0.93
    assert reported.half_width < 0.1


def test_predictions_off_by_a_quarter_say_that_they_are_uncertain(
    found: list[Checked],
) -> None:
    assert [one for one in rested(found) if abs(one.error) > FAR and not one.is_uncertain] == []


def test_fewer_than_a_fifth_say_that_they_are_uncertain(found: list[Checked]) -> None:
    assert summary(on_eight(found)).share_uncertain < 0.2


def test_intervals_hold_nearly_all(found: list[Checked]) -> None:
    assert summary(found).share_inside >= 0.9


def test_the_faster_of_two_ways_is_found(found: list[Checked]) -> None:
    """20 pairs differ by more than 5 %, 7 of them rest on rows."""
    reported = pairs(found)
    assert len(reported) == 20
    rested_ones, alone = (
        [pair.is_right for pair in reported if pair.rests is rests] for rests in (True, False)
    )
    assert (len(rested_ones), len(alone)) == (7, 13)
    assert sum(rested_ones) >= 5
    assert sum(alone) >= 12
    assert sum(rested_ones) + sum(alone) >= 0.9 * len(reported)


def test_each_pair_of_cells_counts_once(found: list[Checked]) -> None:
    reported = [
        (pair.faster.hardware, pair.faster.row.work, pair.slower.row.work) for pair in pairs(found)
    ]
    assert len(set(reported)) == len(reported)


def test_no_prediction_rests_on_what_it_predicts() -> None:
    """Figures on more than 4 GPUs are changed, each in another way: predictions stay."""
    of_one = [
        one for one in known_references(None) if one["hardware"].startswith("NVIDIA DGX-1 8xP100")
    ]
    changed = [
        {
            **one,
            "throughput": one["throughput"] * (0.4 + 0.1 * index if one["num_gpus"] > FEW else 1.0),
        }
        for index, one in enumerate(of_one)
    ]
    plain, perturbed = checked(of_one), checked(changed)
    assert len(rested(plain)) > 5
    assert [one.predictive for one in perturbed] == [one.predictive for one in plain]
    assert all(
        one.row.throughput != other.row.throughput
        for one, other in zip(plain, perturbed, strict=True)
    )


@pytest.fixture(name="of_unknown", scope="module")
def found_as_if_unknown() -> list[Checked]:
    """Of three boxes; of all: `python -m benchmarks.prediction`."""
    chosen = ("8x Titan X", "DGX-1P 8xP100", "DGX A100")
    return checked(
        [one for one in known_references(None) if one["hardware"].startswith(chosen)],
        as_unknown=True,
    )


def test_boxes_that_nobody_knows_are_predicted_with_intervals_that_hold(
    of_unknown: list[Checked],
) -> None:
    assert len(rested(of_unknown)) > 12
    assert summary(of_unknown).share_inside >= 0.85  # 16 of 18


def test_of_boxes_that_nobody_knows_none_is_far_off_without_saying_so(
    of_unknown: list[Checked],
) -> None:
    assert summary(of_unknown).num_far_unflagged == 0


def test_vgg16_on_two_cliques_is_uncertain(found: list[Checked]) -> None:
    reported = [
        one
        for one in found
        if "DGX-1 8xP100" in one.hardware and one.row.work.network.name == "vgg16"
    ]
    assert reported
    assert all(one.is_uncertain for one in reported)


def test_an_input_that_collapses_is_uncertain(found: list[Checked]) -> None:
    """AlexNet of tensorflow/benchmarks#359 falls from 11,548 images/s on 4 GPUs to 2,812 on 8, which nothing foretells."""
    reported = [one for one in found if "#359" in one.source]
    assert [one.is_uncertain for one in reported] == [True] * 4


def test_figures_that_nothing_was_fitted_to_are_met() -> None:
    """docs/prediction.md reports the errors of each precision."""
    found = judged(known_references(None))
    assert len(found) == 24
    assert {one.num_rows for one in found} == {0}
    by_precision = {
        precision: summary_of([one for one in found if one.row.work.precision == precision])
        for precision in ("mixed", "fp32", "tf32")
    }
    assert {name: of.num for name, of in by_precision.items()} == {
        "mixed": 12,
        "fp32": 8,
        "tf32": 4,
    }
    assert by_precision["mixed"].median_error < 0.05
    assert by_precision["fp32"].median_error < 0.04
    assert by_precision["tf32"].median_error < 0.15
    assert {of.num_far for of in by_precision.values()} == {0}


def test_none_of_the_other_predictions_rests_on_them(found: list[Checked]) -> None:
    assert not [one for one in found if one.row.work.network.name == "bert_large"]
