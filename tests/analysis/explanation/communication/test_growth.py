"""Losses are laid on bytes only where bytes order them, and better than a fixed time would."""

import pytest

from analysis.explanation.communication.growth import Point, growth

MB, MS = 1e6, 1e-3
# bytes of the gradients of alexnet, vgg16, resnet50, resnet152, inception3; compute of a step
WORK = ((247 * MB, 780 * MS), (553 * MB, 904 * MS), (102 * MB, 646 * MS))
WORK += ((241 * MB, 1600 * MS), (95 * MB, 1092 * MS))


def points(lost_s):
    return [
        Point(sent_bytes=sent, alone_s=alone, lost_s=lost_s(sent, alone)) for sent, alone in WORK
    ]


def test_a_loss_by_bytes_is_shown_with_its_rate():
    found = growth(points(lambda sent, alone: sent / 4e9 + 0.05 * alone))
    assert found.is_shown
    assert 1 / found.s_per_byte == pytest.approx(4e9)
    assert found.p == pytest.approx(1 / 120)  # one order of five is as the bytes have it


def test_a_loss_by_a_fixed_time_is_not_laid_on_bytes():
    """The host's time weighs more where compute is short, as bytes do."""
    fixed = [
        Point(sent_bytes=(100 + n) * MB, alone_s=100 * 2**n * MS, lost_s=30 * MS) for n in range(5)
    ]
    found = growth(fixed)
    assert (found.p <= 0.05, found.is_rivaled, found.is_shown) == (True, True, False)


def test_a_loss_by_a_share_of_the_compute_is_not_laid_on_bytes():
    noise = iter((0.31, 0.30, 0.29, 0.32, 0.30))
    assert not growth(points(lambda sent, alone: next(noise) * alone)).is_shown


def test_three_points_are_too_few_and_one_size_shows_nothing():
    every = points(lambda sent, alone: sent / 4e9)
    assert growth(every[:3]) is None
    assert growth(points(lambda sent, alone: 0.0)) is None
    batches = [Point(sent_bytes=MB, alone_s=MS * n, lost_s=MS) for n in range(1, 9)]
    assert growth(batches) is None
