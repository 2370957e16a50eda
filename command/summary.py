"""Keeps what a program reports of its whole run: totals, means, items of a step, of what kind."""

from __future__ import annotations

from scalemark.readers.reading import Reading
from scalemark.records.measurement import ITEMS, STEPS, is_item
from scalemark.records.trial import TrialSpec

# words for one example of a batch; whatever a user's examples are may be called so
_EXAMPLES = frozenset(("examples", "instances", "records", "rows", "samples", ITEMS))
_OF_ONE_KIND = (
    frozenset(("tokens", "words")),  # fairseq counts tokens and says words
    _EXAMPLES | {"images", "sequences", "sentences"},
)
_PARTS = frozenset(("tokens", "words", "frames", "points", "atoms", STEPS))  # many in an example


class RunSummary:
    """The last report of each, in the item that was asked for where the program reports several."""

    def __init__(self, asked: str) -> None:
        self.total: Reading | None = None
        self.mean: Reading | None = None
        self.item = ""  # of the rates and of items_per_step, as the output calls it
        self.items_per_step: float | None = None
        self._asked = asked

    def take(self, reading: Reading) -> None:
        """Take any reading, of all replicas."""
        is_other = self.is_other(reading)
        # a total may count something else than the rates before it
        is_total = reading.is_total and reading.step is None
        is_better = not self.item or (not is_total and self._was_other(self.item))
        if reading.item and is_better:
            self.item = reading.item
        if reading.items_per_step and not is_other:
            self.items_per_step = reading.items_per_step
            self.item = reading.item or self.item
        if reading.is_mean and reading.has_rate and not (self._has(self.mean) and is_other):
            self.mean = reading

    def take_total(self, reading: Reading) -> bool:
        """Take a rate of the whole run; return whether there was one before, so that it may be
        none, but of all replicas so far.
        """
        is_again = self.total is not None
        if not (self._has(self.total) and self.is_other(reading)):
            self.total = reading
        return is_again

    def of_run(self, items_per_step: float | None) -> tuple[float, str] | None:
        """Return the items per second of the whole run, and the item; None where none is reported.

        What was asked for comes before another item, and the total before the mean.
        """
        known: list[tuple[float, str]] = []
        for reading in (self.total, self.mean):
            if reading and reading.throughput is not None:
                known.append((reading.throughput, reading.item or self.item))
            elif reading and reading.step_s and items_per_step:
                known.append((items_per_step / reading.step_s, self.item))
        return min(known, key=lambda reported: self._was_other(reported[1]), default=None)

    def is_other(self, reading: Reading) -> bool:
        """Return whether a reading counts something else than was asked for."""
        return self._was_other(reading.item)

    def _was_other(self, item: str) -> bool:
        return are_other(self._asked, item)

    def _has(self, reading: Reading | None) -> bool:
        return reading is not None and not self.is_other(reading)


def label(spec: TrialSpec, reported: str, *, is_known: bool, is_reported: bool) -> str:
    """Return what is counted: steps, where nothing says how many items a step has.

    `is_reported`: the program counts them, and not the trial's items_per_step.
    """
    if not is_known:
        return STEPS
    reported = reported if is_item(reported) else ""
    if is_reported and reported and are_other(spec.item, reported):
        return reported
    return spec.item or reported or ITEMS


def are_other(asked: str, reported: str) -> bool:
    """Return whether a program counts something else than was asked for; unknown where either is
    empty.
    """
    asked, reported = _plural(asked), _plural(reported)
    if not asked or not reported or asked == reported or reported == ITEMS:
        return False
    if any(asked in kind and reported in kind for kind in _OF_ONE_KIND):
        return False
    return reported not in _EXAMPLES or asked in _PARTS


def _plural(item: str) -> str:
    item = item.lower()
    return item if not item or item.endswith("s") else f"{item}s"
