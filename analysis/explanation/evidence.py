"""States what a verdict rests on: seconds observed and expected, rates, and the trials."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from analysis.explanation.step_times import Seconds


class Method(StrEnum):
    """The way by which something is known."""

    ABLATION = "ablation"  # one trial less another that differs in one thing
    BYTES = "growth with bytes"  # see `analysis.explanation.communication.growth`
    OTHER_WAY = "another strategy"  # the same work, exchanged another way
    LINKS = "rate of the links"  # bytes over a measured rate
    FIXED = "fixed costs"  # what does not grow with the batch, or with the model
    REPLICA_TIMES = "times of each replica"  # its own compute, less that of the others
    OBSERVED = "observed"  # seen within the trial itself: waiting, clocks, a profile
    CORES = "share of the cores"  # that other programs took, of the time spent computing
    COUNTED = "counted"  # a limit by counting what the model does


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The gradients of one replica over the time they take, bytes per second."""

    sent_bytes: float
    implied: float  # over the time that was lost, as if nothing were hidden behind compute
    possible: float | None  # of the fastest links there; None where nobody knows
    expected_s: float | None  # of a step, at the possible rate of its own way of exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One observation."""

    method: Method
    seconds: Seconds  # observed, of a step
    because: str  # a part of a sentence
    trials: tuple[str, ...]  # identities; of a difference what is subtracted comes last
    p: float | None = None
    rates: Rates | None = None  # of communication
