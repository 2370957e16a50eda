"""Turns the lines of a program into steps, totals and other metrics."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from command.curve import Curve
from scalemark.readers.reading import Reader, Reading
from scalemark.records.trial import TrialSpec

LOSS = "loss"
MOST_METRICS = 50
READ_WITHIN_S = 5.0  # all lines that came at once
_LONGEST_NAME = 60


class TooSlowError(Exception):
    """Raised where reading lines takes so long that the program would wait for it."""


class Heard:
    """What a program has told so far, by its reader."""

    def __init__(self, spec: TrialSpec, reader: Reader) -> None:
        self.curve = Curve()
        self.total: Reading | None = None  # the last one of the whole run, over all replicas
        self.metrics: dict[str, float] = {}  # the last value of each, but the loss
        self.first_loss: float | None = None
        self.item = ""  # as the output calls it
        self.problem = ""  # a number that is none
        self.first_arrival_s: float | None = None  # of a line that tells of steps
        self.num_unfinite_losses = self.num_lines_since = 0
        self._spec, self._reader = spec, reader

    def hear(self, lines: Sequence[str], arrival_s: float) -> None:
        """Read lines that came at once. Raises TooSlowError."""
        with _within(READ_WITHIN_S):
            for line in lines:
                self.num_lines_since += 1
                if reading := self._reader.read_line(line):
                    self.take(reading, arrival_s, line)

    def read_files(self, folder: Path) -> None:
        """Take what the program left in its run folder, where its lines told of no steps.

        Raises TooSlowError.
        """
        if self.curve.num_readings:
            return
        arrival_s = time.monotonic()
        with _within(READ_WITHIN_S):
            for reading in self._reader.read_files(folder):
                self.take(reading, arrival_s, str(folder))

    def take(self, reading: Reading, arrival_s: float, line: str) -> None:
        self._take_metrics(reading)
        for name in ("throughput", "step_s"):
            value = getattr(reading, name)
            if value is not None and not 0 < value < math.inf:
                self.problem = self.problem or f"{name}={value:g} in: {line}"
                return
        reading = self._of_all_replicas(reading)
        self.item = self.item or reading.item
        if reading.is_total:
            if reading.throughput is not None:
                self.total = reading
            return
        if reading.step is None and reading.throughput is None and reading.step_s is None:
            return
        loss = reading.metrics.get(LOSS)
        if self.curve.add(reading, arrival_s, loss):
            self.num_lines_since = 0
            if self.first_arrival_s is None:
                self.first_arrival_s = arrival_s

    def _of_all_replicas(self, reading: Reading) -> Reading:
        is_per_gpu = self._spec.per_gpu or bool(reading.per_gpu)
        if reading.throughput is None or not is_per_gpu:
            return reading
        return replace(reading, throughput=reading.throughput * self._spec.num_gpus)

    def _take_metrics(self, reading: Reading) -> None:
        for name, value in reading.metrics.items():
            if name == LOSS:
                if not math.isfinite(value):
                    self.num_unfinite_losses += 1
                elif self.first_loss is None:
                    self.first_loss = value
            elif math.isfinite(value) and (
                name in self.metrics or len(self.metrics) < MOST_METRICS
            ):
                self.metrics[name[:_LONGEST_NAME]] = float(value)


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TooSlowError where the block takes longer: a pattern may take exponential time."""

    def too_slow(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, too_slow)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
