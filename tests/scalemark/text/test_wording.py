"""Names and counts read as people write them."""

import pytest

from scalemark.text.wording import continued, counted, listed, shortened


def test_one_of_something_is_no_plural():
    assert [counted(count, "trial") for count in (0, 1, 2)] == ["0 trials", "1 trial", "2 trials"]


@pytest.mark.parametrize(
    ("names", "reported"), [("a", "a"), ("ab", "a and b"), ("abc", "a, b and c")]
)
def test_names_are_listed(names, reported):
    assert listed(names) == reported


def test_many_names_are_shortened_to_the_first_and_a_count():
    assert shortened("abca", 3) == ["a", "b", "c"]
    assert shortened("abcd", 3) == ["a", "b", "2 more"]


def test_each_line_of_a_comment_is_one():
    """A bug: a shell ran the second line of a command that stood behind a comment."""
    lines = continued("# check out 2cec: scalemark sweep from=2cec3d8f a=1", 24)
    assert len(lines) > 2
    assert all(line.startswith("# ") for line in lines)
    assert all(line.endswith(" \\") for line in lines[:-1])
