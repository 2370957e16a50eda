"""Reads lines `METRIC name=value ...`, the simplest thing that a program can print for us."""

import re

from scalemark.readers.fields import RATES, FieldReader
from scalemark.readers.opening import Reader, ReadError, Reading
from scalemark.readers.words import multiple_of

ABOUT = (
    "metric[:NAME] reads lines METRIC name=value, of which several may stand on a line: NAME "
    "(default: throughput) is items/s; step, time_s, step_s and item are what they say"
)
_LINE = re.compile(r"\bMETRIC[:\s]\s*(\S.*)")
_PAIR = re.compile(r"([A-Za-z_][\w./-]*)\s*=\s*(\"[^\"]*\"|\S+)")


def create(argument: str) -> "MetricReader":
    """Raises ReadError for an argument that is no name."""
    if argument and not re.fullmatch(r"[A-Za-z_][\w./-]*", argument):
        raise ReadError(f"found read=metric:{argument[:60]}, wanted the name of a metric, as img_s")
    return MetricReader(argument or "throughput")


class MetricReader(Reader):
    """Reads the pairs of each `METRIC` line."""

    def __init__(self, throughput: str) -> None:
        self._throughput = throughput
        self._fields = FieldReader()

    def read_line(self, line: str) -> Reading | None:
        match = _LINE.search(line)
        if not match:
            return None
        pairs = {name: value.strip('"').rstrip(",;") for name, value in _PAIR.findall(match[1])}
        if self._throughput in pairs and self._throughput not in RATES:
            pairs["throughput"] = pairs.pop(self._throughput) + multiple_of(self._throughput)[0]
        elif self._throughput in RATES:
            others = set(RATES) - {self._throughput}
            pairs = {name: value for name, value in pairs.items() if name not in others}
        return self._fields.reading(pairs)
