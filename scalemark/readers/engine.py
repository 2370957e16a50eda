"""Finds the numbers of a log that say how fast a program trains, with patterns that read them.

```
  lines ─► columns: numbers between the same words ─► roles ─► candidates, the best first
                                                      a pattern for each, that reads it alone
```
A column that a pattern cannot tell from others is no candidate, and two that are alike leave the
choice to the user.
"""

import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from scalemark.readers import columns, words
from scalemark.readers.columns import Column
from scalemark.readers.fields import MEAN

_MOST_CHARACTERS = 2_000
_MOST_CANDIDATES = 12
_ROUGHLY = 0.1  # by which counts and times of whole seconds may be off
_EXACT = 0.005  # spread of what is the same but for rounding
_STEADY = 0.03  # spread of what should be constant
_FASTEST_LINE_S = 0.003  # no program prints steps faster than that: these are items
_LONGEST = 1e8  # time of a step: what is longer is a date
_FASTEST_FILM = 240  # frames/s of a video
_LOSS = re.compile(
    rf"\b((?:(?:train|lm|total|avg)[_ ]?)?loss['\":=\s]{{0,4}}?){words.NUMBER}", re.IGNORECASE
)
_COUNTED_LITERAL = re.compile(
    rf"\\d\+((?:\\s\+|\\s\*|-|_|train(?:ing)?)*{words.STEP_WORDS})", re.IGNORECASE
)


def candidates(lines: Sequence[str]) -> list[Column]:
    """Return what may be the speed of training, the best first; then rates of other things."""
    lines = [line[:_MOST_CHARACTERS] for line in lines]
    rated = [column for column in columns.columns_of(lines) if column.values]
    best: list[Column] = []
    others: list[Column] = []
    for column in rated:
        if not column.role.aside:
            _check(column, rated, lines)
        if not column.role.aside:
            _derive(column, lines)
            if column.pattern:
                best.append(column)
        elif not column.role.is_bare_time:
            others.append(column)
    best.sort(key=lambda column: column.merit, reverse=True)
    _with_total(best)
    if not best:
        alone = columns.step_pattern_alone([line for line in lines if not columns.is_other(line)])
        if alone:
            pattern, item = alone
            best = [Column(words.Role(name=""), "", "", pattern=pattern, counted=item)]
    return [*best[:_MOST_CANDIDATES], *others[:_MOST_CANDIDATES]]


def _with_total(best: list[Column]) -> None:
    """Have rates of steps read beside that of the whole run, which lines at the end say."""
    for total in best:
        if not total.role.is_total or total.role.per_gpu or "(?P<step>" in total.pattern:
            continue
        for steps in best:
            is_of_same = total.role.item == steps.role.item and steps.role.per_gpu is None
            has_more = len(steps.values) >= 2 * len(total.values)
            if is_of_same and has_more and not steps.role.is_total:
                of_run = re.sub(r"\(\?P<(?:mean_)?throughput>", "(?P<total>", total.pattern)
                steps.role = replace(steps.role, per_gpu=False)
                steps.pattern += f"|{of_run}"
                best.remove(total)
                best.remove(steps)
                best.insert(0, steps)
                return


def _check(column: Column, rated: Sequence[Column], lines: Sequence[str]) -> None:
    """Amend the role of a column by its numbers, beside others on the same lines."""
    role, values = column.role, column.values
    if any(map(words.has_unsure_comma, column.texts, column.lines)):
        column.role = replace(role, aside="its comma is that of decimals or of thousands")
        return
    gaps = _gaps(values)
    is_steady = bool(gaps) and 0 < max(gaps) <= 3 * min(gaps)
    is_time = role.name in ("step_s", "step_ms")
    if is_time and (values[0] > _LONGEST or (is_steady and values[-1] > 1.5 * values[0])):
        column.role = replace(role, aside="elapsed")  # a time since something began, as a clock's
    step = column.step
    is_in_seconds = words.SECONDS.get(column.unit.strip()) == 1.0
    if role.is_bare_time and is_in_seconds and step and not column.counts_steps:
        gap = _usual_gap(step, lines)
        aside = f"of one step, or of all {gap:g} since the line before"
        if gap > 1:
            column.role = replace(role, aside=aside, is_bare_time=False)
    if role.item == "frames" and len(values) > 2 and max(values) == min(values) <= _FASTEST_FILM:
        column.role = replace(role, aside="it never changes")
    if column.label.strip(" \t:=").lower() == "rate" and max(values) < 1:
        column.role = replace(role, aside="perhaps of learning")
    if role.name != "throughput" or role.per_gpu is False:
        return
    for other in rated:
        if other.role.name not in ("step_s", "step_ms") or other.places != column.places:
            continue
        times = [words.seconds_per_step(other.role.name, value) for value in other.values]
        for label, _, counts in _labelled(column.lines, words.counted_item):
            rows = zip(counts, times, values, strict=False)
            ratios = [count / time / rate for count, time, rate in rows]
            share = round(statistics.median(ratios or [0.0]))
            if share > 1 and (not step or share == _usual_gap(step, lines)):
                continue  # the steps since the line before
            if share >= 1 and all(abs(ratio / share - 1) < _STEADY for ratio in ratios):
                item = role.item or words.counted_item(label)
                column.role = replace(role, per_gpu=role.per_gpu or share > 1, item=item)
                column.is_confirmed = True


def _labelled(
    texts: Sequence[str], is_meant: Callable[[str], object]
) -> Iterator[tuple[str, str, list[float]]]:
    """Yield label, pattern and values of the numbers of a meaning that all texts have."""
    for match in words.VALUE.finditer(texts[-1]):
        for label in columns.labels_before(texts[-1], match.start()):
            if not is_meant(label):
                continue
            boundary = r"(?<![\w/.])" if label[:1].isalnum() else ""
            pattern = f"{boundary}{columns.literal(label)}"
            compiled = re.compile(rf"{pattern}([\d.,]++)(?![kKMGBT]\b)")  # none that is rounded
            matches = filter(None, map(compiled.search, texts))
            values = [words.number(match_of_text[1]) for match_of_text in matches]
            known = [value for value in values if value is not None]
            if len(known) == len(texts):
                yield label, pattern, known


def _as_item_rate(column: Column, lines: Sequence[str]) -> None:
    """Take steps per second that are more than a program can print as items of another name."""
    if column.role.name != "steps_per_s" or len(column.values) < 2:
        return
    step = column.step or columns.step_pattern_above(lines, column.places)
    gap = _usual_gap(step, lines) if step else 1.0
    if gap / column.usual < _FASTEST_LINE_S * min(_gaps(column.places)):
        column.role = replace(column.role, name="throughput", item="timesteps")


def _usual_gap(pattern: str, lines: Sequence[str]) -> float:
    gaps = _gaps(columns.steps_of(pattern, lines))
    return statistics.median([gap for gap in gaps if gap > 0] or [1.0])


def _gaps(values: Sequence[float]) -> list[float]:
    return [after - before for before, after in pairwise(values)]


def _derive(column: Column, lines: Sequence[str]) -> None:
    """Give a column its pattern, but none to a time without a step."""
    _as_item_rate(column, lines)
    build = _Builder(column, lines)
    for lead, label in _labels(column):
        pattern = build.pattern(label)
        if pattern and _reads_alone(lead + pattern, build.group, column, lines):
            column.role = replace(column.role, is_mean=build.group.startswith(MEAN))
            column.pattern = lead + pattern
            return


def _labels(column: Column) -> Iterator[tuple[str, str]]:
    """Yield patterns of what a line begins with and of the words before the number, short first."""
    line, start = column.lines[-1], column.starts[-1]
    label = _counted(column, columns.literal(column.label.lstrip("([{'\"")))
    own = rf"(?<![\w/.]){label}" if label[:1].isalnum() else label
    yield "", own
    yield r"^\s*", own
    header = columns.HEADER.match(line)
    if header:
        yield rf"{columns.literal(header[0].split()[-1])}\s*", own
    lead = re.match(r"[A-Za-z][A-Za-z ]*", line[header.end() if header else 0 :])
    if lead:
        begin = r"\b" if header else r"^\s*"
        yield rf"{begin}{columns.literal(lead[0].strip())}\b.*?", own
    before = line[: start - len(column.label)]
    phase = re.search(r"\btrain(?:ing)?\b", before, re.IGNORECASE)
    if phase:
        yield rf"\b{phase[0]}\b.*?", own
    more = re.search(r"(?:\S+\s+){2}$", f"{before} ")
    if more and start >= len(column.label):
        yield "", rf"(?<!\S){columns.literal(more[0].rstrip() + ' ')}{label}"


def _counted(column: Column, pattern: str) -> str:
    """Return a pattern that reads of how many steps a time is, where its label says so."""
    if not column.counts_steps:
        return pattern
    return _COUNTED_LITERAL.sub(r"(?P<per_steps>\\d+)\1", pattern, count=1)


class _Builder:
    """Builds the pattern of a column: its number, with what else its lines say of steps and items.

    All that stands on the line of the number is read in the order in which it stands. What stands
    on other lines of a record, as tables have them, becomes an alternative.
    """

    def __init__(self, column: Column, lines: Sequence[str]) -> None:
        self._column = column
        self._own, self._step = column.lines, column.step
        is_of_items = column.role.name in words.OF_ITEMS
        if self._step and not is_of_items and columns.counts_epochs(self._step, self._own[-1]):
            self._step = None
        self.group = column.role.name  # the name of the number's group
        if self.group == "throughput" and column.role.is_total and len(column.values) == 1:
            self.group = "total"
        elif column.role.is_mean:
            self.group = f"{MEAN}{self.group}"
        self._number = _number(column, self.group)
        self._more = self._of_record(lines) if is_of_items and self._step is None else {}
        self._above = None
        if self._step is None and "step" not in self._more:
            self._above = columns.step_pattern_above(lines, column.places)
        self._is_on_lines = bool(self._above or self._more)
        if not self._is_on_lines:
            self._more = self._of_line()

    def pattern(self, label: str) -> str | None:
        """Return the pattern of the number behind a label; None for a time without a step."""
        rate = f"{label}{self._number}"
        if self._is_on_lines:
            return "|".join(filter(None, [self._above, rate, *self._more.values()]))
        column, last = self._column, self._own[-1]
        if column.role.is_bare_time and self._step is None:
            return None
        parts = [rate]
        if self._step:
            step_at, rate_at = re.search(self._step, last), re.search(rate, last)
            if step_at and rate_at:
                begin = rate_at.start(self.group)
                if rate_at.start() < step_at.end() <= begin:  # the step is part of the label
                    between = _counted(column, columns.literal(last[step_at.end() : begin]))
                    parts = [f"{self._step}{between}{self._number}"]
                else:
                    parts.append(self._step)
        for extra in self._more.values():  # with which it still fits all lines
            longer = re.compile(self._joined([*parts, extra]))
            if all(map(longer.search, self._own)):
                parts.append(extra)
        return self._joined(parts)

    def _joined(self, parts: Sequence[str]) -> str:
        """Return one pattern of parts, in the order in which they stand on a line."""

        def place(part: str) -> int:
            match = re.search(part, self._own[-1])
            return match.end() if match else 0

        return ".*?".join(sorted(parts, key=place))

    def _of_line(self) -> dict[str, str]:
        """Return patterns of the items so far, the time since a mean began and the loss."""
        item = self._column.role.item
        more: dict[str, str] = {}
        if not self._column.role.per_gpu:  # what is counted beside it may be of all
            more = _growing(self._own, ("items",), item)
        if not more and item not in ("tokens", "words"):
            more = _growing(self._own, ("items_per_step",))
        if self._column.role.name == "throughput":
            more |= _growing(self._own, ("elapsed_s",))
        if "elapsed_s" in more and not self._is_mean_by(more, self._own):
            more = {}
        loss = _LOSS.search(self._own[-1])
        if loss:
            more["loss"] = (
                rf"\b{columns.literal(loss[1])}(?P<loss>-?{words.NOT_FINITE}|[-+\d.,eE]+)"
            )
        return more

    def _of_record(self, lines: Sequence[str]) -> dict[str, str]:
        """Return patterns of what the lines below the rate have; nothing where no items grow."""
        ends = [*self._column.places[1:], len(lines)]
        records = [
            "\n".join(lines[place : min(end, place + 1 + columns.MOST_ABOVE)])
            for place, end in zip(self._column.places, ends, strict=True)
        ]
        below = [record.partition("\n")[2] for record in records]
        more = _growing(below, ("step", "elapsed_s", "items"))
        if "items" not in more:
            return {}
        if "elapsed_s" in more and not self._is_mean_by(more, records):
            del more["elapsed_s"]
        return more

    def _is_mean_by(self, more: Mapping[str, str], texts: Sequence[str]) -> bool:
        """Return whether a rate is a mean: times the time so far it grows as steps or items do."""
        counted = more.get("items") or self._step
        if counted is None:
            return False
        count_of, time_of = re.compile(counted), re.compile(more["elapsed_s"])
        rows: list[tuple[float, float, float]] = []
        for rate, text in zip(self._column.values, texts, strict=False):
            count_at, time_at = count_of.search(text), time_of.search(text)
            if count_at and time_at:
                count = words.number(count_at["items" if "items" in more else "step"])
                rows.append((rate, words.number(time_at["elapsed_s"]) or 0.0, count or 0.0))
        rows = [row for row in rows if row[-1]]
        means = [rate * time_s / count for rate, time_s, count in rows]
        windows = [
            rate * (time_s - time_before_s) / (count - count_before)
            for (_, time_before_s, count_before), (rate, time_s, count) in pairwise(rows)
            if count > count_before
        ]
        usual = statistics.median(means or [0.0])
        if "items" in more and not 1 - _ROUGHLY < usual < 1 + _ROUGHLY:
            return False
        apart = _spread(means[1:])
        if apart >= _STEADY or _spread(windows) <= max(2 * apart, _EXACT):
            return False
        if self.group == "throughput":
            self.group = f"{MEAN}throughput"
            self._number = _number(self._column, self.group)
        return True


_MEANINGS: Mapping[str, Callable[[str], object]] = {
    "elapsed_s": words.is_elapsed,
    "items": words.counted_item,
    "items_per_step": words.is_batch,
    "step": words.is_step,
}


def _growing(texts: Sequence[str], groups: Sequence[str], item: str = "") -> dict[str, str]:
    """Return patterns of the numbers that grow from text to text, or of a batch that stays."""
    more: dict[str, str] = {}
    if len(texts) < 2:
        return more
    for group in groups:
        for label, pattern, values in _labelled(texts, _MEANINGS[group]):
            if item == "tokens" and words.counted_item(label) not in ("", item):
                continue
            is_batch_size = group == "items_per_step" and len(set(values)) == 1
            is_of_epoch = group == "elapsed_s" and columns.begins_anew(values)
            if is_batch_size or is_of_epoch or columns.rises(values):
                more[group] = rf"{pattern}(?P<{group}>[\d.,]+)"
                break
    return more


def _spread(values: Sequence[float]) -> float:
    usual = statistics.median(values or [0.0])
    if not usual:
        return math.inf
    return max(abs(value / usual - 1) for value in values)


def _reads_alone(pattern: str, group: str, column: Column, lines: Sequence[str]) -> bool:
    """Return whether a pattern reads the numbers of a column, and no others."""
    wanted = dict(zip(column.places, column.starts, strict=True))
    num_read = 0
    for place, match in enumerate(map(re.compile(pattern).search, lines)):
        if match and match[group] is not None:
            num_read += 1
            if match.start(group) != wanted.get(place):
                return False
    return len(wanted) - num_read <= len(wanted) // 20


def _number(column: Column, group: str) -> str:
    """Return the pattern of a number with its unit; a group says what it is."""
    written = "".join(column.texts)
    characters = r"\d.,"
    if re.search(r"[eE][-+]?\d", written):
        characters = r"-+\deE.,"
    if "_" in written:
        characters += "_"
    number_pattern = f"[{characters}]+"
    if re.search(r"\d[kKMGBT]", written):
        number_pattern += "[kKMGBT]?"
    if re.search(words.NOT_FINITE, written):
        number_pattern += f"|{words.NOT_FINITE}"
    return rf"(?P<{group}>{number_pattern}){columns.literal(column.unit)}"
