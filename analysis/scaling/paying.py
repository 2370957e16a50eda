"""Decides whether added GPUs pay: what each adds, as a share of what each of the first brings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from analysis.results import Result
from scalemark.records.references import Origin
from scalemark.stats.welch import (
    Relation,
    error_of_log_mean,
    known_ratio_interval,
    reach_of_sum,
    relation_by,
)

PAYS_FROM = 0.5  # of what one GPU brings: each that is added should add as much, to be worth it


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The gain from more GPUs."""

    before: Result
    after: Result
    gain: float  # throughput after, times that before
    # 95 % CI over processes; None where one of both is a single run
    gain_low: float | None
    gain_high: float | None
    share: float  # of what each GPU of the first result brings: what each that was added does
    low: float | None  # 95 % CI; None where one of the three is a single run
    high: float | None

    @property
    def pays(self) -> bool:
        return self.share >= PAYS_FROM

    @property
    def is_sure(self) -> bool:
        """Say whether `pays` is known; what others published counts as it stands."""
        if self.before.environment.origin is Origin.PUBLISHED:
            return True
        if self.low is None or self.high is None:
            return False
        return (self.low >= PAYS_FROM) == (self.high >= PAYS_FROM)

    @property
    def is_tie(self) -> bool:
        """Say whether the gain may be none."""
        return relation_by(self.gain_low, self.gain_high) is Relation.TIE

    @property
    def is_surely_slower(self) -> bool:
        if self.before.environment.origin is Origin.PUBLISHED:
            return self.gain < 1
        return relation_by(self.gain_low, self.gain_high) is Relation.LESS


@dataclass(frozen=True, slots=True, kw_only=True)
class PayingStop:
    """More GPUs than these do not pay, up to the most that were tried."""

    num_gpus: int
    up_to: int  # the most that were tried
    # what each GPU from `num_gpus` to `up_to` adds, as a share of what each of the first brings
    share: float
    share_low: float | None
    share_high: float | None
    is_sure: bool


def added(first: Result, before: Result, after: Result) -> Added:
    """Compare three results of one curve that have numbers; `before` may be the first."""
    gain_low, gain_high = known_ratio_interval(after.repeats, before.repeats)
    per_added = first.num_gpus / (after.num_gpus - before.num_gpus)
    share = per_added * (_images(after) - _images(before)) / _images(first)
    reach = _reach(first, before, after, per_added)
    return Added(
        before=before,
        after=after,
        gain=_images(after) / _images(before),
        gain_low=gain_low,
        gain_high=gain_high,
        share=share,
        low=None if reach is None else share - reach,
        high=None if reach is None else share + reach,
    )


def steps(curve: Sequence[Result]) -> list[Added]:
    """Return the steps of a curve, whose results have numbers and are in order of their GPUs."""
    return [added(curve[0], before, after) for before, after in pairwise(curve)]


def stop(curve: Sequence[Result]) -> PayingStop | None:
    """Return the fewest GPUs beyond which no larger number that was tried pays."""
    for position, before in enumerate(curve[:-1]):
        beyond = [added(curve[0], before, after) for after in curve[position + 1 :]]
        if not any(step.pays for step in beyond):
            most = beyond[-1]
            return PayingStop(
                num_gpus=before.num_gpus,
                up_to=most.after.num_gpus,
                share=most.share,
                share_low=most.low,
                share_high=most.high,
                is_sure=all(step.is_sure for step in beyond),
            )
    return None


def _reach(first: Result, before: Result, after: Result, per_added: float) -> float | None:
    """Return half the interval of a share, from the errors of the logarithms of its throughputs."""
    if min(len(one.repeats) for one in (first, before, after)) < 2:
        return None
    # slopes of the share against each logarithm; `before` may be the first
    slopes = {first.num_gpus: 0.0, before.num_gpus: 0.0, after.num_gpus: 0.0}
    slopes[after.num_gpus] += per_added * _images(after) / _images(first)
    slopes[before.num_gpus] -= per_added * _images(before) / _images(first)
    slopes[first.num_gpus] -= per_added * (_images(after) - _images(before)) / _images(first)
    errors = []
    for one in {one.num_gpus: one for one in (first, before, after)}.values():
        error = slopes[one.num_gpus] * error_of_log_mean(one.repeats)
        errors.append((error**2, len(one.repeats) - 1))
    return reach_of_sum(errors)


def _images(result: Result) -> float:
    return result.throughput or 0.0
