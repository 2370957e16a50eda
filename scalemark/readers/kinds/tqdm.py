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
    "tqdm[:TEXT] reads progress bars with it/s or s/it, or of items, as img/s: of the first bar "
    "that is not about loading, validating or testing, or of those with TEXT, as tqdm:Epoch"
)
_OTHER = re.compile(
    r"download|load|map|token|filter|generat|extract|valid|eval|test|sanity|predict|sav|convert"
    r"|preprocess|class\b|cache|scan|infer|fetch|pack|dataset|quantiz|compil|captur",
    re.IGNORECASE,
)
_FEW = 10  # steps of an epoch, where its bar does not say how many


def create(argument: str) -> BarReader:
    """Return a reader of the bars that have a text before them."""
    return BarReader(argument)


class BarReader(OutputReader):
    """Reads the bar that shows how far training is."""

    def __init__(self, text: str = "", *, is_of_run: bool = False) -> None:
        self._text = text
        self._is_of_run = is_of_run  # one that begins anew is another rank's, or an evaluation's
        self._name: str | None = None  # of the first training bar
        self.total = 0  # of this bar, in steps; 0: not known
        self._epoch = 0  # where no bar says which
        self._last = 0
        self._widest = 0  # most steps between two redraws
        self._steps = StepCounter()

    def read_line(self, line: str) -> Reading | None:
        bar = bar_of(line)
        if bar is None or not self._is_ours(bar, line):
            return None
        epoch: int | None = 0
        if not self._is_of_run:
            epoch = self._epoch_of(bar) if bar.epoch is None else bar.epoch
        if epoch is None or not bar.done:
            return None
        step = self._steps.count(bar.done, epoch, bar.total)
        if step is None:
            return None
        return Reading(
            throughput=bar.throughput,
            step=step,
            step_s=bar.step_s,
            items_per_step=1 if bar.item else None,
            is_mean=True,
            item=bar.item,
            metrics=bar.metrics,
        )

    def _is_ours(self, bar: Bar, line: str) -> bool:
        if self._text:
            return self._text in line
        if self._name is None and bar.done and not _OTHER.search(bar.name):
            self._name, self.total = bar.name, bar.total
        return bar.name == self._name and self.total in (bar.total, 0)

    def _epoch_of(self, bar: Bar) -> int | None:
        """Return the number of the epoch; None where another rank ends the one before."""
        half = (bar.total or _FEW) / 2
        if self._last >= half and bar.done <= self._last / 2:  # a rank is behind by less
            self._epoch += 1
            self._last = 0
        elif self._epoch and bar.done - self._last > max(half, 2 * self._widest):
            return None
        else:
            self._widest = max(self._widest, bar.done - self._last)
        self._last = max(self._last, bar.done)
        return self._epoch
