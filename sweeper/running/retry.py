"""Decides what follows an attempt that did not complete: another one, or the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from enum import Enum

from conf.schema import RetryConfig
from scalemark.records.measurement import Result, said_of_others
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from sweeper.errors import SweepRefusedError

MOST_RETRIES = 100

CRASHED = "crashed"
"""A way to end that is no Outcome of its own: failed without a result, or interrupted by somebody
who was not this sweep."""


DISTURBED = "disturbed"
"""Another one: completed, while other programs computed on its GPUs."""


class Next(Enum):
    """The fate of a repeat after an attempt."""

    RETRY = "retry"
    FINAL = "final"


def check(retry: RetryConfig) -> None:
    """Raise SweepRefusedError, naming the setting, for counts that cannot be."""
    for field in fields(retry):
        count = getattr(retry, field.name)
        if not 0 <= count <= MOST_RETRIES:
            raise SweepRefusedError(
                f"retry.{field.name}={count}: wanted 0 to {MOST_RETRIES} further attempts"
            )


def disturbances(result: Result) -> list[str]:
    """Return what made an attempt `disturbed`, as its verdict says it; nothing for others."""
    if result.outcome != Outcome.COMPLETED:
        return []
    return [said_of_others(gpu) for gpu in result.gpu_telemetry if gpu.num_foreign_processes]


def ended_so(outcome: Outcome, *, crashed: bool, disturbed: bool = False) -> str:
    """Return how an attempt ended, as the settings `retry.*` name it.

    `crashed` is as `sweeper.running.judgement.Judged` has it, `disturbed` as `disturbances` finds.
    """
    if disturbed and outcome is Outcome.COMPLETED:
        return DISTURBED
    if crashed and outcome in (Outcome.FAILED, Outcome.INTERRUPTED):
        return CRASHED
    return outcome.value


def next_of(
    retry: RetryConfig,
    outcome: Outcome,
    *,
    crashed: bool,
    disturbed: bool = False,
    num_ended: Mapping[str, int],
) -> Next:
    """Decide what to do after an attempt.

    `num_ended` counts the repeat's attempts, this one included, by `ended_so`. Each way to end is
    counted on its own, so that a crash uses up no retry that is meant for a time-out.
    """
    ended = ended_so(outcome, crashed=crashed, disturbed=disturbed)
    if ended == Outcome.INTERRUPTED:
        return Next.RETRY
    if ended in (Outcome.COMPLETED, Outcome.UNSUPPORTED):
        return Next.FINAL
    return Next.RETRY if num_ended.get(ended, 0) <= getattr(retry, ended) else Next.FINAL


def larger_than(spec: TrialSpec, failed_spec: TrialSpec) -> bool:
    """Return whether a trial has a larger batch or input than one that ran out of memory.

    All else must be equal, and neither may be smaller.
    """
    if spec == failed_spec or _without_sizes(spec) != _without_sizes(failed_spec):
        return False
    return all(getattr(spec, size) >= getattr(failed_spec, size) for size in _SIZES)


def size_ranks(specs: Sequence[TrialSpec]) -> dict[str, int]:
    """Rank trials that differ in size alone, the smallest first: trial id -> 0, 1, ..."""
    families: dict[TrialSpec, list[TrialSpec]] = {}
    for spec in specs:
        families.setdefault(_without_sizes(spec), []).append(spec)
    ranks: dict[str, int] = {}
    for family in families.values():
        family.sort(key=_num_inputs)
        ranks.update((spec.trial_id, rank) for rank, spec in enumerate(family))
    return ranks


_SIZES = ("batch_size", "image_px", "seq_len")


def _num_inputs(spec: TrialSpec) -> int:
    """Count the pixels and tokens of a batch."""
    return spec.batch_size * max(1, spec.image_px**2 + spec.seq_len)


def _without_sizes(spec: TrialSpec) -> TrialSpec:
    return replace(spec, batch_size=1, image_px=1, seq_len=1)
