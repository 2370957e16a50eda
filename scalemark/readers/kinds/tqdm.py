"""Reads progress bars of tqdm, as Lightning, Ultralytics and the Trainer of Hugging Face show them.

Their rate is smoothed: windows come from the steps and when the bar was redrawn. Where each rank
shows its own bar, the one that is ahead counts.
"""

from __future__ import annotations

import re

from scalemark.readers.bars import Bar, bar_of
from scalemark.readers.reading import OutputReader, Reading
from scalemark.readers.steps import StepCounter

ABOUT = (
    "tqdm[:TEXT] reads progress bars with it/s or s/it: of the first bar that is not about "
    "loading, validating or testing, or of those with TEXT before them, as tqdm:Epoch"
)
_OTHER = re.compile(
    r"download|load|map|token|filter|generat|extract|valid|eval|test|sanity|predict|sav|convert"
    r"|preprocess|class\b|cache|scan|infer",
    re.IGNORECASE,
)


def create(argument: str) -> BarReader:
    """Return a reader of the bars that have a text before them."""
    return BarReader(argument)


class BarReader(OutputReader):
    """Reads the bar that shows how far training is."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._name: str | None = None  # of the first training bar
        self._total = 0
        self._epoch = 0
        self._mark = ""  # of the epoch
        self._last = 0
        self._widest = 0  # most steps between two redraws
        self._steps = StepCounter()

    def read_line(self, line: str) -> Reading | None:
        bar = bar_of(line)
        if bar is None or not self._is_ours(bar, line):
            return None
        if self._begins_epoch(bar):
            self._epoch += 1
            self._last = 0
        elif self._is_of_epoch_before(bar):
            return None
        else:
            self._widest = max(self._widest, bar.done - self._last)
        self._last, self._mark = max(self._last, bar.done), bar.epoch
        step = self._steps.count(bar.done, self._epoch, bar.total)
        if step is None or not bar.done:
            return None
        return Reading(step=step, step_s=bar.step_s, is_mean=True, metrics=bar.metrics)

    def _is_ours(self, bar: Bar, line: str) -> bool:
        if self._text:
            return self._text in line
        if self._name is None and bar.done and not _OTHER.search(bar.name):
            self._name, self._total = bar.name, bar.total
        return bar.name == self._name and bar.total == self._total

    def _begins_epoch(self, bar: Bar) -> bool:
        """Return whether a bar is of the next epoch; one of another rank is behind by less."""
        if not self._last:
            return False
        if bar.epoch != self._mark:
            return _is_later(bar.epoch, self._mark)
        return self._last >= bar.total / 2 and bar.done <= self._last / 2

    def _is_of_epoch_before(self, bar: Bar) -> bool:
        """Return whether another rank ends the epoch before while ours has begun the next one."""
        if self._mark and bar.epoch != self._mark:
            return not _is_later(bar.epoch, self._mark)
        step = bar.done - self._last
        return self._epoch > 0 and step > max(bar.total / 2, 2 * self._widest)


def _is_later(mark: str, than: str) -> bool:
    return not (mark and than) or int(mark) > int(than)
