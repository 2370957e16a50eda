"""Names at the ends of lines stand as near to them as they can, and never on one another."""

import pytest

from plots.pictures.line_ends import apart, column


def test_names_with_room_stay_where_they_are_wanted():
    assert apart([2.0, 0.5, 1.2], [0.2, 0.2, 0.2], 3.0) == pytest.approx([2.0, 0.5, 1.2])


def test_names_of_lines_that_coincide_stand_around_their_middle_in_their_order():
    assert apart([1.0, 1.0, 1.0], [0.2, 0.4, 0.2], 3.0) == pytest.approx([0.7, 1.0, 1.3])
    assert apart([1.1, 1.0], [0.2, 0.2], 3.0) == pytest.approx([1.15, 0.95])


def test_names_at_the_edges_stay_inside():
    assert apart([0.0, 0.0], [0.2, 0.2], 3.0) == pytest.approx([0.1, 0.3])
    assert apart([3.0, 3.0], [0.2, 0.2], 3.0) == pytest.approx([2.7, 2.9])


def test_names_too_tall_for_any_picture_become_a_legend():
    assert column(["short"] * 5).is_named
    assert not column(["a_name_that_needs_many_lines_" * 9] * 5).is_named
