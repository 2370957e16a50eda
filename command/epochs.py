"""Doubts steps that are counted over epochs of which no line tells the length, or the number."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from command.curve import Curve
from command.cut import Calls, Clock

MOST_UNSURE = 0.01  # of all steps
_JUMP = 1.5  # between the speeds of training and of an evaluation
_FEWEST_CALLS = 2  # by which a speed is known


def doubts(curve: Curve, calls: Calls, num_warm_up: int) -> Sequence[str]:
    """Return doubts of the number of steps, and of whether all of them were training."""
    return [*_unknown_length(curve, calls), *_jump(curve, calls, num_warm_up)]


def _unknown_length(curve: Curve, calls: Calls) -> Sequence[str]:
    if calls.clock is Clock.RATE or curve.unsure_steps <= MOST_UNSURE * curve.num_steps:
        return []
    return [
        f"{curve.num_steps} steps are counted, which may be wrong by {curve.unsure_steps}, as no "
        "line says how many steps an epoch has; print it, and read it as epoch_steps"
    ]


def _jump(curve: Curve, calls: Calls, num_warm_up: int) -> Sequence[str]:
    anew_s = curve.began_anew_s
    if anew_s is None:
        return []
    earlier: list[float] = []
    later: list[float] = []
    for index in range(num_warm_up, len(calls.durations_s)):
        step_s = calls.durations_s[index] / calls.steps_per_call
        if calls.arrivals_s[index + 1] <= anew_s:
            earlier.append(step_s)
        elif calls.arrivals_s[index] >= anew_s:
            later.append(step_s)
    if min(len(earlier), len(later)) < _FEWEST_CALLS:
        return []
    earlier_s, later_s = statistics.median(earlier), statistics.median(later)
    if max(earlier_s, later_s) <= _JUMP * min(earlier_s, later_s):
        return []
    return [
        f"a step took {earlier_s:.3g} s, and {later_s:.3g} s after its number had begun anew: is "
        "that an evaluation? Leave it out of the run, or print the number of the epoch"
    ]
