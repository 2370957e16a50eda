"""What the pick changes about the training, and the best choice without that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.advice.ranking import Candidate

_PLAIN = "fp32"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """The pick does something that may not be wanted."""

    caveat: str  # what it does, and why one might not want it
    without: str  # as `in fp32`
    candidate: Candidate | None  # the best that does not; None where none was tried
    ratio: float | None  # its score, times that of the pick


def alternatives(pick: Candidate, all_of_them: Sequence[Candidate]) -> list[Alternative]:
    return list(_alternatives(pick, sorted(all_of_them, key=lambda one: one.score, reverse=True)))


def _alternatives(pick: Candidate, best_first: Sequence[Candidate]) -> Iterator[Alternative]:
    axes = pick.result.axes
    precision = _precision(pick)
    if axes.get("staged_vars"):
        yield _without(
            "staged_vars uses the weights of the step before: a different algorithm than SGD",
            "without staged_vars",
            pick,
            [one for one in best_first if not one.result.axes.get("staged_vars")],
        )
    if axes.get("compact_gradients"):
        yield _without(
            "compact_gradients sends gradients as half precision",
            "without compact_gradients",
            pick,
            [one for one in best_first if not one.result.axes.get("compact_gradients")],
        )
    if precision not in (_PLAIN, ""):
        yield _without(
            f"{precision} changes the numerics of the training",
            f"in {_PLAIN}",
            pick,
            [one for one in best_first if _precision(one) == _PLAIN],
        )
    if smaller := [one for one in best_first if _trains_on_smaller(one, pick)]:
        size, unit = (_in_all, "{} in all") if _is_strong(pick) else (_per_device, "batch_size {}")
        least = min(map(size, smaller))
        yield _without(
            f"a larger batch changes the training (here {_per_device(pick)} per device, {_in_all(pick)} in all): "
            "what is told is throughput only",
            f"with {unit.format(least)}",
            pick,
            [one for one in smaller if size(one) == least],
        )


def _without(
    caveat: str, without: str, pick: Candidate, others: Sequence[Candidate]
) -> Alternative:
    best = others[0] if others else None
    return Alternative(
        caveat=caveat,
        without=without,
        candidate=best,
        ratio=None if best is None else best.score / pick.score,
    )


def _precision(one: Candidate) -> str:
    return str(one.result.axes["precision"]).rstrip("?").partition("+")[0]


def _trains_on_smaller(one: Candidate, pick: Candidate) -> bool:
    """By the batch of all devices together. Under weak scaling that fewer devices take less is not
    counted.
    """
    if not _per_device(one) or not _per_device(pick) or _in_all(one) >= _in_all(pick):
        return False
    return _per_device(one) < _per_device(pick) or (_is_strong(one) and _is_strong(pick))


def _is_strong(one: Candidate) -> bool:
    return bool(one.result.axes.get("scaling") == "strong")


def _per_device(one: Candidate) -> int:
    """0 where a source does not tell."""
    return int(one.result.axes["batch_size"] or 0)


def _in_all(one: Candidate) -> int:
    return _per_device(one) * one.result.num_gpus
