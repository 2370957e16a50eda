"""Reads torchtitan: `step: 10  loss: 3.2  memory: 9.46GiB(64.99%)  tps: 7,282  mfu: 0.2%`.

`tps` is tokens per second of one GPU (torchtitan's `metrics.py` divides by the ranks that share the
model's data).
"""

from __future__ import annotations

import re

from scalemark.readers.fields import rate_or_doubt
from scalemark.readers.numbers import number
from scalemark.readers.opening import refuse_argument
from scalemark.readers.reading import OutputReader, Reading
from scalemark.readers.steps import StepCounter

ABOUT = "torchtitan reads tps, which is tokens/s of one GPU, with step, loss, memory and mfu"
_LINE = re.compile(r"\bstep:\s*(\d[\d,]*)\b.*?\b(?:tps|wps):\s*(\S+)")
_METRICS = re.compile(r"\b(loss|grad_norm|memory|tflops|mfu):\s*([-+\d.,eE]+|nan|inf)")

_MOST_CHARACTERS = 2_000


def create(argument: str) -> TorchtitanReader:
    """Raises ReadError for an argument."""
    refuse_argument("torchtitan", argument)
    return TorchtitanReader()


class TorchtitanReader(OutputReader):
    """Reads the line of each logged step, of the first rank that prints it."""

    def __init__(self) -> None:
        self._steps = StepCounter()

    def read_line(self, line: str) -> Reading | None:
        line = line[:_MOST_CHARACTERS]
        found = _LINE.search(line)
        step = self._steps.count(int(found[1].replace(",", ""))) if found else None
        if not found or step is None:
            return None
        rate, doubt = rate_or_doubt(found[2].rstrip(","))
        values = {name: number(text) for name, text in _METRICS.findall(line)}
        metrics = {name: value for name, value in values.items() if value is not None}
        if "memory" in metrics:
            metrics["memory_gib"] = metrics.pop("memory")
        return Reading(
            throughput=rate,
            unusable=doubt,
            step=step,
            item="tokens",
            per_gpu=True,
            metrics=metrics,
        )
