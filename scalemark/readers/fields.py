"""Makes a reading of named values: patterns, `METRIC` lines and JSON share these names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from scalemark.readers.numbers import number, seconds, whole
from scalemark.readers.reading import ReadError, Reading
from scalemark.readers.steps import StepCounter
from scalemark.readers.words import item_of, seconds_per_step
from scalemark.text.untrusted import quoted

RATES = (
    *("throughput", "total", "item_s", "item_ms", "kitem_s"),
    *("steps_per_s", "step_s", "step_ms"),
)
"""Names that say how fast: items/s, those of the whole run, or the time of items or of a step."""

MEAN = "mean_"
"""Begins the name of a rate that is a mean over the run so far, as mean_throughput."""

PLACES = (
    *("step", "epoch", "epoch_steps", "time_s", "item"),
    *("items", "items_per_step", "elapsed_s", "per_steps"),
)
NAMES = (*RATES, *(f"{MEAN}{name}" for name in RATES), *PLACES)
_ITEMS_OF = {"item_s": 1.0, "item_ms": 1e3, "kitem_s": 1e3}  # items whose time is that many seconds
_MOST_METRICS = 100  # of one reading
_MOST_SHOWN = 40  # characters of what is no rate
_ALIKE = 0.8  # how alike a misspelt name is to the one that was meant


def refuse_misspelt(names: Iterable[str]) -> None:
    """Raises ReadError for a name that is nearly one of ours; others are metrics."""
    for name in names:
        meant = get_close_matches(name, NAMES, n=1, cutoff=_ALIKE)
        if name not in NAMES and meant:
            raise ReadError(
                f"found {quoted(name, _MOST_SHOWN)!r}, which would be a metric of that name; "
                f"write {meant[0]}, or choose a name that is less like it"
            )


class FieldReader:
    """Makes readings of the named values of one line after another."""

    def __init__(self) -> None:
        self._steps = StepCounter()
        self._num_lines = 0  # that stand for steps, where none is printed
        self._first: tuple[float, float] | None = None  # steps and items of the first line
        self._last: tuple[float, float] | None = None  # seconds and items of the line before

    def reading(self, given: Mapping[str, str]) -> Reading | None:
        """Return the reading of a line; None where a rank has said the same before."""
        fields = {_without_mean(name): text for name, text in given.items()}
        is_mean = fields.keys() != given.keys()
        step = self._step(fields)
        if step is None and "step" in fields and whole(fields["step"]) is not None:
            return None
        throughput, step_s, unusable = _rate(fields)
        metrics = _metrics(fields)
        items_per_step = usable(fields.get("items_per_step", ""))[0]
        is_empty = not (throughput or step_s or unusable or items_per_step)
        if is_empty and step is None and not metrics and "items" not in fields:
            return None
        if "elapsed_s" in fields and is_mean:
            between = self._between(fields, throughput)
            throughput, is_mean = between or throughput, between is None
        return Reading(
            throughput=throughput,
            step=step,
            steps_before=self._steps.before,
            unsure_steps=self._steps.unsure,
            time_s=seconds(fields["time_s"]) if "time_s" in fields else None,
            step_s=step_s,
            items_per_step=items_per_step or self._counted(fields, step),
            is_total="total" in fields,
            is_mean=is_mean,
            item=item_of(fields.get("item", "")),
            unusable=unusable,
            metrics=metrics,
        )

    def _step(self, fields: Mapping[str, str]) -> int | None:
        step = whole(fields.get("step", ""))
        if step is None:
            return None
        epoch = whole(fields.get("epoch", ""))
        return self._steps.count(step, epoch, whole(fields.get("epoch_steps", "")) or 0)

    def _counted(self, fields: Mapping[str, str], step: int | None) -> float | None:
        """Return the items of a step, or of a line, by how many there were so far."""
        items = number(fields.get("items", ""))
        if items is None:
            return None
        self._num_lines += 1
        place = float(self._num_lines if step is None else step)
        if self._first is None or items < self._first[1]:
            self._first = (place, items)
            return None
        num_steps, num_items = place - self._first[0], items - self._first[1]
        return num_items / num_steps if num_steps > 0 and num_items > 0 else None

    def _between(self, fields: Mapping[str, str], mean: float | None) -> float | None:
        """Return the rate since the line before, by a mean and the time that it is over."""
        elapsed_s = seconds(fields["elapsed_s"])
        items = number(fields.get("items", ""))
        if elapsed_s is None or (items is None and mean is None):
            return None
        if items is None:
            items = (mean or 0.0) * elapsed_s
        last_s, last_items = self._last or (0.0, 0.0)
        self._last = (elapsed_s, items)
        if elapsed_s <= last_s or items <= last_items:  # it began anew
            return mean
        return (items - last_items) / (elapsed_s - last_s)


def rates_in(names: Iterable[str]) -> frozenset[str]:
    """Return those names that say how fast."""
    return frozenset(name for name in names if _without_mean(name) in RATES)


def _without_mean(name: str) -> str:
    bare = name.removeprefix(MEAN)
    return bare if bare in RATES else name


def _rate(fields: Mapping[str, str]) -> tuple[float | None, float | None, str]:
    """Return items per second, the seconds of a step, and what stood in the place of a rate."""
    for name in RATES:
        text = fields.get(name)
        if text is None:
            continue
        value = seconds(text) if name in ("step_s", "item_s") else number(text)
        rate, doubt = _usable(value, text)
        if rate is None or name in ("throughput", "total"):
            return rate, None, doubt
        if name in _ITEMS_OF:
            return _ITEMS_OF[name] / rate, None, ""
        num_steps = usable(fields.get("per_steps", ""))[0] or 1.0
        return None, seconds_per_step(name, rate) / num_steps, ""
    return None, None, ""


def _metrics(fields: Mapping[str, str]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for name, text in fields.items():
        value = None if name in NAMES else number(text)
        if value is not None and len(metrics) < _MOST_METRICS:
            metrics[name] = value
    return metrics


def usable(text: str) -> tuple[float | None, str]:
    """Return a rate, or what stands in its place."""
    return _usable(number(text), text)


def _usable(value: float | None, text: str) -> tuple[float | None, str]:
    if value is None or not math.isfinite(value) or value <= 0:
        return None, quoted(text.strip(), _MOST_SHOWN)
    return value, ""
