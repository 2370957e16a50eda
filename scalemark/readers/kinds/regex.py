"""Reads lines by a pattern of the user: one group, or groups with names.

```
images/sec: ([0-9.]+)                                            the group is items/s
step (?P<step>[0-9]+) .* (?P<throughput>[0-9.]+) img/s           with the number of the step
iter (?P<step>[0-9]+): loss (?P<loss>[0-9.]+), time (?P<step_ms>[0-9.]+)ms    loss is a metric
step=(?P<step>[0-9]+)|tok/s=(?P<throughput>[0-9.]+)              the step stands on a line above
```
Two programs have their patterns here, since their lines do not say all that is to know of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from scalemark.readers.fields import MEAN, PLACES, RATES, FieldReader, rates_in, refuse_misspelt
from scalemark.readers.patterns import compiled, matched
from scalemark.readers.reading import OutputReader, ReadError, Reading

ABOUT = (
    "regex:PATTERN reads lines by a regular expression: one group is items/s; or named groups: "
    f"{', '.join((*RATES, *PLACES))}, and any other name is a metric; "
    f"{MEAN}throughput and such are means over the run so far"
)
_NUMBER = r"[-+\d.,eE]+|nan|inf"
_OF_CNN = r"(?:images|examples|samples|sentences)/sec:\s*"


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternProgram:
    """A program by its name, and what its lines do not say."""

    about: str
    pattern: str
    item: str
    per_gpu: bool


PROGRAMS = {
    "torchtitan": PatternProgram(
        about="torchtitan reads tps, which is tokens/s of one GPU, with step, loss, memory and mfu",
        pattern=rf"\bstep:\s*(?P<step>\d[\d,]*)\b(?:.*?\bloss:\s*(?P<loss>{_NUMBER}))?"
        rf"(?:.*?\bmemory:\s*(?P<memory_gib>{_NUMBER}))?.*?\b(?:tps|wps):\s*(?P<throughput>\S+)"
        rf"(?:.*?\bmfu:\s*(?P<mfu>{_NUMBER}))?",
        item="tokens",
        per_gpu=True,
    ),
    # the number of a line is the mean since step 1, without what lies between steps
    "tf_cnn_benchmarks": PatternProgram(
        about="tf_cnn_benchmarks reads images/sec of its steps, and its total images/sec",
        pattern=rf"(?<!\d)(?P<step>\d+)\s+{_OF_CNN}(?P<mean_throughput>\S+)\s*\+/-\s*"
        r"(?P<uncertainty>\S+)\s*\(jitter\s*=\s*(?P<jitter>[^)\s]+)\)(?:\s+(?P<loss>\S+))?"
        rf"|\btotal {_OF_CNN}(?P<total>\S+)|^Batch size:\s+(?P<items_per_step>\d+) global",
        item="images",
        per_gpu=False,
    ),
}


def create(argument: str) -> PatternReader:
    """Raises ReadError for a pattern without a group, or that cannot be used."""
    return PatternReader(argument)


class PatternReader(OutputReader):
    """Reads the first match of a pattern in each line."""

    def __init__(self, text: str, program: PatternProgram | None = None) -> None:
        self._pattern = compiled(text)
        self._program = program
        self._names = tuple(self._pattern.groupindex)
        shown = f"regex {text[:100]!r}"
        if not self._pattern.groups:
            raise ReadError(
                f"{shown} has no group; put parentheses around the number, as images/sec: ([0-9.]+)"
            )
        if not self._names and self._pattern.groups > 1:
            raise ReadError(
                f"{shown} has {self._pattern.groups} groups without names; name them, "
                "as (?P<step>[0-9]+), or write (?:...) for those that are no number"
            )
        refuse_misspelt(self._names)
        if self._names and "step" not in self._names and not rates_in(self._names):
            raise ReadError(
                f"{shown} names metrics only ({', '.join(self._names)}); "
                f"one group must be step, {', '.join(RATES[:-1])} or {RATES[-1]}"
            )
        self._fields = FieldReader()
        self._waiting: dict[str, str] = {}  # what lines above said
        # of a record of several lines, what the last one to come must have
        self._awaited = frozenset({"items"} & set(self._names)) or rates_in(self._names)

    def read_line(self, line: str) -> Reading | None:
        match = matched(self._pattern, line)
        if not match:
            return None
        if not self._names:
            return self._fields.reading({"throughput": match[1] or ""})
        fields = {name: text for name, text in match.groupdict().items() if text is not None}
        is_alone = "total" in fields or "items_per_step" in fields
        if self._awaited and not is_alone and not self._awaited & fields.keys():
            self._waiting |= fields
            return None
        reading = self._fields.reading(self._waiting | fields)
        self._waiting = {}
        if reading is None or self._program is None:
            return reading
        return replace(reading, item=self._program.item, per_gpu=self._program.per_gpu)
