"""Names the bottlenecks, and what one of them takes of a step: a suspect."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from analysis.explanation.communication.links import Links
from analysis.explanation.evidence import Evidence, Method
from analysis.explanation.step_times import Seconds, ms
from analysis.explanation.waterfall import Waterfall
from analysis.results import Result


class Bound(StrEnum):
    """A bottleneck."""

    INPUT = "input-bound"
    LAUNCH = "launch-bound"
    COMMUNICATION = "communication-bound"
    COMPUTE = "compute-bound"
    CONTENTION = "contention"
    SLOW_REPLICA = "slow replica"
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """One cause with its seconds per step."""

    bound: Bound | None  # None: one of several that nothing tells apart
    seconds: Seconds
    is_direct: bool  # measured for itself; else inferred from what is not
    because: str  # a part of a sentence
    method: Method
    trials: tuple[Result, ...]  # by which it is known
    # by what the links would take, as a part of a sentence; empty where they may explain it
    contradicted: str = ""
    told_by: str = ""  # what would tell which it is, as a part of a sentence
    p: float | None = None  # of a test

    def evidence(self, links: Links) -> Evidence:
        """Return it as evidence, that of communication with its rates."""
        is_sent = self.bound in (None, Bound.COMMUNICATION)
        return Evidence(
            method=self.method,
            seconds=self.seconds,
            because=self.because,
            trials=tuple(one.trial_id for one in self.trials),
            p=self.p,
            rates=links.rates(self.seconds.value) if is_sent else None,
        )


def observed_in(
    bound: Bound,
    seconds: Seconds,
    because: str,
    fall: Waterfall,
    *,
    is_direct: bool = True,
    method: Method = Method.OBSERVED,
) -> Suspect:
    return Suspect(
        bound=bound,
        seconds=seconds,
        is_direct=is_direct,
        because=because,
        method=method,
        trials=(fall.target,),
    )


def inferred(
    bound: Bound | None,
    seconds: Seconds,
    because: str,
    trials: tuple[Result, ...],
    *,
    method: Method = Method.ABLATION,
    contradicted: str = "",
    told_by: str = "",
) -> Suspect:
    return Suspect(
        bound=bound,
        seconds=seconds,
        is_direct=False,
        because=because,
        method=method,
        trials=trials,
        contradicted=contradicted,
        told_by=told_by,
    )


def more(causes: str, seconds: Seconds) -> str:
    return f"{causes}: {ms(seconds.value)} more per step"


def lost_to(causes: str, lost_s: float, fall: Waterfall) -> str:
    return f"{fall.share(lost_s):.0%} of the step is lost to {causes} ({ms(lost_s)})"
