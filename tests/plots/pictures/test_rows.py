"""Rows of trials have the height of their names, and axes side by side share the width."""

import pytest

from plots.pictures.rows import beside, centers_in, name_rows, rows_in, scale_x
from plots.pictures.sheet import Sheet
from plots.pictures.theme import PALETTES, Theme


def test_a_row_is_as_high_as_its_name_needs():
    names = ["one", "two\nlines\nmore", "three"]
    first, second, third = centers_in(names, 0.2)
    assert first == pytest.approx(0.1)
    assert second - first > 0.3
    assert third == pytest.approx(rows_in(names, 0.2) - 0.1)


def test_axes_side_by_side_share_the_width_and_do_not_touch():
    sheet = Sheet(PALETTES[Theme.LIGHT])
    left, right = beside(sheet, 1.0, 1.0, 0.3, (2, 1))
    figure = sheet.finished()
    (x0, y0, wide, high), (other_x0, other_y0, narrow, other_high) = (
        left.get_position().bounds,
        right.get_position().bounds,
    )
    assert (y0, high) == (other_y0, other_high)
    assert wide == pytest.approx(2 * narrow)
    assert (other_x0 - x0 - wide) * figure.get_figwidth() == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("values", "scale"),
    [([1.0, 7.0], "linear"), ([1.0, 9.0], "log"), ([0.0, 9.0], "linear"), ([0.0], "linear")],
)
def test_values_far_apart_are_drawn_on_a_logarithmic_axis(values, scale):
    axes = Sheet(PALETTES[Theme.LIGHT]).axes(1.0, 0.5)
    scale_x(axes, values)
    assert axes.get_xscale() == scale
    low, high = axes.get_xlim()
    assert low <= min(values) <= max(values) <= high
    assert high > low


def test_rows_go_from_the_top_down():
    axes = Sheet(PALETTES[Theme.LIGHT]).axes(1.0, 0.5)
    name_rows(axes, ["first", "second"])
    assert axes.get_ylim() == pytest.approx((0.4, 0.0))
