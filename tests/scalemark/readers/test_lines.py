"""Bytes as they arrive become lines; numbers are read as programs write them."""

import math

import pytest

from scalemark.readers.log_text import MOST_CHARACTERS, Lines, cleaned
from scalemark.readers.words import number, seconds, usable_rate, whole


def cut(*chunks: bytes) -> list[str]:
    lines = Lines()
    fed = [line for chunk in chunks for line, _ in lines.feed(chunk)]
    return fed + [line for line, _ in lines.end()]


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ((b"a\nb\n",), ["a", "b"]),
        ((b"a", b"b\nc"), ["ab", "c"]),
        ((b"1/3\r2/3\r3/3\n",), ["1/3", "2/3", "3/3"]),
        ((b"1/3\b\b\b2/3\b\b\b\r3/3\n",), ["1/3", "2/3", "3/3"]),
        ((b"\x1b[31mred\x1b[0m\r\n",), ["red"]),
        ((b"\x1b]0;title\x07text\n",), ["text"]),
        ((b"a\xff\xfe\n",), ["a��"]),
        ((b"a\0\0b\n\0\0\0",), ["ab"]),
        (("\ufeffa\nb\n".encode("utf-16-le"),), ["a", "b"]),
        (
            ("\ufeffa\nb\n".encode("utf-16-be")[:5], "\ufeffa\nb\n".encode("utf-16-be")[5:]),
            ["a", "b"],
        ),
        ((b"",), []),
        ((b"\n\n\n",), []),
    ],
)
def test_lines_end_where_a_terminal_would_go_on(chunks: tuple[bytes, ...], lines: list[str]):
    assert cut(*chunks) == lines


@pytest.mark.parametrize(
    "chunks",
    [
        (b"\r1/2", b"\r2/2", b"", b"\n"),  # as tqdm
        (b"\n1/2", b"\n2/2"),  # as Keras 3 where it is not on a terminal
        (b"1/2\n", b"2/2\n"),
        (b"1/2", b"\r2/", b"2", b"\n"),
    ],
)
def test_a_line_is_as_old_as_its_last_character(chunks: tuple[bytes, ...]):
    lines = Lines()
    cut = [pair for at_s, chunk in enumerate(chunks) for pair in lines.feed(chunk, float(at_s))]
    last_s = max(at_s for at_s, chunk in enumerate(chunks) if b"2" in chunk)
    assert [*cut, *lines.end()] == [("1/2", 0.0), ("2/2", float(last_s))]


def test_a_line_without_end_is_bounded():
    assert cut(*[b"x" * 10_000] * 50, b"\nnext\n") == ["x" * MOST_CHARACTERS, "next"]


def test_a_character_that_is_cut_in_two_is_read_whole():
    assert cut("━".encode()[:1], "━".encode()[1:] + b"\n") == ["━"]


def test_what_a_line_shows_last_is_read():
    assert cleaned("1/3\r2/3\r") == "2/3"
    assert cleaned("a\tb") == "a\tb"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", 1234.5),
        ("12,345,678", 12345678),
        ("1_000", 1000),
        ("1.2k", 1200),
        ("217K", 217_000),
        ("441.0T", 441e12),
        ("5e-3", 0.005),
        ("1.16e+04", 11600),
        (".5", 0.5),
        ("-3", -3),
        ("0,5", 0.5),
        ("8,034", 8034),
        ("1234,567", 1234.567),
        ("9.929,3", 9929.3),
        ("1.234.567", 1234567),
        ("46.7,", 46.7),
        ("inf", math.inf),
        ("-inf", -math.inf),
    ],
)
def test_a_number_is_read_as_programs_write_it(text: str, value: float):
    assert number(text) == value


@pytest.mark.parametrize(
    "text", ["", "fast", "1,23,4", "12,34,567", "1.2.3", "0x10", "1 2", "--", "1.2kk"]
)
def test_what_is_no_number_is_none(text: str):
    assert number(text) is None


def test_nan_is_a_number_and_no_rate():
    value = number("NaN")
    assert value is not None
    assert math.isnan(value)
    assert [usable_rate(text) for text in ("nan", "inf", "0", "-1", "2")] == [None] * 4 + [2]


@pytest.mark.parametrize(
    ("text", "value"), [("1,200", 1200), ("1.5", None), ("nan", None), ("", None), ("1e3", 1000)]
)
def test_a_step_is_a_whole_number(text: str, value: int | None):
    assert whole(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        ("300ms", 0.3),
        ("2 min", 120),
        ("735us", 735e-6),
        ("1:02:03", 3723),
        ("01:41", 101),
        ("soon", None),
        ("5 parsecs", None),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, value: float | None):
    assert seconds(text) == (pytest.approx(value) if value is not None else None)
