"""Communication is shown by another way of exchange that is faster."""

from dataclasses import replace

import pytest

from analysis.explain.causes import Bound
from analysis.explain.verdicts import Confidence
from analysis.selection import Selection, load
from scalemark.records.references import Origin
from tests.analysis.explain.explained import GPUS, INDEPENDENT, explained, result

NCCL = {"num_gpus": 8, "all_reduce": "nccl"}


def shown(diagnosis):
    return [cause for cause in diagnosis.causes if cause.because.endswith("takes that much less")]


def test_another_way_of_exchange_that_is_faster_shows_communication():
    slow, fast = result(150, num_gpus=8), result(110, **NCCL)
    diagnosis = explained(slow, fast).diagnosis
    (evidence,) = shown(diagnosis)
    assert (diagnosis.bound, diagnosis.confidence) == (Bound.COMMUNICATION, Confidence.LIKELY)
    assert 0 < evidence.seconds.low < 0.04 < evidence.seconds.high
    assert diagnosis.why.endswith(": replicated_nccl takes that much less")
    assert explained(fast, slow).diagnosis.bound is None


def test_another_way_that_repeats_cannot_tell_from_this_one_shows_nothing():
    noisy = (0.7, 1.0, 1.3)
    slow = result(150, num_gpus=8, factors=noisy)
    assert not shown(explained(slow, result(110, factors=noisy, **NCCL)).diagnosis)


def test_what_independent_replicas_lose_less_is_no_other_way_of_exchange():
    """Contention that they show is subtracted, and never communication."""
    diagnosis = explained(result(150, num_gpus=8), result(100, num_gpus=8, **INDEPENDENT)).diagnosis
    assert len(diagnosis.causes) == 1
    assert not shown(diagnosis)


@pytest.mark.parametrize("change", [{"item": "samples"}, {"throughput": 1e-300}])
def test_other_items_and_odd_throughputs_are_no_evidence(change):
    other = result(110, **NCCL)
    if "throughput" in change:
        change = change | {"repeats": (1e-300,), "low": None, "high": None}
    found = explained(result(150, num_gpus=8), replace(other, **change)).diagnosis
    assert not shown(found)


def figure(milliseconds, **changes):
    made = result(milliseconds, replace(GPUS, origin=Origin.PUBLISHED), (1.0,), **changes)
    trial_id = f"{made.trial_id}-{milliseconds}"
    return replace(made, trial_id=trial_id, repeats=(made.throughput,), low=None, high=None)


def test_unreported_data_are_not_called_an_input():
    """A bug: of a figure that says nothing of its data all was laid on reading them."""
    unknown = figure(200)
    unknown = replace(unknown, axes=unknown.axes | {"data": ""})
    found = explained(unknown, figure(100))
    assert found.diagnosis.bound is None
    assert "input or other data (100 ms): not reported" in found.diagnosis.why


def test_no_published_verdict_is_sure():
    source = "tf-benchmarks-2017/gce"
    published = load(Selection(db="none.db", origin=Origin.PUBLISHED, source=source))
    wide = [row for row in published if row.num_gpus == 8]
    found = {explained(row, *published).diagnosis.confidence for row in wide}
    assert found == {Confidence.LIKELY, Confidence.CANNOT_TELL}
