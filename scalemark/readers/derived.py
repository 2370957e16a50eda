"""Derives a pattern from a log that no reader knows: from its lines that look like a rate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from scalemark.readers.numbers import NUMBER, SECONDS, usable_rate
from scalemark.readers.rates import Rate, rate_of
from scalemark.readers.step_forms import literal, step_pattern, step_pattern_above

MOST_LINES = 20_000
_MOST_CHARACTERS = 2_000
_MOST_KEY = 60
_MOST_ABOVE = 40  # lines between that of the step and that of the rate
_MOST_CANDIDATES = 8
_HINT = re.compile(
    r"/\s?s|per[_ -]?s|/it|/step|/batch|tps|wps|ips|sps|fps|ups|tgs|throughput|rate|speed|time|dt\b"
    r"|ms\b|cost|seconds|avg|PerSec|/\s?(?:gpu|device)",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"(?<![\w.]){NUMBER}(?!:\d)")
_UNIT = re.compile(
    r"\s?(?:[A-Za-zµ]+|(?=/))(?:\s?/\s?[A-Za-z]+)*(?:\s+per\s+[A-Za-z]+)*(?:\([a-z]+\))?"
)
_BYTES_OR_FLOPS = re.compile(r"\s?(?:[KMGT]i?B\b|[KMGTP]?FLOP)", re.IGNORECASE)
_BOUNDARY = re.compile(r"[,;|\t{}\[\]]|\s{2,}|\)\s")
_AFTER_NUMBER = re.compile(r"\d\S*\s+(?=\D)")
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
    def merit(self) -> tuple[bool, bool, bool, bool, bool, int, int]:
        """Order candidates: items before steps, many before one, all GPUs before one of them."""
        rate = self.rate
        return (
            rate.name == "throughput",
            self.num_usable > 1,
            not rate.is_mean,
            rate.per_gpu is not True,
            bool(rate.item),
            self.num_usable,
            -self.places[0],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """A pattern for `read=regex:PATTERN`, and what it reads."""

    pattern: str
    rate: Rate


def derive(lines: Sequence[str]) -> Derived | None:
    """Return the best pattern for the lines of a log; None where none looks like a rate."""
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


def _rates_of(line: str) -> Iterator[tuple[Rate, str, str, str]]:
    """Yield each number of a line that is a rate, with the texts before and after it."""
    line = line[:_MOST_CHARACTERS]
    if not _HINT.search(line) or _VALIDATION.search(line):
        return
    if "%|" in line and _LOADING.search(line[:40]):
        return
    for found in _NUMBER.finditer(line):
        unit = _unit_after(line, found.end())
        for key in _keys_before(line, found.start()):
            rate = rate_of(key.strip(), unit.strip())
            if rate:
                yield rate, key, unit, found[0]
                break


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


def _unit_after(line: str, place: int) -> str:
    """Return the unit after a number, where it is one: `/` or `per`, a time, or bytes."""
    after = line[place : place + 40]
    found = _UNIT.match(after)
    unit = found[0] if found else ""
    if "/" in unit or " per " in unit or unit.strip() in SECONDS:
        return unit
    other = _BYTES_OR_FLOPS.match(after)
    return other[0] if other else ""


def _pattern(candidate: _Candidate, lines: Sequence[str]) -> str | None:
    """Return the pattern of a number with its step; None for a time that no step stands beside."""
    own = [lines[place][:_MOST_CHARACTERS] for place in candidate.places]
    number = _anchored(candidate)
    step = step_pattern(own)
    step_at, number_at = re.search(step or "$.", own[-1]), re.search(number, own[-1])
    if step and step_at and number_at:
        between = own[-1][step_at.end() : number_at.start(_group(candidate))]
        if number_at.start() < step_at.end() <= number_at.start(_group(candidate)):
            return f"{step}{literal(between)}{_number(candidate)}"
        if step_at.start() < number_at.start():
            return f"{step}.*?{number}"
        if not step.startswith("^"):
            return f"{number}.*?{step}"
    above = step_pattern_above(lines, candidate.places, _MOST_ABOVE)
    if above:
        return f"{above}|{number}"
    return None if candidate.rate.is_bare_time else number


def _anchored(candidate: _Candidate) -> str:
    """Return the pattern of a number between its words."""
    boundary = r"\b" if candidate.key[:1].isalnum() else ""
    return f"{boundary}{literal(candidate.key)}{_number(candidate)}"


def _group(candidate: _Candidate) -> str:
    """Return the name of the group of a number."""
    rate = candidate.rate
    is_total = rate.name == "throughput" and rate.is_total and candidate.num_usable == 1
    return "total" if is_total else rate.name


def _number(candidate: _Candidate) -> str:
    """Return the pattern of a number with its unit; a group says what it is."""
    written = "".join(candidate.numbers)
    characters = r"\d.,"
    if re.search(r"[eE][-+]?\d", written):
        characters = r"-+\deE.,"
    multiple = "[kKMGBT]?" if re.search(r"\d[kKMGBT]", written) else ""
    return rf"(?P<{_group(candidate)}>[{characters}]+{multiple}){literal(candidate.unit)}"
