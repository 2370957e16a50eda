"""Predict from rows: by the physics, of the box's profile or of all boxes that it may be, and by
rules that carry a curve on, weighed by their record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analysis.calibration.doubts import guess_doubt, is_beyond_rules
from analysis.calibration.efficiency import Efficiency
from analysis.calibration.environments import Guess
from analysis.calibration.fit import Fit, fit
from analysis.calibration.predictive import Predictive, predictive
from analysis.calibration.priors import LEFT_OUT, LeftOut
from analysis.calibration.row import Row
from analysis.calibration.rules import LINEAR, carried, curve_of, leverages, log_times
from analysis.calibration.weighing import Weighing
from analysis.calibration.weights import CURVE, GUESSED_BOX, KNOWN_BOX, PHYSICS, Entry
from costs.hardware import Hardware


def predicted(
    rows: Sequence[Row],
    targets: Sequence[Row],
    guess: Guess,
    target_hardware: Hardware | None = None,
    *,
    left_out: LeftOut = LEFT_OUT,
    efficiency: Efficiency | None = None,
) -> list[Predictive]:
    """Predict targets; `target_hardware` where it is another than the rows'.

    Where a target's own curve has rows on fewer GPUs of the same box, rules that carry the curve on
    are weighed with the physics; all else is predicted by the physics alone. `efficiency` is what
    is expected before any row: by default what comes with scalemark.

    Raises MissingLinkError, and ValueError for what the hardware cannot do.
    """
    if not targets:
        return []
    fits = weighed(rows, targets, guess, target_hardware, left_out=left_out, efficiency=efficiency)
    likeliest = max(fits, key=lambda fit: fit[0])[1]
    by_physics = predictive(fits)
    is_elsewhere = target_hardware not in (None, guess.hardware)
    curves = [{} if is_elsewhere else _carried(target, rows) for target in targets]
    record: _Record = _record(rows, guess, left_out) if any(curves) else []
    found = []
    for index, (one, by_rules) in enumerate(zip(by_physics, curves, strict=True)):
        if not by_rules or is_beyond_rules(likeliest.targets[index], likeliest):
            found.append(one.doubted(guess_doubt(fits, index)))
            continue
        kind = CURVE
        if len(by_rules) == 1:
            kind = KNOWN_BOX if guess.is_known else GUESSED_BOX
        target, doubt = targets[index], guess_doubt(fits, index, has_curve=kind == CURVE)
        known = log_times(target, rows)
        weighing = Weighing(
            kind=kind,
            num_gpus=target.work.num_gpus,
            most_gpus=max(known),
            logs={PHYSICS: _log_time(target, one), **by_rules},
            leverages=leverages(known, target.work.num_gpus),
            record=_entries(target, record),
            noise=left_out.noise,
            physics=one.doubted(doubt),
        )
        found.append(weighing.predictive())
    return found


def _entries(target: Row, record: _Record) -> tuple[Entry, ...]:
    strategy = target.strategy
    return tuple(Entry(is_alike=row.strategy == strategy, errors=errors) for row, errors in record)


def _carried(target: Row, rows: Sequence[Row]) -> dict[str, float]:
    """Carry the target's curve on by rules; by the linear one alone, where it has one count."""
    times = log_times(target, rows)
    if len(times) == 1 and target.work.num_gpus > min(times):
        return {LINEAR: next(iter(times.values()))}
    return carried(times, target.work.num_gpus)


def _log_time(target: Row, one: Predictive) -> float:
    """Return the log of the time of one item on one GPU."""
    return math.log(target.work.num_gpus / one.throughput)


_Record = list[tuple[Row, dict[str, float]]]
"""Rows that were left out, with the errors of the candidates that predicted them, in logs."""


def _record(rows: Sequence[Row], guess: Guess, left_out: LeftOut) -> _Record:
    """Leave out the most GPUs of each curve, and predict them from rows on at most half of them."""
    most: dict[object, int] = {}
    for row in rows:
        most[curve_of(row)] = max(row.work.num_gpus, most.get(curve_of(row), 0))
    found: _Record = []
    for count in sorted(set(most.values())):
        kept = [row for row in rows if row.work.num_gpus <= count / 2]
        last = [row for row in rows if row.work.num_gpus == count == most[curve_of(row)]]
        judged = [row for row in last if len(_carried(row, kept)) > 1]
        by_physics = predictive(weighed(kept, judged, guess, left_out=left_out)) if judged else []
        for row, one in zip(judged, by_physics, strict=True):
            assert row.throughput is not None
            reached = math.log(count / row.throughput)
            logs = {PHYSICS: _log_time(row, one), **_carried(row, kept)}
            found.append((row, {name: log - reached for name, log in logs.items()}))
    return found


def weighed(
    rows: Sequence[Row],
    targets: Sequence[Row],
    guess: Guess,
    target_hardware: Hardware | None = None,
    *,
    left_out: LeftOut = LEFT_OUT,
    efficiency: Efficiency | None = None,
) -> list[tuple[float, Fit]]:
    """Return a fit for each box that it may be, with its probability by the rows."""
    if guess.is_known:
        one = fit(
            rows,
            targets,
            guess.hardware,
            target_hardware,
            left_out=left_out,
            efficiency=efficiency,
        )
        return [(1.0, one)]
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
            efficiency=efficiency,
            start=fits[-1].vector if fits else None,  # the rates of a box like it are near
        )
        fits.append(one)
        logs.append(np.log(box.weight) + one.log_evidence)
    weights = np.exp(np.array(logs) - max(logs))
    return list(zip((weights / weights.sum()).tolist(), fits, strict=True))
