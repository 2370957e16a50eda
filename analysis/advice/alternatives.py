"""Names what the pick changes about the training, and the best choice that does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.advice.ranking import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A property of the pick that may be unwanted."""

    caveat: str  # what it does, and why one might not want it
    without: str  # as `in fp32`
    candidate: Candidate | None  # the best that does not; None where none was tried
    ratio: float | None  # its score, times that of the pick


_AXES = {
    "staged_vars": "staged_vars uses the weights of the step before: another algorithm than SGD",
    "compact_gradients": "compact_gradients sends gradients as half precision",
}


def alternatives(pick: Candidate, candidates: Sequence[Candidate]) -> Iterator[Alternative]:
    best_first = sorted(candidates, key=lambda one: one.score, reverse=True)
    for axis, caveat in _AXES.items():
        if pick.result.axes.get(axis):
            others = [one for one in best_first if not one.result.axes.get(axis)]
            yield _alternative(caveat, f"without {axis}", pick, others)
    precision = _precision(pick)
    if precision not in ("fp32", ""):
        others = [one for one in best_first if _precision(one) == "fp32"]
        caveat = f"{precision} changes the numerics of the training"
        yield _alternative(caveat, "in fp32", pick, others)
    smaller = [one for one in best_first if _trains_on_smaller(one, pick)]
    if not smaller:
        return
    size, unit = _per_device, "batch_size {}"
    sizes = f" ({_per_device(pick)} per device, {_in_all(pick)} in all)"
    if pick.result.is_of_program:
        sizes = ""  # how its batch divides among devices is its own
    if _is_strong(pick):
        size, unit = _in_all, "{} in all"
    least = min(size(one) for one in smaller)
    caveat = f"a larger batch changes the training{sizes}: this is about throughput only"
    others = [one for one in smaller if size(one) == least]
    yield _alternative(caveat, f"with {unit.format(least)}", pick, others)


def _alternative(
    caveat: str, without: str, pick: Candidate, others: Sequence[Candidate]
) -> Alternative:
    if not others:
        return Alternative(caveat=caveat, without=without, candidate=None, ratio=None)
    ratio = others[0].score / pick.score
    return Alternative(caveat=caveat, without=without, candidate=others[0], ratio=ratio)


def _precision(one: Candidate) -> str:
    return str(one.result.axes["precision"] or "").rstrip("?").partition("+")[0]


def _trains_on_smaller(one: Candidate, pick: Candidate) -> bool:
    """Return whether its batch of all devices is smaller.

    Under weak scaling fewer devices with the same batch each do not count.
    """
    if not _per_device(one) or _in_all(one) >= _in_all(pick):
        return False
    return _per_device(one) < _per_device(pick) or (_is_strong(one) and _is_strong(pick))


def _is_strong(one: Candidate) -> bool:
    return bool(one.result.axes.get("scaling") == "strong")


def _per_device(one: Candidate) -> int:
    """Return the batch of a device; 0 where a source does not report it."""
    return int(one.result.axes["batch_size"] or 0)


def _in_all(one: Candidate) -> int:
    return _per_device(one) * one.result.num_gpus
