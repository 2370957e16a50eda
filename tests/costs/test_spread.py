"""Tensors of 10, 0, 1 and 14 elements, cut into equal parts."""

import pytest

from costs.spread import cuts, shards

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


def test_more_parts_than_elements_leave_no_empty_part():
    assert [len(part) for part in cuts([2, 1], 9)] == [1, 1, 1]


@pytest.mark.parametrize("num", [1, 2, 3, 25, 30])
def test_shards_hold_all_elements_in_equal_parts(num):
    found = shards(SIZES, num)
    sizes = [sum(pieces) for pieces in found]
    assert (len(sizes), sum(sizes)) == (num, 25)
    assert max(sizes) - min(sizes) <= 1
    assert all(piece > 0 for pieces in found for piece in pieces)


def test_the_last_replicas_have_no_shard_where_elements_are_few():
    """As the trainer hands them out."""
    assert shards([2, 1], 5) == [[1], [1], [1], [], []]
