"""Groups are what one cause may hit; variances of few values borrow from one another."""

import numpy as np
import pytest
from scipy.special import polygamma

from analysis.guard.noise import _inverse_trigamma, groups_of, moderated


def drawn(truth, freedom, num=200):
    random = np.random.default_rng(1)
    return truth * random.chisquare(freedom, num) / freedom, np.full(num, float(freedom))


def test_variances_that_differ_by_chance_alone_become_one():
    variances, freedom = drawn(4.0, 6)
    found, added = moderated(variances, freedom)
    assert found == pytest.approx(np.full(200, 4.0), rel=0.1)
    assert added == pytest.approx(200 * 6, rel=0.9)
    assert added > 100


def test_trigamma_is_inverted():
    values = np.geomspace(0.3, 1e4, 20)
    assert _inverse_trigamma(polygamma(1, values)) == pytest.approx(values, rel=1e-8)


def test_variances_that_differ_much_stay_what_they_are():
    variances, freedom = drawn(np.geomspace(1e-6, 1.0, 200), 60)
    found, added = moderated(variances, freedom)
    assert np.abs(np.log(found / variances)).max() < 0.5  # of 14
    assert added < 2


def test_borrowing_brings_variances_nearer_to_the_truth():
    """Of true variances that differ by a factor of 2, as trials of a machine do."""
    truth = np.exp(0.35 * np.random.default_rng(2).normal(size=200))
    variances, freedom = drawn(truth, 8)
    found, _ = moderated(variances, freedom)
    assert np.std(np.log(found / truth)) < 0.65 * np.std(np.log(variances / truth))


def test_each_row_borrows_within_itself():
    variances, freedom = drawn(np.repeat([1.0, 100.0], 100), 6)
    rows, added = moderated(variances.reshape(2, 100), freedom.reshape(2, 100))
    assert rows.mean(axis=1) == pytest.approx([1.0, 100.0], rel=0.1)
    assert added.shape == (2, 1)


def test_two_variances_do_not_tell_whether_they_are_alike():
    found, added = moderated(np.array([1.0, 2.0]), np.array([5.0, 5.0]))
    assert found.tolist() == [1.0, 2.0]
    assert added.tolist() == [0.0]


def test_groups_are_all_those_that_share_a_choice_and_each_alone():
    axes = [{"model": "a", "xla": "on"}, {"model": "a", "xla": "off"}, {"model": "b", "xla": "on"}]
    found = [(group.name, group.cells.tolist()) for group in groups_of(axes)]
    assert found == [
        ("all", [0, 1, 2]),
        ("model=a", [0, 1]),
        ("xla=on", [0, 2]),
        ("", [0]),
        ("", [1]),
        ("", [2]),
    ]


def test_groups_of_the_same_cells_are_one():
    axes = [{"strategy": "nccl", "all_reduce": "nccl"}] * 2 + [{"strategy": "none"}]
    names = [group.name for group in groups_of(axes)]
    assert names == ["all", "strategy=nccl", "", "", ""]


def test_a_cell_alone_is_a_group():
    assert [group.name for group in groups_of([{"model": "a"}])] == [""]
