"""Numbers are written as people read them."""

import math

import pytest

from analysis.titles import number, span, spread, title, with_interval


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.00"),
        (0.012345, "0.0123"),
        (0.5, "0.50"),
        (3.14159, "3.14"),
        (9.996, "10.0"),
        (20.0, "20.0"),
        (91.8, "91.8"),
        (99.96, "100"),
        (142.0, "142"),
        (10509.4, "10509"),
        (1234567.8, "1234568"),
        (1e300, "1e+300"),
        (1e-9, "0.000000"),
        (math.nan, "not a number"),
        (math.inf, "infinite"),
    ],
)
def test_a_number_has_three_digits_or_all_before_the_point(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (20.0, "20.0"),
        (91.8, "91.8"),
        (5000.5, "5000.5"),
        (3156.3635, "3156.3635"),
        (36.258, "36.258"),
    ],
)
def test_published_numbers_keep_every_digit(value, text):
    assert number(value, exactly=True) == text


def test_an_interval_has_the_decimals_of_its_number():
    assert span(93.84, 100.2, 97.1) == "93.8, 100.2"


def test_an_interval_of_huge_numbers_is_short():
    assert with_interval(1e300, 9.5e299, 1.05e300) == "1e+300 [9.5e+299, 1.05e+300]"


def test_an_interval_that_tells_nothing_is_shown_as_runs():
    """A bug: two repeats of a small model were printed as 331 [5, 21006]."""
    assert spread([159.0, 690.0], 5.2, 21006.0, 331.0) == "(159 to 690, n=2)"
    assert spread([159.0, 200.0, 300.0, 435.0], 5.2, 960.0, 283.0) == "(159 to 435, n=4)"
    assert spread([330.0, 331.0, 332.0, 331.0], 200.0, 500.0, 331.0) == "[200, 500]"
    assert spread([331.0], 300.0, 350.0, 331.0) == ""


def test_a_title_has_the_name_of_a_program_once():
    named = {"model": "train.py", "strategy": "train.py", "batch_size": 8}
    assert title(named) == "train.py (batch_size 8)"
