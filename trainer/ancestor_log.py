"""The lines that tf_cnn_benchmarks printed, so that parsers of its logs read ours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from scalemark.records.measurement import StepSample
from scalemark.stats.median_deviation import median_deviation

DISPLAY_EVERY = 10  # steps


def lines(measured: Sequence[StepSample], images_per_step: int, throughput: float) -> Iterator[str]:
    """Yield a heading, a line for the first and every tenth step, and the total."""
    yield "Step\tImg/sec\ttotal_loss"
    speeds: list[float] = []  # of each call
    num_steps, elapsed_s = 0, 0.0
    for sample in measured:
        elapsed_s += sample.duration_s
        speeds.append(images_per_step * sample.num_steps / sample.duration_s)
        before, num_steps = num_steps, num_steps + sample.num_steps
        if before == 0 or num_steps // DISPLAY_EVERY > before // DISPLAY_EVERY:
            uncertainty = float(np.std(speeds)) / len(speeds) ** 0.5
            mean = images_per_step * num_steps / elapsed_s
            jitter = median_deviation(speeds)
            timing = f"images/sec: {mean:.1f} +/- {uncertainty:.1f} (jitter = {jitter:.1f})"
            loss = math.nan if sample.loss is None else sample.loss
            yield f"{num_steps}\t{timing}\t{loss:.3f}"
    yield "-" * 64
    yield f"total images/sec: {throughput:.2f}"
    yield "-" * 64
