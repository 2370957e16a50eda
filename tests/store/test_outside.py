"""Text from outside shows no secret, moves no cursor and stays short."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.outside import MOST_CHARACTERS, quoted, quoted_lines, visible
from store.records import Result


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07\x1b[31mred", r"\x1b]0;title\x07\x1b[31mred"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("\u202etxet\u2066", r"\u202etxet\u2066"),
        ("\ud800", r"\ud800"),
        ("one\r\ntwo", r"one\r\ntwo"),
        ("café 你好", "café 你好"),
    ],
)
def test_controls_are_shown_as_python_writes_them(text, shown):
    assert visible(text) == quoted(text) == shown


def test_what_is_stored_keeps_its_lines():
    assert quoted_lines("one\n\ttwo\x1b[2J") == "one\n\ttwo\\x1b[2J"


def test_a_secret_at_the_cut_is_masked_before_it():
    text = "mysqld --user=me --password=hunter2hunter2hunter2 --port=3306"
    assert quoted(text, 40) == "mysqld --user=me --password=*** --port=…"
    assert "hunter" not in quoted(text, 30)


def test_a_secret_split_by_megabytes_before_it_is_not_shown():
    for num in range(16_340, 16_400):
        assert "s3cr3t" not in quoted(f"password={'x' * num} token=s3cr3t {'y' * 5_000_000}")


@settings(deadline=None)
@given(st.text(st.characters(), max_size=50), st.integers(1, 60))
def test_what_is_shown_is_printable_short_and_stays_so(text, most):
    shown = quoted(text, most)
    assert shown.isprintable()
    assert len(shown) <= most
    stored = quoted_lines(text, most)
    assert quoted_lines(stored, most) == stored


def test_a_message_of_megabytes_is_stored_as_2000_characters():
    result = Result(outcome="failed", message=f"\x1b[2J{'x' * 5_000_000}", measurement=None, op_placement={})
    assert len(result.message) == MOST_CHARACTERS == 2000
    assert result.message.startswith(r"\x1b[2Jx")
    assert Result.from_json(result.to_json()) == result
