"""Groups of devices are aligned in the order given, or any that are free."""

import pytest

from sweeper.devices.slots import Blocks

EIGHT = Blocks(order=tuple(range(8)), aligned=True, most_at_once=8)
ALL_FREE = set(range(8))


def of(*order: int, aligned: bool = True) -> Blocks:
    return Blocks(order=order, aligned=aligned, most_at_once=len(order))


@pytest.mark.parametrize(
    ("blocks", "num_gpus", "wanted"),
    [
        (EIGHT, 2, [(0, 1), (2, 3), (4, 5), (6, 7)]),
        (EIGHT, 3, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (of(0, 2, 1, 3), 2, [(0, 2), (1, 3)]),
        (of(0, 1, 2, 3, 4), 2, [(0, 1), (2, 3)]),
        (of(0, 1, 2, 3, 4, 5), 5, [(0, 1, 2, 3, 4, 5)]),
        (of(0, 1), 4, []),
        (of(0, 1, 2, aligned=False), 2, [(0, 1, 2)]),
        (of(0, 1, 2, aligned=False), 4, []),
    ],
)
def test_groups_are_aligned_to_the_next_power_of_two_or_hold_all(blocks, num_gpus, wanted):
    assert blocks.rooms(num_gpus, set(blocks.order)) == wanted


def test_the_room_that_breaks_up_least_is_found():
    assert EIGHT.rooms(1, ALL_FREE) == [(n,) for n in range(8)]
    assert EIGHT.rooms(2, ALL_FREE - {0}) == [(2, 3)]
    assert EIGHT.rooms(1, ALL_FREE - {0, 2, 3}) == [(1,)]
    assert EIGHT.rooms(3, ALL_FREE - {5}) == [(4, 6, 7)]
    assert EIGHT.rooms(4, ALL_FREE - {0, 5}) == []


@pytest.mark.parametrize(("aligned", "fits"), [(True, False), (False, True)])
def test_two_neighbors_of_two_blocks_are_room_only_where_any_will_do(aligned, fits):
    blocks = of(0, 1, 2, 3, aligned=aligned)
    assert blocks.rooms(2, {1, 2}) == ([(1, 2)] if fits else [])
