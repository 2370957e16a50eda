"""Text from outside shows no secret, moves no cursor and stays short."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalemark.records.measurement import AttemptResult
from scalemark.text.untrusted import MOST_CHARACTERS, quoted, quoted_lines, visible
from tests.app import run_app
from tests.filled import MACHINE, fill
from tests.specs import small
from tests.store.test_damaged_files import COMMANDS


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


PIECES = [
    "--token ",
    "password=s3cr3t ",
    "Cookie: ",
    "KEY=",
    "\0",
    "\n",
    "\t",
    "\u202e",
    "://u:p@",
    *" =:'\"-_xT…*",
]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map("".join), st.integers(1, 60))
def test_what_is_stored_once_stays_as_it_is(text, most):
    stored = quoted_lines(text, most)
    assert quoted_lines(stored, most) == stored
    assert len(stored) <= most


def test_a_text_is_cut_before_a_mask_not_within_it():
    assert quoted_lines(f"{'x' * 20} password=s3cr3t and more", 32) == f"{'x' * 20} password…"


@pytest.mark.parametrize("length", [2**14 + 1, 2**20])
def test_a_text_of_blanks_alone_is_cut_too(length):
    assert quoted(" " * length) == " " * (MOST_CHARACTERS - 1) + "…"


@pytest.mark.parametrize(
    "piece", ["token_", "://", "@://u:", "eyJ-", "--token ", "pass=", "-----BEGIN ", "x", "x "]
)
def test_of_a_cell_of_a_megabyte_16384_characters_are_shown(piece):
    assert len(visible(piece * (2**20 // len(piece)))) <= 2**14


@settings(deadline=None)
@given(st.text(st.characters(), max_size=50), st.integers(1, 60))
def test_what_is_shown_is_printable_short_and_stays_so(text, most):
    shown = quoted(text, most)
    assert shown.isprintable()
    assert len(shown) <= most
    stored = quoted_lines(text, most)
    assert quoted_lines(stored, most) == stored


def test_a_message_of_megabytes_is_stored_as_2000_characters():
    result = AttemptResult(outcome="failed", message=f"\x1b[2J{'x' * 5_000_000}")
    assert len(result.message) == MOST_CHARACTERS == 2000
    assert result.message.startswith(r"\x1b[2Jx")
    assert AttemptResult.from_json(result.to_json()) == result


HOSTILE = "\x1b]0;title\x07\x9b31m\u202e\ntoken=s3cr3t"
QUICK = [name for name in COMMANDS if name not in ("chart", "report")]


def test_no_command_shows_what_a_database_holds_as_it_is(capsys, monkeypatch):
    machine = replace(MACHINE, host=f"a{HOSTILE}", cpu=f"b{HOSTILE}")
    specs = [(small(model=f"c{HOSTILE}"), 10.0), (small(model=f"c{HOSTILE}", num_gpus=2), None)]
    fill("r.db", specs, name=f"d{HOSTILE}", machine=machine)
    for name in QUICK:
        ended = run_app(capsys, monkeypatch, *COMMANDS[name], "--db", "r.db")
        shown = ended.stdout + ended.stderr
        assert not set(shown) & set("\x1b\x07\x9b\u202e"), (name, shown)
        assert "s3cr3t" not in shown, (name, shown)
