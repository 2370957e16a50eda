"""Turns the lines of a program into steps, totals and other metrics."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

from command.curve import Curve
from command.summary import RunSummary
from scalemark.readers.reading import Reader, Reading
from scalemark.records.trial import TrialSpec

LOSS = "loss"
MOST_METRICS = 50
_LONGEST_NAME = 60


class PrintedNumbers:
    """The numbers that a program has printed so far, by its reader. Rates are of all replicas."""

    def __init__(self, spec: TrialSpec, reader: Reader) -> None:
        self.curve = Curve()
        self.summary = RunSummary(spec.item)
        self.metrics: dict[str, float] = {}  # the last value of each, but the loss
        self.first_loss: float | None = None
        self.is_file = False  # it was read after the end: nothing is known of when it was written
        self.first_arrival_s: float | None = None  # of a line that tells of steps
        self.unusable: list[str] = []  # what stood where rates were expected
        self.num_unfinite_losses = self.num_lines_since = 0
        self._spec, self._reader = spec, reader

    def take_line(self, line: str, arrival_s: float) -> None:
        """Read a line. Raises ReadError where that takes too long."""
        self.num_lines_since += 1
        if reading := self._reader.read_line(line):
            self._take(reading, arrival_s)

    def read_files(self, folder: Path, started_s: float, ended_s: float) -> None:
        """Take what the program left in its run folder, where its lines reported no steps.

        Raises ReadError.
        """
        if self.curve.num_readings:
            return
        self.is_file = True
        for reading in self._reader.read_files(folder):
            self._take(reading, ended_s)
        self.curve.place(time.monotonic() - time.time(), started_s, ended_s)

    def _take(self, reading: Reading, arrival_s: float) -> None:
        self._take_metrics(reading)
        if reading.unusable:
            self.unusable.append(reading.unusable)
            del self.unusable[1000:]
        reading = self._of_all_replicas(reading)
        self.summary.take(reading)
        mean: float | None = None
        if reading.is_total and reading.step is None:
            if reading.has_rate and self.summary.take_total(reading):
                self._take_mean(reading)
            return
        if reading.is_mean:
            self._take_mean(reading)
            mean, reading = reading.throughput, replace(reading, throughput=None, step_s=None)
        elif self._spec.items_per_step and self.summary.is_other(reading):
            reading = replace(reading, throughput=None)  # these would be no items of these steps
        if reading.step is None and not reading.has_rate:
            return
        if self.curve.add(reading, arrival_s, reading.metrics.get(LOSS), mean):
            self.num_lines_since = 0
            if self.first_arrival_s is None and not self.is_file:
                self.first_arrival_s = arrival_s

    def _take_mean(self, reading: Reading) -> None:
        if reading.throughput and reading.step is None and self.curve.has_steps:
            self.curve.add_mean(reading.throughput)

    def _of_all_replicas(self, reading: Reading) -> Reading:
        is_per_gpu = self._spec.per_gpu if reading.per_gpu is None else reading.per_gpu
        if not is_per_gpu:
            return reading
        of_all = self._spec.num_gpus
        throughput, items = reading.throughput, reading.items_per_step
        return replace(
            reading,
            throughput=None if throughput is None else throughput * of_all,
            items_per_step=None if items is None else items * of_all,
        )

    def _take_metrics(self, reading: Reading) -> None:
        for name, value in reading.metrics.items():
            if name == LOSS:
                if not math.isfinite(value):
                    self.num_unfinite_losses += 1
                elif self.first_loss is None:
                    self.first_loss = value
                continue
            name = name[:_LONGEST_NAME]
            has_room = name in self.metrics or len(self.metrics) < MOST_METRICS
            if math.isfinite(value) and has_room:
                self.metrics[name] = float(value)
