"""A number that has no end of digits does not fill a page."""

import pytest

from scalemark.text.wording import fixed


@pytest.mark.parametrize(
    ("value", "decimals", "text"),
    [
        (91.8, 2, "91.80"),
        (999e12, 0, "999000000000000"),
        (1e15, 2, "1e+15"),
        (1.23456e300, 0, "1.235e+300"),
        (-1e300, 0, "-1e+300"),
    ],
)
def test_huge_numbers_are_written_with_an_exponent(value, decimals, text):
    assert fixed(value, decimals) == text
