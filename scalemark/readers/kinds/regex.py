"""Reads lines by a pattern of the user: one group, or groups with names.

```
images/sec: ([0-9.]+)                                            the group is items/s
step (?P<step>[0-9]+) .* (?P<throughput>[0-9.]+) img/s           with the number of the step
iter (?P<step>[0-9]+): loss (?P<loss>[0-9.]+), time (?P<step_ms>[0-9.]+)ms    loss is a metric
step=(?P<step>[0-9]+)|tok/s=(?P<throughput>[0-9.]+)              the step stands on a line above
```
"""

from __future__ import annotations

from scalemark.readers.fields import PLACES, RATES, FieldReader, refuse_misspelt
from scalemark.readers.patterns import compiled, matched
from scalemark.readers.reading import OutputReader, ReadError, Reading

ABOUT = (
    "regex:PATTERN reads lines by a regular expression: one group is items/s; or named groups: "
    f"{', '.join((*RATES, *PLACES))}, and any other name is a metric"
)


def create(argument: str) -> PatternReader:
    """Raises ReadError for a pattern without a group, or that cannot be used."""
    return PatternReader(argument)


class PatternReader(OutputReader):
    """Reads the first match of a pattern in each line."""

    def __init__(self, text: str) -> None:
        self._pattern = compiled(text)
        self._names = tuple(self._pattern.groupindex)
        if not self._pattern.groups:
            raise ReadError(
                f"regex {text[:100]!r} has no group; put parentheses around the number, "
                "as images/sec: ([0-9.]+)"
            )
        if not self._names and self._pattern.groups > 1:
            raise ReadError(
                f"regex {text[:100]!r} has {self._pattern.groups} groups without names; name them, "
                "as (?P<step>[0-9]+), or write (?:...) for those that are no number"
            )
        refuse_misspelt(self._names)
        if self._names and not {"step", *RATES} & set(self._names):
            raise ReadError(
                f"regex {text[:100]!r} names metrics only ({', '.join(self._names)}); "
                f"one group must be step, {', '.join(RATES[:-1])} or {RATES[-1]}"
            )
        self._fields = FieldReader()
        self._waiting: dict[str, str] = {}  # the step of a line above

    def read_line(self, line: str) -> Reading | None:
        match = matched(self._pattern, line)
        if not match:
            return None
        if not self._names:
            return self._fields.reading({"throughput": match[1] or ""})
        fields = {name: text for name, text in match.groupdict().items() if text is not None}
        if not set(RATES) & set(self._names):
            return self._fields.reading(fields)
        if not set(RATES) & set(fields):
            self._waiting |= fields
            return None
        reading = self._fields.reading(self._waiting | fields)
        self._waiting = {}
        return reading
