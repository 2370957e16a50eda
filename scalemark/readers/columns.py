"""Finds the numbers of lines that are rates, and groups those that stand between the same words."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from scalemark.readers.kinds.tqdm import BEFORE_RATE, bar_of
from scalemark.readers.numbers import NUMBER, SECONDS, usable_rate
from scalemark.readers.step_forms import COUNTED, STEP_WORDS, literal
from scalemark.readers.words import OF_ITEMS, Role, phase_of, role_of, words_of

_MOST_RATES = 24  # of a line
_MOST_LABEL = 60
_MOST_NUMBERS = 5  # in a row, between which only units stand
APART = 1.05  # columns whose medians differ by less say the same
_MOST_LEADS = 6  # with more, the text before numbers is no kind of line
_HINT = re.compile(
    r"/\s?s|per[_ -]?s|/it|/step|/batch|tps|wps|ips|sps|fps|ups|tgs|throughput|rate|speed"
    r"|time|timing|dt\b|took|takes?\b|duration|\d\s?(?:ms|us|s|sec|seconds)\b|s/"
    r"|ms\b|cost|seconds|avg|PerSec|/\s?(?:gpu|device)|sec\b",
    re.IGNORECASE,
)
VALUE = re.compile(rf"(?<![\w.]){NUMBER}(?!:\d)")
_UNIT = re.compile(
    r"\s?(?:[A-Za-zµ]+|(?=/))(?:\s?/\s?[A-Za-z]+)*(?:\s+per\s+[A-Za-z]+)*(?:\([a-z]+\))?"
)
_IN_LABEL = re.compile(  # behind a number that counts, and is no value: `10 sec: 22528.2`
    rf"\s?(?:(?:s|secs?|seconds?|min|minutes?)\s*\)?\s*[:=]|-?\s?{STEP_WORDS}\b(?!/s))", re.I
)
_OF_SEVERAL = re.compile(  # a time of more steps than one, as `3.5 s per 100 iterations`
    rf"\s?[a-zµ]+\s*(?:/|per|for|over|in|\()\s*(?:the\s+)?(?:last\s+)?\d+\s*{STEP_WORDS}\b", re.I
)
_BYTES_OR_FLOPS = re.compile(r"\s?(?:[KMGT]i?B\b|[KMGTP]?FLOP)", re.IGNORECASE)
_BOUNDARY = re.compile(r"[,;|\t\n{}\[\]]|\s{2,}|\)\s|\s-\s")
_NEXT_NUMBER = re.compile(rf"\s+{NUMBER}(?!\s?%)")
_IS_NAME = re.compile(r"['\"]?\s*[:=]")
_BESIDE = re.compile(r"[\d.]\s*\(\s*$")
_UNIT_BEFORE = re.compile(r"^\S*/\S+\s*(?=\($)")  # of the number before, as `img/s/GPU (`
_CLAIMED = re.compile(r"\b(?:on|with|for|using|across|over|after)\s*$", re.IGNORECASE)
_OF_BARS = ("it/s", "s/it")
_AFTER_NUMBER = re.compile(r"(?:\d|\b(?:nan|inf)\b)\S*\s+(?=\D)")
_ENDS_WITH_NUMBER = re.compile(r"\d[:\])]?\s*$")
_NO_STEP = re.compile(
    r"checkpoint|sav(?:ed|ing)|load|compil|eval|valid"
    r"|step = \d+ \([\d.]+ sec\)",  # of TensorFlow's Estimator: all steps since the line before
    re.IGNORECASE,
)
_OF_ESPNET = re.compile(r"iter_time=.*forward_time=")  # the first is the wait for data
_VALIDATION = re.compile(r"\((?:val|test|eval)\)|^\W*(?:test|eval\w*|valid\w*)\b", re.IGNORECASE)
HEADER = re.compile(  # what loggers put before a line
    r"^(?:\s*(?:\[[^\]]*\d[^\]]*\]|\d{2,4}[-/]\d\d[-/]\S+|\d\d?:\d\d:\S+|[IWE]\d{4}\b.*?\]"
    r"|(?:INFO|DEBUG|WARNING|ERROR|root)\b:?|[a-z_]+(?:\.\w+)+:?|[-|>*])\s*)+",
)
_FACTS = (  # what lines of known programs do not say of themselves
    (re.compile(r"\btps: .*\btflops: .*\bmfu: "), {"per_gpu": True}),  # torchtitan
    (re.compile(r"/sec: \S+ \+/- \S+ \(jitter = "), {"is_mean": True}),  # tf_cnn_benchmarks
    (re.compile(r"^SPS: \d+$"), {"is_mean": True}),  # CleanRL: since the run began
)


@dataclass
class Column:
    """Numbers that stand between the same words on several lines."""

    role: Role
    label: str  # the text before the number
    unit: str  # the text after it
    lead: str  # the words that a line begins with
    places: list[int] = field(default_factory=list)  # which lines
    starts: list[int] = field(default_factory=list)  # where in them
    texts: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)  # of steps in their labels

    def take(self, place: int, start: int, text: str, count: str) -> None:
        self.places.append(place)
        self.starts.append(start)
        self.texts.append(text)
        if count:
            self.counts.append(count)

    @cached_property
    def values(self) -> list[float]:
        values = [usable_rate(text) for text in self.texts]
        return [value for value in values if value is not None]

    @property
    def counts_steps(self) -> bool:
        """Return whether its times are of as many steps as their labels say, each of the same."""
        return bool(self.counts) and len(set(self.counts)) == 1


def columns_of(lines: Sequence[str]) -> Iterator[Column]:
    """Yield columns, one for each kind of line in which they stand."""
    by_words: dict[tuple[str, str, Role, int], dict[str, Column]] = {}
    for place, line in enumerate(lines):
        if not _HINT.search(line):
            continue
        other, lead = is_other(line), _lead(line)
        times: dict[tuple[str, str], int] = {}
        for role, label, unit, match, count in islice(_rates_of(line), _MOST_RATES):
            like = (literal(label), literal(unit))
            times[like] = times.get(like, 0) + 1
            if other and not role.aside:
                role = replace(role, aside=other)
            leads = by_words.setdefault((*like, role, times[like]), {})
            column = leads.setdefault(lead, Column(role, label, unit, lead))
            column.take(place, match.start(), match[0], count)
    for leads in by_words.values():
        yield from _kinds(list(leads.values()))


def _kinds(columns: Sequence[Column]) -> Sequence[Column]:
    """Return the columns of lines of different kinds, or one where their words say nothing."""
    usual = [statistics.median(column.values) for column in columns if column.values]
    agree = not usual or max(usual) <= APART * min(usual)
    if len(columns) == 1 or (len(columns) <= _MOST_LEADS and not agree):
        return columns
    most = max(columns, key=lambda column: len(column.places))
    rows = [
        row
        for column in columns
        for row in zip(column.places, column.starts, column.texts, strict=True)
    ]
    merged = Column(most.role, most.label, most.unit, "")
    for place, start, text in sorted(rows):
        merged.take(place, start, text, "")
    merged.counts = [count for column in columns for count in column.counts]
    return [merged]


def is_other(line: str) -> str:
    """Return the word by which a line is of validation, or of what comes before training."""
    validation = _VALIDATION.search(line)
    if validation:
        return validation[0].strip(" ([)]:")
    return phase_of(_lead(line)) or (phase_of(line[:40], is_bar=True) if "%|" in line else "")


def _lead(line: str) -> str:
    """Return the first words of a line, without the header of a logger."""
    header = HEADER.match(line)
    begin = re.match(r"\D{0,40}", line[header.end() if header else 0 :])
    return " ".join(words_of(begin[0])[:2]) if begin else ""


def _rates_of(line: str) -> Iterator[tuple[Role, str, str, re.Match[str], str]]:
    """Yield each number of a line that is a rate: role, texts around it, and the steps it is of."""
    for match in VALUE.finditer(line):
        if _IN_LABEL.match(line, match.end()) or _OF_SEVERAL.match(line, match.end()):
            continue
        unit = _unit_after(line, match.end())
        labels = list(labels_before(line, match.start()))
        # of words that name something else, and none, those of the number before it are not its own
        labels.sort(key=lambda label: bool((role := role_of(label, unit)) and role.aside))
        for label in labels:
            counted = COUNTED.search(label)
            role = role_of(label.strip(" ."), unit.strip())
            if role is None or _is_something_else(role, match[0], line):
                continue
            before = line[: match.start()]
            if not unit and _BESIDE.search(before):
                break  # the mean of the number before it
            if _CLAIMED.search(label):
                break  # by another word, as in `images/s on 4 GPUs`
            is_of_bar = bool(BEFORE_RATE.search(before))
            if role.name not in OF_ITEMS and (is_of_bar or bar_of(line)):
                break  # of a bar, which has a reader of its own
            for pattern, changes in _FACTS:
                if pattern.search(line):
                    role = replace(role, **changes)  # type: ignore[arg-type]
            is_beside = before.count("(") > before.count(")") and not words_of(label)
            if unit.strip() in _OF_BARS or is_of_bar or is_beside:
                role = replace(role, is_mean=True)
            if role.name in OF_ITEMS and re.search(r"\d+ ?(?:s|sec|seconds|min): ?$", label):
                role = replace(role, is_mean=True)  # over a window that is longer than a line's
            count = counted[1] if counted and role.name in ("step_s", "step_ms") else ""
            yield role, label, unit, match, count
            break


def _is_something_else(role: Role, text: str, line: str) -> bool:
    """Return whether a number with the name of a rate is none of training steps."""
    if role.is_bare_time and _NO_STEP.search(line):
        return True
    if role.name == "throughput" and not role.item and text.endswith("T"):
        return True  # of floating-point operations
    return role.name == "step_s" and bool(_OF_ESPNET.search(line))


def labels_before(line: str, place: int) -> Iterator[str]:
    """Yield the text before a number: after the number before it, and with that one."""
    begin = line[max(0, place - _MOST_LABEL) : place]
    bare = begin.rstrip(" \t:='\"|>")
    bounds = [match.end() for match in _BOUNDARY.finditer(bare)]
    label = begin[bounds[-1] :] if bounds else begin
    ends = [match.end() for match in _AFTER_NUMBER.finditer(label)]
    ends = [end for end in ends if end < len(label) and not COUNTED.search(label)]
    if ends:
        yield _UNIT_BEFORE.sub("", label[ends[-1] :].lstrip())
        if re.search(r"[:=]\s*\S", label):
            return  # another number with its name
    yield label.lstrip()
    if _ENDS_WITH_NUMBER.search(label):
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
    match = _UNIT.match(after)
    unit = match[0] if match else ""
    if "/" not in unit and " per " not in unit and unit.strip() not in SECONDS:
        return ""
    end = place + len(unit)
    if _IS_NAME.match(line, end):
        return ""
    following = _NEXT_NUMBER.match(line, end) if most else None
    if following and not _unit_after(line, following.end(), most - 1):
        return ""
    return unit
