"""Decides what follows an attempt that did not complete: another one, the end, or that larger
trials are not worth starting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from enum import Enum

from conf.schema import RetryConfig
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from sweeper.errors import SweepRefusedError

MOST_RETRIES = 100

CRASHED = "crashed"
"""A way to end that is no Outcome of its own: failed without a result, or interrupted by somebody
who was not this sweep.
"""

_SIZES = ("batch_size", "image_px")


class Next(Enum):
    """What becomes of a repeat after an attempt."""

    RETRY = "retry"
    FINAL = "final"


def check(retry: RetryConfig) -> None:
    """Raises SweepRefusedError, naming the setting, for counts that cannot be."""
    for field in fields(retry):
        count = getattr(retry, field.name)
        if not 0 <= count <= MOST_RETRIES:
            raise SweepRefusedError(
                f"retry.{field.name}={count}: wanted 0 to {MOST_RETRIES} further attempts"
            )


def ended_so(outcome: Outcome, *, crashed: bool) -> str:
    """How an attempt ended, in the words of the settings `retry.*`. `crashed`: as
    sweeper.running.judgement.Judged has it.
    """
    return (
        CRASHED if crashed and outcome in (Outcome.FAILED, Outcome.INTERRUPTED) else outcome.value
    )


def next_of(
    retry: RetryConfig, outcome: Outcome, *, crashed: bool, num_ended: Mapping[str, int]
) -> Next:
    """What to do after an attempt; `num_ended` counts the repeat's attempts, this one included, by
    `ended_so`.

    Each way to end is counted on its own, so that a crash uses up no retry that is meant for a
    time-out.
    """
    ended = ended_so(outcome, crashed=crashed)
    if ended == Outcome.INTERRUPTED:
        return Next.RETRY
    if outcome in (Outcome.COMPLETED, Outcome.UNSUPPORTED):
        return Next.FINAL
    return Next.RETRY if num_ended.get(ended, 0) <= getattr(retry, ended) else Next.FINAL


def larger_than(spec: TrialSpec, failed_spec: TrialSpec) -> bool:
    """Does the trial differ from one that ran out of memory in size alone: batch or image larger,
    neither smaller?
    """
    sizes = [(getattr(spec, name), getattr(failed_spec, name)) for name in _SIZES]
    if not all(size >= failed for size, failed in sizes) or all(
        size == failed for size, failed in sizes
    ):
        return False
    return (
        replace(spec, batch_size=failed_spec.batch_size, image_px=failed_spec.image_px)
        == failed_spec
    )


def size_ranks(specs: Sequence[TrialSpec]) -> dict[str, int]:
    """Trial id -> its place among the trials that differ from it in size alone, the smallest first:
    0, 1, ...
    """
    families: dict[TrialSpec, list[TrialSpec]] = {}
    for spec in specs:
        families.setdefault(replace(spec, batch_size=1, image_px=1), []).append(spec)
    return {
        spec.trial_id: rank
        for family in families.values()
        for rank, spec in enumerate(
            sorted(family, key=lambda spec: spec.batch_size * spec.image_px**2)
        )
    }
