"""Finds the numbers of a log that say how fast a program trains, with patterns that read them.

```
  lines ─► columns: numbers between the same words ─► roles ─► candidates, the best first
                                                      a pattern for each, that reads it alone
```
A column that a pattern cannot tell from others is no candidate, and two that are alike leave the
choice to the user.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from scalemark.readers.columns import (
    APART,
    HEADER,
    VALUE,
    Column,
    columns_of,
    is_other,
    labels_before,
)
from scalemark.readers.fields import MEAN
from scalemark.readers.numbers import NUMBER, number
from scalemark.readers.step_forms import (
    STEP_WORDS,
    grows,
    literal,
    step_pattern,
    step_pattern_above,
    step_pattern_alone,
)
from scalemark.readers.words import (
    OF_ITEMS,
    Role,
    counted_item,
    is_batch,
    is_elapsed,
    is_step,
    words_of,
)

MOST_LINES = 20_000
_MOST_CHARACTERS = 2_000
_MOST_ABOVE = 40  # lines between that of the step and that of the rate
_MOST_CANDIDATES = 12
_MOST_CHECKED = 4_000  # lines on which a pattern is tried
_ROUGHLY = 0.1  # by which counts and times of whole seconds may be off
_EXACT = 0.005  # spread of what is the same but for rounding
_STEADY = 0.03  # spread of what should be constant
_FASTEST_LINE_S = 0.003  # no program prints steps faster than that: these are items
_LOSS = re.compile(
    r"\b((?:(?:train|lm|total|avg)[_ ]?)?loss['\":=\s]{0,4}?)"
    r"([-+]?\d[\d.]*(?:[eE][-+]?\d+)?|nan|inf)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class LineCandidate:
    """A column that may be the speed of training, and a pattern that reads it."""

    role: Role
    pattern: str = ""  # empty: of a column that is the rate of something else
    label: str = ""
    values: Sequence[float] = ()
    place: int = 0  # of its first line
    start: int = 0  # in that
    counted: str = ""  # the item where its steps count these, as samples

    @cached_property
    def class_(self) -> tuple[bool, bool, bool, int, bool, bool, bool]:
        """Order candidates: items before steps, many before one, all of it before a part."""
        role = self.role
        scope = 2 if role.is_total else 0 if role.extra else 1
        return (
            role.name in OF_ITEMS,
            len(self.values) > 1,
            not role.is_bare_time,
            scope,
            not role.is_mean,
            role.per_gpu is not True,
            bool(role.item) and role.item != "items",
        )

    @property
    def merit(self) -> tuple[object, ...]:
        return (*self.class_, len(self.values), -self.place, -self.start)

    @property
    def usual(self) -> float:
        return statistics.median(self.values) if self.values else 0.0

    def is_like(self, other: LineCandidate) -> bool:
        """Return whether nothing says which of both is the speed, and they differ."""
        apart = max(self.usual, other.usual) > APART * min(self.usual, other.usual)
        return apart and self.class_ == other.class_ and self.role.item == other.role.item


def candidates(lines: Sequence[str]) -> list[LineCandidate]:
    """Return what may be the speed of training, the best first; then the rates of other things."""
    lines = [line[:_MOST_CHARACTERS] for line in lines[:MOST_LINES]]
    every = list(columns_of(lines))
    made: list[LineCandidate] = []
    for column in every:
        if not column.role.aside and column.values:
            _check(column, every, lines)
        candidate = None if column.role.aside else _candidate(column, lines)
        if candidate:
            made.append(candidate)
    made.sort(key=lambda candidate: candidate.merit, reverse=True)
    best = made[:_MOST_CANDIDATES]
    if not best:
        alone = step_pattern_alone([line for line in lines if not is_other(line)])
        if alone:
            best = [LineCandidate(role=Role(name=""), pattern=alone[0], counted=alone[1])]
    others = [
        LineCandidate(role=column.role, label=column.label.strip(), values=column.values)
        for column in every
        if column.role.aside and column.values and not column.role.is_bare_time
    ]
    return [*best, *others[:_MOST_CANDIDATES]]


def _check(column: Column, columns: Sequence[Column], lines: Sequence[str]) -> None:
    """Amend the role of a column by its numbers, beside others on the same lines."""
    role, values = column.role, column.values
    if role.is_bare_time and _is_growing(values):
        column.role = replace(role, aside="elapsed")  # a time since something began
    if role.name != "throughput" or role.per_gpu is not None:
        return
    times = [other for other in columns if other.role.name in ("step_s", "step_ms")]
    for other in times:
        if other.places != column.places or other.role.is_mean:
            continue
        for item, counts in _counts(lines, column.places):
            per_ms = 1e3 if other.role.name == "step_ms" else 1.0
            ratios = [
                count / step_s * per_ms / rate
                for count, step_s, rate in zip(counts, other.values, values, strict=False)
            ]
            share = round(statistics.median(ratios)) if ratios else 0
            step = step_pattern([lines[place] for place in column.places])
            if share > 1 and (not step or share == _usual_gap(step, lines)):
                continue  # the steps since the line before
            if share >= 1 and all(abs(ratio / share - 1) < _STEADY for ratio in ratios):
                column.role = replace(role, per_gpu=share > 1, item=role.item or item)


def _is_growing(values: Sequence[float]) -> bool:
    """Return whether numbers go up by about the same amount each time, as a clock does."""
    gaps = [after - before for before, after in pairwise(values)]
    return len(gaps) > 1 and 0 < max(gaps) <= 3 * min(gaps) and values[-1] > 1.5 * values[0]


def _counts(lines: Sequence[str], places: Sequence[int]) -> Iterator[tuple[str, list[float]]]:
    """Yield the counts of items that stand on all of these lines."""
    for match in VALUE.finditer(lines[places[0]]):
        for label in labels_before(lines[places[0]], match.start()):
            item = counted_item(label)
            if item:
                pattern = re.compile(rf"(?<!\w){literal(label)}({NUMBER})")
                matches = [pattern.search(lines[place]) for place in places]
                texts = [match[1] for match in matches if match]
                counts = [value for text in texts if (value := number(text)) is not None]
                if len(counts) == len(places):
                    yield item, counts
            break


def _candidate(column: Column, lines: Sequence[str]) -> LineCandidate | None:
    """Return a column with its pattern; None for a time without a step, for numbers that are none,
    and where no pattern reads it alone.
    """
    if not column.values:
        return None
    column = _as_item_rate(column, lines)
    for lead, number_pattern in _number_patterns(column, lines):
        pattern = _with_step(column, number_pattern, lines)
        if lead and pattern:
            pattern = f"{lead}{pattern}"
        if pattern and _reads_alone(pattern, column, lines):
            role = column.role
            if re.search(rf"\(\?P<{MEAN}", pattern):
                role = replace(role, is_mean=True)
            return LineCandidate(
                role=role,
                pattern=pattern,
                label=f"{column.label}…{column.unit}".strip(),
                values=column.values,
                place=column.places[0],
                start=column.starts[0],
            )
    return None


def _as_item_rate(column: Column, lines: Sequence[str]) -> Column:
    """Return steps per second that are more than a program can print as items of another name."""
    if column.role.name != "steps_per_s" or len(column.values) < 2:
        return column
    lines_per_rate = min(after - before for before, after in pairwise(column.places))
    rate = statistics.median(column.values)
    step = step_pattern([lines[place] for place in column.places]) or step_pattern_above(
        lines, column.places, _MOST_ABOVE
    )
    gap = _usual_gap(step, lines) if step else 1.0
    if gap / rate < _FASTEST_LINE_S * lines_per_rate:
        column.role = replace(column.role, name="throughput", item="timesteps")
    return column


def _usual_gap(pattern: str, lines: Sequence[str]) -> float:
    compiled = re.compile(pattern)
    matches = [compiled.search(line) for line in lines[:_MOST_CHECKED]]
    steps = [number(match["step"]) or 0.0 for match in matches if match]
    gaps = [after - before for before, after in pairwise(steps) if after > before]
    return statistics.median(gaps) if gaps else 1.0


def _number_patterns(column: Column, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield patterns of what a line begins with, and of the number between its words, from short
    ones to those with more words.
    """
    line, start = lines[column.places[-1]], column.starts[-1]
    label = literal(column.label.lstrip("([{'\""))
    label = _counted(column, label)
    boundary = r"(?<![\w/.])" if label[:1].isalnum() else ""
    own = f"{boundary}{label}{_number(column)}"
    yield "", own
    header = HEADER.match(line)
    lead = re.match(r"[A-Za-z][A-Za-z ]*", line[header.end() if header else 0 :])
    if lead:
        yield rf"\b{literal(lead[0].strip())}\b.*?", own
    before = line[: start - len(column.label)]
    for words in (2, 4):
        more = re.search(rf"(?:\S+\s+){{{words}}}$", f"{before} ")
        if more and start >= len(column.label):
            yield "", rf"(?<!\S){literal(more[0].rstrip() + ' ')}{label}{_number(column)}"


_COUNTED_LITERAL = re.compile(rf"\\d\+((?:\\s\+|\\s\*|-|_)*{STEP_WORDS})", re.I)


def _counted(column: Column, pattern: str) -> str:
    """Return a pattern that reads of how many steps a time is, where its label says so."""
    if not _is_of(column):
        return pattern
    return _COUNTED_LITERAL.sub(r"(?P<per_steps>\\d+)\1", pattern, count=1)


def _is_of(column: Column) -> bool:
    """Return whether times are of as many steps as their labels say, each of the same."""
    return bool(column.counts) and len(set(column.counts)) == 1


def _with_step(column: Column, number_pattern: str, lines: Sequence[str]) -> str | None:
    """Return the pattern of a number with its step; None for a time that no step stands beside."""
    own = [lines[place] for place in column.places]
    step = step_pattern(own)
    step_at, number_at = re.search(step or "$.", own[-1]), re.search(number_pattern, own[-1])
    if step and step_at and number_at:
        begin = number_at.start(_group(column))
        if number_at.start() < step_at.end() <= begin:
            between = _counted(column, literal(own[-1][step_at.end() : begin]))
            return _with_more(column, [f"{step}{between}{_number(column)}"], own)
        if step_at.start() < number_at.start():
            return _with_more(column, [step, number_pattern], own)
        if not step.startswith("^"):
            return _with_more(column, [number_pattern, step], own)
    above = step_pattern_above(lines, column.places, _MOST_ABOVE)
    record = _record(column, lines) if column.role.name in OF_ITEMS else {}
    if record:
        rate = number_pattern
        if "elapsed_s" in record and f"(?P<{MEAN}" not in rate:
            rate = rate.replace("(?P<throughput>", f"(?P<{MEAN}throughput>")
        parts = [rate, *(record[name] for name in ("step", "elapsed_s", "items") if name in record)]
        return "|".join(parts if "step" in record or not above else [above, *parts])
    if above:
        return f"{above}|{number_pattern}"
    if column.role.is_bare_time or (column.role.name == "step_s" and _is_of(column) and not step):
        return None if column.role.is_bare_time else number_pattern
    return _with_more(column, [number_pattern], own)


def _record(column: Column, lines: Sequence[str]) -> dict[str, str]:
    """Return the patterns of items so far, time and step on lines below that of a rate, as tables
    have them; nothing where the items do not grow.
    """
    ends = [*column.places[1:], len(lines)]
    rows = [
        lines[place + 1 : min(end, place + 1 + _MOST_ABOVE)]
        for place, end in zip(column.places, ends, strict=True)
    ]
    patterns: dict[str, str] = {}
    for group in ("items", "elapsed_s", "step"):
        for line in rows[-1]:
            pattern = _grown([*_first_like(rows[:-1], line), line], group)
            if pattern:
                patterns.setdefault(group, pattern)
    if "items" not in patterns:
        return {}
    if "elapsed_s" in patterns and not _are_so_far(column, patterns, rows):
        del patterns["elapsed_s"]
    return patterns


def _first_like(rows: Sequence[Sequence[str]], like: str) -> list[str]:
    """Return of each row the line with the same words."""
    words = words_of(re.sub(r"\d+", "", like))
    return [line for row in rows for line in row if words_of(re.sub(r"\d+", "", line)) == words]


def _are_so_far(column: Column, patterns: dict[str, str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the rates are all items over all of the time."""
    items, times = re.compile(patterns["items"]), re.compile(patterns["elapsed_s"])
    shares = []
    for rate, row in zip(column.values, rows, strict=False):
        text = "\n".join(row)
        counted, elapsed = items.search(text), times.search(text)
        if counted and elapsed:
            count, time_s = number(counted["items"]), number(elapsed["elapsed_s"])
            shares.append(rate * (time_s or 0.0) / (count or 1.0))
    return bool(shares) and abs(statistics.median(shares) - 1) < _ROUGHLY


def _with_more(column: Column, parts: Sequence[str], own: Sequence[str]) -> str:
    """Return the parts as one pattern, with the items so far, the time since a mean began and the
    loss, where all of the lines have them.
    """
    pattern = ".*?".join(parts)
    bare = pattern
    items = _grown(own, "items") or _grown(own, "items_per_step")
    elapsed = _grown(own, "elapsed_s") if column.role.name == "throughput" else ""
    for extra in (items, elapsed):
        pattern = _joined(pattern, extra, own) if extra else pattern
    if elapsed:
        pattern = _by_elapsed(pattern, bare, own)
    loss = _loss_pattern(own)
    return _joined(pattern, loss, own) if loss else pattern


def _by_elapsed(pattern: str, bare: str, own: Sequence[str]) -> str:
    """Return a pattern whose rate is a mean where the time since the begin says so, and without
    that time, or the items, where they do not agree.
    """
    if not _is_mean_by(pattern, own):
        return bare
    if f"(?P<{MEAN}" in pattern:
        return pattern
    return pattern.replace("(?P<throughput>", f"(?P<{MEAN}throughput>")


def _joined(pattern: str, extra: str, own: Sequence[str]) -> str:
    """Return a pattern with another one before or behind it, or between its parts."""
    parts = pattern.split(".*?")
    for place in range(len(parts), -1, -1):
        joined = ".*?".join([*parts[:place], extra, *parts[place:]])
        compiled = re.compile(joined)
        if all(compiled.search(line) for line in own):
            return joined
    return pattern


def _loss_pattern(own: Sequence[str]) -> str:
    match = _LOSS.search(own[-1])
    return rf"\b{literal(match[1])}(?P<loss>[-+\d.eE]+|nan|inf)" if match else ""


_MEANINGS: dict[str, Callable[[str], object]] = {
    "elapsed_s": is_elapsed,
    "items": counted_item,
    "items_per_step": is_batch,
    "step": is_step,
}


def _grown(own: Sequence[str], group: str) -> str:
    """Return the pattern of a number that grows from line to line: of items, or of elapsed time."""
    is_it = _MEANINGS[group]
    for match in VALUE.finditer(own[-1]) if len(own) > 1 else ():
        for label in labels_before(own[-1], match.start()):
            if not is_it(label):
                continue
            boundary = r"(?<![\w/.])" if label[:1].isalnum() else ""
            pattern = rf"{boundary}{literal(label)}(?P<{group}>[\d.,]+)"
            compiled = re.compile(pattern)
            matches = [compiled.search(line) for line in own]
            texts = [found[group] for found in matches if found]
            values = [value for text in texts if (value := number(text)) is not None]
            is_batch_size = group == "items_per_step" and len(set(values)) == 1
            if len(values) == len(own) and (is_batch_size or grows(values, strictly=True)):
                return pattern
    return ""


def _is_mean_by(pattern: str, own: Sequence[str]) -> bool:
    """Return whether rate times time since the begin grows as the steps do, or the items."""
    compiled = re.compile(pattern)
    name = f"{MEAN}throughput" if f"(?P<{MEAN}throughput>" in pattern else "throughput"
    counted = "items" if "(?P<items>" in pattern else "step"
    if f"(?P<{counted}>" not in pattern:
        return False
    rows: list[tuple[float, float, float]] = []
    for line in own:
        match = compiled.search(line)
        values = [number(match[group]) for group in (name, "elapsed_s", counted)] if match else []
        if len(values) == 3 and None not in values:
            rows.append((values[0] or 0.0, values[1] or 0.0, values[2] or 0.0))
    means = [rate * time_s / count for rate, time_s, count in rows if count]
    windows = [
        row[0] * (row[1] - before[1]) / (row[2] - before[2])
        for before, row in pairwise(rows)
        if row[2] > before[2]
    ]
    if counted == "items" and not 1 - _ROUGHLY < statistics.median(means or [0.0]) < 1 + _ROUGHLY:
        return False
    apart = _spread(means[1:])
    return apart < _STEADY and _spread(windows) > max(2 * apart, _EXACT)


def _spread(values: Sequence[float]) -> float:
    usual = statistics.median(values) if values else 0.0
    return max(abs(value / usual - 1) for value in values) if usual else float("inf")


def _reads_alone(pattern: str, column: Column, lines: Sequence[str]) -> bool:
    """Return whether a pattern reads the numbers of a column, and no others."""
    compiled = re.compile(pattern)
    group = _group(column)
    if group not in compiled.groupindex:
        group = f"{MEAN}{group}"
    wanted = dict(zip(column.places, column.starts, strict=True))
    num_missed = 0
    for place, line in enumerate(lines[:_MOST_CHECKED]):
        match = compiled.search(line)
        is_rate = match is not None and match[group] is not None
        if is_rate and match and match.start(group) != wanted.get(place):
            return False
        num_missed += place in wanted and not is_rate
    return num_missed <= len(wanted) // 20


def _group(column: Column) -> str:
    """Return the name of the group of a number."""
    role = column.role
    if role.name == "throughput" and role.is_total and len(column.values) == 1:
        return "total"
    return f"{MEAN}{role.name}" if role.is_mean else role.name


def _number(column: Column) -> str:
    """Return the pattern of a number with its unit; a group says what it is."""
    written = "".join(column.texts)
    characters = r"\d.,"
    if re.search(r"[eE][-+]?\d", written):
        characters = r"-+\deE.,"
    if "_" in written:
        characters += "_"
    multiple = "[kKMGBT]?" if re.search(r"\d[kKMGBT]", written) else ""
    return rf"(?P<{_group(column)}>[{characters}]+{multiple}){literal(column.unit)}"
