"""Tensors of 10, 0, 1 and 14 elements, cut into equal parts."""

import pytest

from trainer.collectives import cuts

SIZES = [10, 0, 1, 14]


def test_parts_hold_every_element_once_in_equal_shares():
    found = cuts(SIZES, 4)
    assert [sum(piece.end - piece.begin for piece in part) for part in found] == [6, 6, 6, 7]
    elements = [
        (piece.tensor, element)
        for part in found
        for piece in part
        for element in range(piece.begin, piece.end)
    ]
    assert elements == [
        (tensor, element) for tensor, size in enumerate(SIZES) for element in range(size)
    ]


@pytest.mark.parametrize("num", [1, 2, 3, 25])
def test_parts_differ_by_one_element_at_most(num):
    sizes = [sum(piece.end - piece.begin for piece in part) for part in cuts(SIZES, num)]
    assert (len(sizes), sum(sizes)) == (num, 25)
    assert max(sizes) - min(sizes) <= 1


def test_more_parts_than_elements_leave_no_empty_part():
    assert [len(part) for part in cuts([2, 1], 9)] == [1, 1, 1]
