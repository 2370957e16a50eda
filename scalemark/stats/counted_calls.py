"""Decides which calls of a training function count in step times."""

from __future__ import annotations

from collections.abc import Sequence

from scalemark.records.measurement import StepSample
from scalemark.records.outcomes import Phase


def counted_calls(samples: Sequence[StepSample]) -> list[StepSample]:
    """Return the measured ones but the first, which begins with idle devices and waits for none."""
    measured = [sample for sample in samples if sample.phase == Phase.MEASURE]
    return measured[1:] or measured
