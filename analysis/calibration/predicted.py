"""Predict from rows: by the physics, of the box's profile or of all boxes that it may be, and by
rules that carry a curve on, weighed by their record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analysis.calibration.doubts import guess_doubt, is_beyond_rules
from analysis.calibration.environments import Guess
from analysis.calibration.fit import Fit, fit
from analysis.calibration.intervals import QUANTILES, scale
from analysis.calibration.predictive import Candidate, Predictive, predictive
from analysis.calibration.priors import LEFT_OUT, LeftOut
from analysis.calibration.row import Row
from analysis.calibration.rules import carried, log_times
from analysis.calibration.weights import PHYSICS, Record, Stack, stacked
from costs.hardware import Hardware


def predicted(
    rows: Sequence[Row],
    targets: Sequence[Row],
    guess: Guess,
    target_hardware: Hardware | None = None,
    *,
    left_out: LeftOut = LEFT_OUT,
) -> list[Predictive]:
    """Predict targets; `target_hardware` where it is another than the rows'.

    Where a target's own curve has rows on fewer GPUs of the same box, rules that carry the curve on
    are weighed with the physics; all else is predicted by the physics alone.

    Raises MissingLinkError, and ValueError for what the hardware cannot do.
    """
    if not targets:
        return []
    fits = weighed(rows, targets, guess, target_hardware, left_out=left_out)
    likeliest = max(fits, key=lambda fit: fit[0])[1]
    by_physics = predictive(fits)
    is_elsewhere = target_hardware not in (None, guess.hardware)
    curves = [{} if is_elsewhere else _carried(target, rows) for target in targets]
    record = _record(rows, guess, left_out) if any(curves) else Record()
    found = []
    for index, (one, by_rules) in enumerate(zip(by_physics, curves, strict=True)):
        if not by_rules or is_beyond_rules(likeliest.targets[index], likeliest):
            found.append(one.doubted(guess_doubt(fits, index)))
            continue
        stack = stacked(
            {PHYSICS: _log_time(targets[index], one), **by_rules}, record, left_out.noise
        )
        found.append(_combined(one, stack, targets[index], left_out.noise))
    return found


def _carried(target: Row, rows: Sequence[Row]) -> dict[str, float]:
    return carried(log_times(target, rows), target.work.num_gpus)


def _log_time(target: Row, one: Predictive) -> float:
    """Return the log of the time of one item on one GPU."""
    return math.log(target.work.num_gpus / one.throughput)


def _combined(one: Predictive, stack: Stack, target: Row, noise: float) -> Predictive:
    """Replace the physics' throughput and interval by those of all candidates."""
    spread = scale(noise, stack.variance, stack.weights[PHYSICS], one.log_spread)
    num_gpus = target.work.num_gpus
    candidates = []
    for name, weight in stack.weights.items():
        throughput = num_gpus / math.exp(stack.logs[name])
        candidates.append(Candidate(name=name, throughput=throughput, weight=weight))
    return replace(
        one,
        throughput=num_gpus / math.exp(stack.middle),
        candidates=tuple(candidates),
        scale=spread,
    ).within(QUANTILES)


def _record(rows: Sequence[Row], guess: Guess, left_out: LeftOut) -> Record:
    """Leave out the most GPUs of the box, and predict them from rows on half of them or fewer."""
    most = max(row.work.num_gpus for row in rows)
    kept = [row for row in rows if row.work.num_gpus <= most / 2]
    judged = [row for row in rows if row.work.num_gpus == most and _carried(row, kept)]
    if not judged:
        return Record()
    by_physics = predictive(weighed(kept, judged, guess, left_out=left_out))
    errors = []
    for row, one in zip(judged, by_physics, strict=True):
        assert row.throughput is not None
        reached = math.log(row.work.num_gpus / row.throughput)
        logs = {PHYSICS: _log_time(row, one), **_carried(row, kept)}
        errors.append({name: log - reached for name, log in logs.items()})
    return Record(errors=tuple(errors))


def weighed(
    rows: Sequence[Row],
    targets: Sequence[Row],
    guess: Guess,
    target_hardware: Hardware | None = None,
    *,
    left_out: LeftOut = LEFT_OUT,
) -> list[tuple[float, Fit]]:
    """Return a fit for each box that it may be, with its probability by the rows."""
    if guess.is_known:
        return [(1.0, fit(rows, targets, guess.hardware, target_hardware, left_out=left_out))]
    fits: list[Fit] = []
    logs = []
    for box in guess.others:
        one = fit(
            rows,
            targets,
            box.hardware,
            target_hardware,
            is_known=False,
            left_out=left_out,
            start=fits[-1].vector if fits else None,  # the rates of a box like it are near
        )
        fits.append(one)
        logs.append(np.log(box.weight) + one.log_evidence)
    weights = np.exp(np.array(logs) - max(logs))
    return list(zip((weights / weights.sum()).tolist(), fits, strict=True))
