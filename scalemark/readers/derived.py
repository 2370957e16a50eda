"""Derives a pattern from a log that no reader knows: from its lines that look like a rate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from scalemark.readers.bars import BEFORE_RATE
from scalemark.readers.fields import MEAN
from scalemark.readers.numbers import NUMBER, SECONDS, usable_rate
from scalemark.readers.rates import Rate, rate_of
from scalemark.readers.steps import (
    literal,
    step_pattern,
    step_pattern_above,
    step_pattern_alone,
)

MOST_LINES = 20_000
_MOST_CHARACTERS = 2_000
_MOST_KEY = 60
_MOST_ABOVE = 40  # lines between that of the step and that of the rate
_MOST_CANDIDATES = 8
_MOST_NUMBERS = 5  # in a row, between which only units stand
_HINT = re.compile(
    r"/\s?s|per[_ -]?s|/it|/step|/batch|tps|wps|ips|sps|fps|ups|tgs|throughput|rate|speed"
    r"|time|timing|dt\b|took|duration|\d\s?(?:ms|us|s|sec|seconds)\b|s/"
    r"|ms\b|cost|seconds|avg|PerSec|/\s?(?:gpu|device)",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"(?<![\w.]){NUMBER}(?!:\d)")
_UNIT = re.compile(
    r"\s?(?:[A-Za-zµ]+|(?=/))(?:\s?/\s?[A-Za-z]+)*(?:\s+per\s+[A-Za-z]+)*(?:\([a-z]+\))?"
)
_BYTES_OR_FLOPS = re.compile(r"\s?(?:[KMGT]i?B\b|[KMGTP]?FLOP)", re.IGNORECASE)
_BOUNDARY = re.compile(r"[,;|\t{}\[\]]|\s{2,}|\)\s")
_NEXT_NUMBER = re.compile(rf"\s+{NUMBER}(?!\s?%)")
_IS_NAME = re.compile(r"['\"]?\s*[:=]")
_OF_BARS = ("it/s", "s/it")
_ANY = ".*?"
_LOSS = re.compile(
    r"\b((?:(?:train|lm|total|avg)[_ ]?)?loss['\":=\s]{0,4}?)"
    r"([-+]?\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf)\b",
    re.IGNORECASE,
)
_AFTER_NUMBER = re.compile(r"\d\S*\s+(?=\D)")
_ENDS_WITH_NUMBER = re.compile(r"\d[:\])]?\s*$")
_NO_STEP = re.compile(
    r"checkpoint|sav(?:ed|ing)|load|compil|eval|valid"
    r"|step = \d+ \([\d.]+ sec\)",  # of TensorFlow's Estimator: all steps since the line before
    re.IGNORECASE,
)
_OF_ESPNET = re.compile(r"iter_time=.*forward_time=")  # the first is the wait for data
_VALIDATION = re.compile(r"\((?:val|test|eval)\)|^\W*(?:test|eval\w*|valid\w*)\b", re.IGNORECASE)
_LOADING = re.compile(
    r"download|map|load|token|filter|generat|extract|valid|eval|test", re.IGNORECASE
)


@dataclass(slots=True)
class _Candidate:
    """Numbers that stand between the same words on several lines."""

    rate: Rate
    key: str  # the text before the number
    unit: str  # the text after it
    places: list[int] = field(default_factory=list)  # which lines
    numbers: list[str] = field(default_factory=list)

    @property
    def num_usable(self) -> int:
        return sum(usable_rate(text) is not None for text in self.numbers)

    @property
    def merit(self) -> tuple[bool, bool, bool, bool, bool, bool, int, int]:
        """Order candidates: items before steps, many before one, all GPUs before one of them."""
        rate = self.rate
        return (
            rate.name == "throughput",
            self.num_usable > 1,
            not rate.is_mean,
            not rate.is_bare_time,
            rate.per_gpu is not True,
            bool(rate.item),
            self.num_usable,
            -self.places[0],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A pattern for `read=regex:PATTERN`, and what it reads."""

    pattern: str
    rate: Rate | None  # None: of the step alone
    counted: str = ""  # the item where its steps count these, as samples


def derive(lines: Sequence[str]) -> Derived | None:
    """Return the best pattern for the lines of a log: of a rate, or else of the step alone.

    None where no line has either.
    """
    return _of_rate(lines) or _of_step(lines)


def _of_rate(lines: Sequence[str]) -> Derived | None:
    found: dict[tuple[str, str, Rate], _Candidate] = {}
    for place, line in enumerate(lines[:MOST_LINES]):
        for rate, key, unit, text in _rates_of(line):
            like = (literal(key), literal(unit), rate)
            candidate = found.setdefault(like, _Candidate(rate=rate, key=key, unit=unit))
            if not candidate.places or candidate.places[-1] != place:
                candidate.places.append(place)
                candidate.numbers.append(text)
    usable = [candidate for candidate in found.values() if candidate.num_usable]
    usable.sort(key=lambda candidate: candidate.merit, reverse=True)
    for candidate in usable[:_MOST_CANDIDATES]:
        pattern = _pattern(candidate, lines)
        if pattern:
            return Derived(pattern=pattern, rate=candidate.rate)
    return None


def _of_step(lines: Sequence[str]) -> Derived | None:
    trained = [line[:_MOST_CHARACTERS] for line in lines[:MOST_LINES] if not _is_other(line)]
    found = step_pattern_alone(trained)
    return Derived(pattern=found[0], rate=None, counted=found[1]) if found else None


def _is_other(line: str) -> bool:
    """Return whether a line is of validation, or of what comes before training."""
    return bool(_VALIDATION.search(line) or ("%|" in line and _LOADING.search(line[:40])))


def _rates_of(line: str) -> Iterator[tuple[Rate, str, str, str]]:
    """Yield each number of a line that is a rate, with the texts before and after it."""
    line = line[:_MOST_CHARACTERS]
    if not _HINT.search(line) or _is_other(line):
        return
    for found in _NUMBER.finditer(line):
        unit = _unit_after(line, found.end())
        for key in _keys_before(line, found.start()):
            rate = rate_of(key.strip(), unit.strip())
            if rate and not _is_something_else(rate, found[0], line):
                if unit.strip() in _OF_BARS or BEFORE_RATE.search(line[: found.start()]):
                    rate = replace(rate, is_mean=True)
                yield rate, key, unit, found[0]
                break


def _is_something_else(rate: Rate, text: str, line: str) -> bool:
    """Return whether a number with the name of a rate is none of training steps."""
    if rate.is_bare_time and _NO_STEP.search(line):
        return True
    if rate.name == "throughput" and not rate.item and text.endswith("T"):
        return True  # of floating-point operations
    return rate.name == "step_s" and bool(_OF_ESPNET.search(line))


def _keys_before(line: str, place: int) -> Iterator[str]:
    """Yield the text before a number: after the number before it, and with that one."""
    begin = line[max(0, place - _MOST_KEY) : place]
    bare = begin.rstrip(" \t:='\"|>")
    bounds = [found.end() for found in _BOUNDARY.finditer(bare)]
    key = begin[bounds[-1] :] if bounds else begin
    numbers = [found.end() for found in _AFTER_NUMBER.finditer(key)]
    if numbers and numbers[-1] < len(key):
        yield key[numbers[-1] :].lstrip()
        if re.search(r"[:=]\s*\S", key):
            return  # another number with its name
    yield key.lstrip()
    if _ENDS_WITH_NUMBER.search(key):
        yield ""


def _unit_after(line: str, place: int, most: int = _MOST_NUMBERS) -> str:
    """Return the unit after a number, where it is one: `/` or `per`, a time, or bytes.

    Whether words are a unit, or the name of the next number, what follows tells: of at most `most`
    numbers.
    """
    after = line[place : place + 40]
    other = _BYTES_OR_FLOPS.match(after)
    if other:
        return other[0]
    found = _UNIT.match(after)
    unit = found[0] if found else ""
    if "/" not in unit and " per " not in unit and unit.strip() not in SECONDS:
        return ""
    end = place + len(unit)
    if _IS_NAME.match(line, end):
        return ""
    following = _NEXT_NUMBER.match(line, end) if most else None
    if following and not _unit_after(line, following.end(), most - 1):
        return ""
    return unit


def _pattern(candidate: _Candidate, lines: Sequence[str]) -> str | None:
    """Return the pattern of a number with its step; None for a time that no step stands beside."""
    own = [lines[place][:_MOST_CHARACTERS] for place in candidate.places]
    number = _anchored(candidate)
    step = step_pattern(own)
    step_at, number_at = re.search(step or "$.", own[-1]), re.search(number, own[-1])
    if step and step_at and number_at:
        begin = number_at.start(_group(candidate))
        if number_at.start() < step_at.end() <= begin:
            between = literal(own[-1][step_at.end() : begin])
            return _with_loss([f"{step}{between}{_number(candidate)}"], own)
        if step_at.start() < number_at.start():
            return _with_loss([step, number], own)
        if not step.startswith("^"):
            return _with_loss([number, step], own)
    above = step_pattern_above(lines, candidate.places, _MOST_ABOVE)
    if above:
        return f"{above}|{number}"
    return None if candidate.rate.is_bare_time else _with_loss([number], own)


def _with_loss(parts: Sequence[str], own: Sequence[str]) -> str:
    """Return the parts as one pattern, with the loss where all of the lines have it."""
    plain = _ANY.join(parts)
    found = _LOSS.search(own[-1])
    if not found:
        return plain
    loss = rf"\b{literal(found[1])}(?P<loss>[-+\d.eE]+|nan|inf)"
    places = [re.search(part, own[-1]) for part in parts]
    before = [
        part for part, at in zip(parts, places, strict=True) if at and at.end() <= found.start()
    ]
    with_loss = _ANY.join([*before, loss, *parts[len(before) :]])
    has_loss = re.compile(with_loss)
    return with_loss if all(has_loss.search(line) for line in own) else plain


def _anchored(candidate: _Candidate) -> str:
    """Return the pattern of a number between its words."""
    boundary = r"\b" if candidate.key[:1].isalnum() else ""
    return f"{boundary}{literal(candidate.key)}{_number(candidate)}"


def _group(candidate: _Candidate) -> str:
    """Return the name of the group of a number."""
    rate = candidate.rate
    is_total = rate.name == "throughput" and rate.is_total and candidate.num_usable == 1
    if is_total:
        return "total"
    return f"{MEAN}{rate.name}" if rate.is_mean else rate.name


def _number(candidate: _Candidate) -> str:
    """Return the pattern of a number with its unit; a group says what it is."""
    written = "".join(candidate.numbers)
    characters = r"\d.,"
    if re.search(r"[eE][-+]?\d", written):
        characters = r"-+\deE.,"
    if "_" in written:
        characters += "_"
    multiple = "[kKMGBT]?" if re.search(r"\d[kKMGBT]", written) else ""
    return rf"(?P<{_group(candidate)}>[{characters}]+{multiple}){literal(candidate.unit)}"
