"""Holds what is known of one target while a verdict on it is found and doubted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.explanation.ablations import Ablation
from analysis.explanation.communication.exchange import ExchangeTests
from analysis.explanation.observed import Observed
from analysis.explanation.step_times import Seconds
from analysis.explanation.suspects import Bound, Suspect
from analysis.explanation.waterfall import Waterfall

# of the step: the performance guide's own example of launch gaps worth mending has so much
MATTERS = 0.10
UNNAMED = "what nothing tells apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One target with its suspects, largest first."""

    fall: Waterfall
    seen: Observed
    of_ablations: Mapping[Ablation, Observed]
    found: Sequence[Suspect]
    tests: ExchangeTests

    @property
    def heavy(self) -> list[Suspect]:
        return [one for one in self.found if self.fall.share(one.seconds.value) >= MATTERS]

    def top(self, bound: Bound | None) -> Suspect | None:
        """Return the largest suspect of a bound that matters."""
        return next((one for one in self.heavy if one.bound is bound), None)


def apart(top: Suspect, other: Suspect) -> bool:
    """Return whether the intervals of both leave no doubt which one is larger."""
    low = top.seconds.value
    if top.seconds.is_conclusive and top.seconds.low is not None:
        low = top.seconds.low
    return low > at_most(other.seconds)


def at_most(seconds: Seconds) -> float:
    """Return the end of its interval; without one a half more must do."""
    return (
        seconds.high if seconds.is_conclusive and seconds.high is not None else 1.5 * seconds.value
    )
