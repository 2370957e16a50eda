"""Reads lines by a pattern of the user: one group, or groups with names.

```
images/sec: ([0-9.,]+)                                           the group is items/s
step (?P<step>[0-9]+) .* (?P<throughput>[0-9.,]+) img/s          with the number of the step
iter (?P<step>[0-9]+): loss (?P<loss>[0-9.]+), time (?P<step_ms>[0-9.]+)ms    loss is a metric
step=(?P<step>[0-9]+)|tok/s=(?P<throughput>[0-9.]+)              the step stands on a line above
```
"""

import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches

from scalemark.readers import fields
from scalemark.readers.log_text import named_rank
from scalemark.readers.opening import Reader, ReadError, Reading
from scalemark.readers.words import NUMBER, role_of, whole_number, without_grouping, words_of
from scalemark.text.untrusted import quoted

ABOUT = (
    "regex:PATTERN reads lines by a regular expression: one group is items/s; or named groups: "
    f"{', '.join((*fields.RATES, *fields.PLACES))}, and any other name is a metric; "
    f"{fields.MEAN}throughput and such are means over the run so far"
)

_ALIKE = 0.8  # how alike a misspelt name is to the one that was meant
_OF_NO_RATE = re.compile(  # a group for items/s behind the name of something else
    r"(?<![a-z])(loss|lr|accuracy|acc|ppl|epoch)(?:\\[sW]|[^\w()])*\((?:\?P<throughput>|(?!\?))",
    re.I,
)
_UNIT = re.compile(  # behind a group for items/s
    r"\((?:\?P<throughput>|(?!\?))[^()]*\)(?:\\s[*+?]?|\s)*"
    r"((?!step|update)[a-zµ]+/\w+|[mu]s(?:ec)?\b)",  # those may be of an environment
    re.I,
)
_NO_RATE = re.compile(r"[muµ]?s(?:ec)?\b|\w+/(?:min|h)")


class PatternReader(Reader):
    """Reads the first match in each line, which may name the rank before it. Raises ReadError."""

    takes_prefixes = True

    def __init__(self, text: str) -> None:
        shown = f"regex {quoted(text, 100)!r}"
        try:
            self._pattern = re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ReadError(f"{shown} is no regular expression: {error}") from error
        self._names = tuple(self._pattern.groupindex)
        if not self._pattern.groups:
            raise ReadError(
                f"{shown} has no group; put parentheses around the number, as img/s: ([0-9.,]+)"
            )
        if not self._names and self._pattern.groups > 1:
            raise ReadError(
                f"{shown} has {self._pattern.groups} groups without names; name them, "
                "as (?P<step>[0-9]+), or write (?:...) for those that are no number"
            )
        for name in self._names:
            meant = get_close_matches(name, sorted(fields.NAMES), n=1, cutoff=_ALIKE)
            if name not in fields.NAMES and meant:
                raise ReadError(
                    f"found {quoted(name, 40)!r}, which would be a metric of that name; "
                    f"write {meant[0]}, or choose a name that is less like it"
                )
        other = _OF_NO_RATE.search(text)
        if other and (not self._names or "?P" in other[0]):
            raise ReadError(f"{shown} takes the {other[1]} for items/s; write (?P<{other[1]}>...)")
        if unit := _UNIT.search(text):
            role, instead = role_of("", unit[1]), ""
            if role and role.name != "throughput":
                instead = f"write (?P<{role.name}>...)"
            elif _NO_RATE.match(unit[1]):
                instead = "catch a number per second"
            if instead:
                raise ReadError(f"{shown} takes {unit[1]} for items/s; {instead}")
        if self._names and "step" not in self._names and not fields.ALL_RATES & set(self._names):
            raise ReadError(
                f"{shown} names metrics only ({', '.join(self._names)}); "
                f"one group must be step, {', '.join(fields.RATES[:-1])} or {fields.RATES[-1]}"
            )
        self._fields = fields.FieldReader()
        self._waiting: dict[str, str] = {}  # what lines above said
        # of a record of several lines, what the last one to come must have
        names = set(self._names)
        self._awaited = names & {"items"} or names & fields.ALL_RATES

    def read_line(self, line: str) -> Reading | None:
        text = without_grouping(named_rank(line, self.num_ranks)[1])
        match = matched(self._pattern, text)
        if not match and text != line:
            match = matched(self._pattern, line)
        if not match:
            return None
        given = {}
        try:
            for name in self._names or (1,):
                called = "throughput" if name == 1 else str(name)
                if match[name] is not None:
                    is_rate = called in ("throughput", "total")
                    given[called] = whole_number(match, name, is_rate=is_rate)
        except ValueError as error:
            raise ReadError(str(error)) from error
        is_alone = "total" in given or "items_per_step" in given
        if self._awaited and not is_alone and not self._awaited & given.keys():
            self._waiting |= given
            others = {name: text for name, text in given.items() if name != "loss"}
            return Reading(metrics=metrics) if (metrics := fields.metrics_of(others)) else None
        reading = self._fields.reading(self._waiting | given)
        self._waiting = {}
        if reading is None:
            self.num_repeated += bool(fields.ALL_RATES & given.keys())
            return None
        of_line = frozenset(words_of(re.sub(NUMBER, " ", match.string)))
        return replace(reading, line_words=of_line)

    def at_end(self) -> Iterator[Reading]:
        if "loss" in self._waiting:
            yield Reading(metrics=fields.metrics_of({"loss": self._waiting["loss"]}))


create = PatternReader


# With a repeat within a repeat, as `(a+)+$`, a line of fifty characters takes longer than the
# training. A pattern sees the begin of a line, and a timer ends what still takes too long.
MOST_CHARACTERS = 2_000
MOST_S = 1.0


def matched(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    """Return the first match in the begin of a line. Raises ReadError where that takes MOST_S."""
    begin = line[:MOST_CHARACTERS]
    if threading.current_thread() is not threading.main_thread():
        return pattern.search(begin)  # only the main thread can be ended

    def end(*_: object) -> None:
        raise ReadError(
            f"regex {quoted(pattern.pattern, 100)!r} took more than {MOST_S:g} s for a line of "
            f"{len(begin)} characters; write a pattern without repeats "
            "that can begin and end in many places, as [0-9.,]+ instead of .*"
        )

    before = signal.signal(signal.SIGALRM, end)
    rest_s, interval_s = signal.setitimer(signal.ITIMER_REAL, MOST_S)
    try:
        return pattern.search(begin)
    finally:
        signal.setitimer(signal.ITIMER_REAL, rest_s, interval_s)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)
