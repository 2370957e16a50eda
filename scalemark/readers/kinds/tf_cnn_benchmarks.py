"""Reads tf_cnn_benchmarks: `10  images/sec: 46.7 +/- 0.4 (jitter = 1.8)  8.734`, and its total.

The number of a line is the mean since step 1 (`benchmark_cnn.py`: batch / mean of the step times)
without what lies between steps, so that windows come from the steps and when their lines arrived.
How many images a step has stands above them: `Batch size:  64 global`.
"""

from __future__ import annotations

import re

from scalemark.readers.fields import rate_or_doubt
from scalemark.readers.numbers import number
from scalemark.readers.opening import refuse_argument
from scalemark.readers.reading import OutputReader, Reading
from scalemark.readers.steps import StepCounter

ABOUT = "tf_cnn_benchmarks reads images/sec of its steps, and its total images/sec"
_ITEM = r"(images|examples|samples|sentences)/sec"
_STEP = re.compile(
    rf"(?<!\d)(\d+)\s+{_ITEM}:\s*(\S+)\s*\+/-\s*(\S+)\s*\(jitter\s*=\s*([^)\s]+)\)(?:\s+(\S+))?"
)
_BATCH = re.compile(r"^Batch size:\s+(\d+) global")
_TOTAL = re.compile(rf"\btotal {_ITEM}:\s*(\S+)")


def create(argument: str) -> TfCnnReader:
    """Raises ReadError for an argument."""
    refuse_argument("tf_cnn_benchmarks", argument)
    return TfCnnReader()


class TfCnnReader(OutputReader):
    """Reads the lines of steps, and the last one."""

    def __init__(self) -> None:
        self._steps = StepCounter()

    def read_line(self, line: str) -> Reading | None:
        total = _TOTAL.search(line)
        if total:
            rate, doubt = rate_or_doubt(total[2])
            return Reading(
                throughput=rate, unusable=doubt, is_total=True, item=total[1], per_gpu=False
            )
        batch = _BATCH.match(line)
        if batch:
            return Reading(items_per_step=int(batch[1]), per_gpu=False)
        found = _STEP.search(line)
        step = self._steps.count(int(found[1])) if found else None
        if not found or step is None:
            return None
        rate, doubt = rate_or_doubt(found[3])
        names = {"uncertainty": found[4], "jitter": found[5], "loss": found[6]}
        values = {name: number(text) for name, text in names.items() if text}
        return Reading(
            throughput=rate,
            unusable=doubt,
            step=step,
            is_mean=True,
            item=found[2],
            per_gpu=False,
            metrics={name: value for name, value in values.items() if value is not None},
        )
