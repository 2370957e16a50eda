"""Makes a reading of named values: patterns, `METRIC` lines and JSON share these names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from scalemark.readers.numbers import number, seconds, usable_rate, whole
from scalemark.readers.rates import item_of
from scalemark.readers.reading import ReadError, Reading
from scalemark.readers.steps import StepCounter
from scalemark.text.untrusted import quoted

RATES = ("throughput", "total", "steps_per_s", "step_s", "step_ms")
"""Names of which one says how fast: items/s, items/s of the whole run, or how long a step takes."""

PLACES = ("step", "epoch", "epoch_steps", "time_s", "item")
NAMES = (*RATES, *PLACES)
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


@dataclass(frozen=True, slots=True)
class _Rate:
    throughput: float | None = None
    step_s: float | None = None
    unusable: str = ""


class FieldReader:
    """Makes readings of the named values of one line after another."""

    def __init__(self) -> None:
        self._steps = StepCounter()

    def reading(self, fields: Mapping[str, str], *, is_mean: bool = False) -> Reading | None:
        """Return the reading of a line; None where a rank has said the same before."""
        step = self._step(fields)
        if step is None and "step" in fields and whole(fields["step"]) is not None:
            return None
        rate = _rate(fields)
        metrics = _metrics(fields)
        if rate == _Rate() and step is None and not metrics:
            return None
        return Reading(
            throughput=rate.throughput,
            step=step,
            time_s=seconds(fields["time_s"]) if "time_s" in fields else None,
            step_s=rate.step_s,
            is_total="total" in fields,
            is_mean=is_mean,
            item=item_of(fields.get("item", "")),
            unusable=rate.unusable,
            metrics=metrics,
        )

    def _step(self, fields: Mapping[str, str]) -> int | None:
        step = whole(fields.get("step", ""))
        if step is None:
            return None
        epoch = whole(fields.get("epoch", ""))
        return self._steps.count(step, epoch, whole(fields.get("epoch_steps", "")) or 0)


def _rate(fields: Mapping[str, str]) -> _Rate:
    for name in RATES:
        text = fields.get(name)
        if text is None:
            continue
        value = seconds(text) if name == "step_s" else number(text)
        if value is None or not math.isfinite(value) or value <= 0:
            return _Rate(unusable=quoted(text.strip(), _MOST_SHOWN))
        if name in ("throughput", "total"):
            return _Rate(throughput=value)
        return _Rate(step_s=_seconds_per_step(name, value))
    return _Rate()


def _seconds_per_step(name: str, value: float) -> float:
    if name == "steps_per_s":
        return 1 / value
    return value / 1e3 if name == "step_ms" else value


def _metrics(fields: Mapping[str, str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, text in fields.items():
        value = None if name in NAMES else number(text)
        if value is not None and len(found) < _MOST_METRICS:
            found[name] = value
    return found


def rate_or_doubt(text: str) -> tuple[float | None, str]:
    """Return a rate, or what stands in its place."""
    rate = usable_rate(text)
    return rate, "" if rate is not None else quoted(text.strip(), _MOST_SHOWN)
