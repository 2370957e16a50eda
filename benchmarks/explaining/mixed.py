"""Simulated trials with up to three causes at once, as they are drawn: none is chosen for its cause
being clear. A verdict is wrong by as much as its cause is less than another, or than 10 % of the
step.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from analysis.explain.ablations import AblationFinder, reads
from analysis.explain.causes import Bound
from analysis.explain.explanations import explain_all
from analysis.explain.verdicts import MATTERS, Confidence
from benchmarks.explaining.simulated import (
    EVERY,
    KINDS,
    Injected,
    Setting,
    any_setting,
    fits,
    shares,
    simulated_around,
    with_noise,
)
from scalemark.records.trial import TrialSpec

_MOST_CAUSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on one trial, and by how much of its step that is wrong."""

    bound: Bound | None
    confidence: Confidence
    wrong_by: float  # 0 where it is right, or where nothing was said


def verdicts(seed: int, num_cases: int, *, thinned: bool = False) -> Iterator[Verdict]:
    """Yield one of each case. `thinned` is as in `simulated.answers`."""
    random = np.random.default_rng(seed)
    for _ in range(num_cases):
        yield _verdict(_drawn(random), random, thinned)


def _verdict(setting: Setting, random: np.random.Generator, thinned: bool) -> Verdict:
    simulated = simulated_around(setting, random, thinned=thinned)
    results = [result for result, _ in simulated.values()]
    finder = AblationFinder(results)
    (found,) = explain_all(results[:1], finder, lambda result: simulated[result.trial_id][1])
    diagnosis = found.diagnosis
    wrong_by = 0.0 if diagnosis.bound is None else _wrong_by(diagnosis.bound, shares(setting))
    return Verdict(bound=diagnosis.bound, confidence=diagnosis.confidence, wrong_by=wrong_by)


def _wrong_by(bound: Bound, truth: dict[Bound, float]) -> float:
    own = truth.get(bound, 0.0)
    largest = max(share for other, share in truth.items() if other is not bound)
    if bound is Bound.HEALTHY or (bound is Bound.COMPUTE and own < MATTERS):
        return max(0.0, largest - MATTERS)  # says that nothing matters
    return max(0.0, largest - own, MATTERS - own)


def _drawn(random: np.random.Generator) -> Setting:
    while True:
        setting, injected = any_setting(random), Injected()
        names = random.permutation(list(KINDS))
        for name in names[: random.integers(_MOST_CAUSES + 1)]:
            setting = KINDS[name].draw(random, setting, EVERY.gentlest)
            injected |= setting.injected
        setting = replace(setting, injected=_effective(injected, setting.spec))
        if fits(setting):
            return with_noise(setting, random)


def _effective(injected: Injected, spec: TrialSpec) -> Injected:
    """Leave out what slows nothing there, since a cause that was drawn later may have taken it."""
    without: set[str] = set()
    if spec.num_gpus == 1:
        without.add("reduction_s")
    if not reads({"data": spec.data}):
        without.add("input_s")
    if injected.get("slow_replica", 0) >= spec.num_gpus:
        without |= {"slow_replica", "slow_replica_by"}
    return {name: value for name, value in injected.items() if name not in without}
