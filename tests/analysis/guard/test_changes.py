"""Changes of one cause are one change, which says what became of it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from analysis.guard.changes import ChangeState, _as_one, _size, changes
from analysis.guard.histories import _gaps, split_by_rhythm
from analysis.guard.scan import LEAST
from tests.analysis.guard.made import AXES, day, noisy, record

OLD, NEW = {"driver": "550.1", "kernel": "6.1"}, {"driver": "560.2", "kernel": "6.1"}
VGG16 = [3, 4, 5]


def slower(num_nights: int = 90, since: int = 40, by: float = 0.06, noise: float = 0.01):
    logs = noisy(6, num_nights, noise)
    logs[VGG16, since:] -= by
    return logs


def test_a_change_says_when_by_how_much_of_what_and_what_else_changed():
    (change,) = changes([record(slower(), software=[OLD] * 40 + [NEW])], LEAST)
    assert change.state is ChangeState.REGRESSION
    assert (change.after, change.first, change.latest) == (day(39), day(40), day(40))
    assert change.found == day(41)
    assert change.groups == ("model=vgg16",)
    assert [cell.name for cell in change.cells] == ["vgg16 1", "vgg16 2", "vgg16 4"]
    assert change.causes == ("driver 550.1 -> 560.2",)
    assert change.low < -math.expm1(0.06) + 0.005
    assert change.low < math.expm1(-0.06) < change.high < 0


def test_a_recorded_change_at_another_time_is_no_cause():
    (change,) = changes([record(slower(), software=[OLD] * 35 + [NEW])], LEAST)
    assert change.causes == ()


def test_what_changes_together_is_one_change_also_in_parts():
    logs = noisy(6, 90, 0.02)
    for cell, by in enumerate((0.30, 0.10, 0.05, 0.30, 0.10, 0.05)):
        logs[cell, 40:] -= by
    (change,) = changes([record(logs)], LEAST)
    assert len(change.cells) == 6


def test_changes_at_other_times_or_to_the_other_side_are_others():
    logs = slower()
    logs[VGG16, 70:] -= 0.06
    logs[:3, 40:] += 0.06
    found = changes([record(logs)], LEAST)
    assert [(one.first, one.state, one.groups) for one in found] == [
        (day(40), ChangeState.REGRESSION, ("model=vgg16",)),
        (day(40), ChangeState.IMPROVEMENT, ("model=resnet50",)),
        (day(70), ChangeState.REGRESSION, ("model=vgg16",)),
    ]


def test_two_machines_with_the_same_recorded_change_have_one_alarm():
    software = [OLD] * 40 + [NEW]
    both = [record(slower(), software=software, machine=name) for name in ("a: 8", "b: 8")]
    (change,) = changes(both, LEAST)
    assert change.machines == ("a: 8", "b: 8")
    assert len(change.cells) == 6


def test_two_machines_without_a_recorded_change_have_an_alarm_each():
    both = [record(slower(), machine=name) for name in ("a: 8", "b: 8")]
    assert [one.machines for one in changes(both, LEAST)] == [("a: 8",), ("b: 8",)]


def test_a_regression_that_was_made_good_has_recovered():
    logs = slower()
    logs[VGG16, 70:] += 0.06
    bad, good = changes([record(logs)], LEAST)
    assert (bad.state, bad.recovered) == (ChangeState.RECOVERED, day(70))
    assert good.state is ChangeState.IMPROVEMENT


def test_half_made_good_is_not_recovered():
    logs = slower(by=0.10)
    logs[VGG16, 70:] += 0.05
    assert changes([record(logs)], LEAST)[0].state is ChangeState.REGRESSION


@pytest.mark.parametrize(
    ("night", "state"),
    [(39, ChangeState.REGRESSION), (40, ChangeState.ACCEPTED), (80, ChangeState.ACCEPTED)],
)
def test_a_tag_on_a_sweep_since_accepts_the_change(night, state):
    (change,) = changes([record(slower(), accepted={night: "night-x"})], LEAST)
    assert change.state is state


def test_the_size_is_told_apart_from_drift():
    logs = slower(num_nights=120, since=60, noise=0.003) - 0.0004 * np.arange(120)
    (change,) = changes([record(logs)], LEAST)
    assert change.log_ratio == pytest.approx(-0.06, abs=0.004)


def test_trials_that_are_measured_weekly_are_a_record_of_their_own():
    logs = slower(num_nights=200, since=100)
    logs[VGG16] = np.where(np.arange(200) % 7 == 0, logs[VGG16], np.nan)
    split = split_by_rhythm(record(logs))
    assert [(len(one.cells), len(one.nights)) for one in split] == [(3, 200), (3, 29)]
    (change,) = changes(split, LEAST)
    assert change.after <= day(100) <= change.latest
    assert len(change.cells) == 3


def test_a_trial_stays_in_its_record_when_it_is_measured_less_often_later():
    """A bug: the mean gap over all its history decided, so an alarm could vanish."""
    logs = slower(num_nights=400, since=30)
    logs[VGG16, 45:] = np.where(np.arange(45, 400) % 7 == 0, logs[VGG16, 45:], np.nan)
    for num_nights in (45, 400):
        (part,) = split_by_rhythm(record(logs[:, :num_nights]))
        (change,) = changes([part], LEAST)
        assert (change.first, change.found, len(change.cells)) == (day(30), day(31), 3)


def test_nights_that_are_missing_are_no_rhythm():
    known = np.array([[1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1], [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]])
    assert _gaps(known == 1).tolist() == [0, 3]


def test_the_part_that_was_found_first_dates_an_alarm_and_its_size_is_the_mean_of_all_cells():
    """A bug: it was found on the earliest night of all, and began on that of the largest part."""
    software = [OLD] * 40 + [NEW]
    (early,) = changes([record(slower(by=0.10), software=software, machine="a: 8")], LEAST)
    many = noisy(6, 90, noise=0.01)
    many[:, 41:] -= 0.04
    (late,) = changes([record(many, software=software, machine="b: 8")], LEAST)
    both = _as_one(early, late)
    assert replace(_as_one(late, early), machines=both.machines) == both
    assert (early.found, late.found) == (day(41), day(42))
    assert (both.first, both.found) == (early.first, early.found)
    assert (len(both.cells), both.machines) == (9, ("a: 8", "b: 8"))
    assert both.log_ratio == pytest.approx((3 * early.log_ratio + 6 * late.log_ratio) / 9)
    assert both.low < math.expm1(-0.06) < both.high
    assert both.reach < early.reach


def test_no_history_has_no_change():
    assert changes([], LEAST) == []
    assert changes([record(noisy(1, 1), axes=AXES[:1])], LEAST) == []


def test_a_size_that_is_not_known_has_no_interval():
    before, after = np.array([1.0]), np.array([0.9, 0.9])
    log_ratio, reach = _size(before, after)
    assert math.isnan(log_ratio)
    assert reach == math.inf
