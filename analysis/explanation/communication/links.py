"""Tells what the links would take of a step, and whether they explain what was lost."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.explanation.communication.host_links import host_links
from analysis.explanation.communication.inner_links import InnerLinks
from analysis.explanation.communication.losses import gradient_bytes
from analysis.explanation.evidence import Rates
from analysis.explanation.observed import Observed
from analysis.explanation.step_times import ms
from analysis.explanation.waterfall import Waterfall

# times what the bytes of its own way of training take at the measured rate
HOST_LINKS_EXPLAIN = 4.0
# of the time that the bytes take at the full rate: no step is so much shorter
TOO_SHORT = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The links that the gradients of one target take; None where nobody knows."""

    sent_bytes: float | None  # gradients of one replica; between hosts over the busiest link
    bytes_per_s: float | None  # that the links can carry
    seconds: float | None  # of a step, for its own way of exchange
    at_most_s: float | None  # however badly they are used

    def contradict(self, lost_s: float, step_s: float) -> str:
        """Return why communication cannot be all that was lost; empty where it can."""
        if self.at_most_s is not None and self.seconds is not None and lost_s > self.at_most_s:
            return (
                f"the links would take {ms(self.seconds)} of these {ms(lost_s)}, and do not "
                "explain the rest"
            )
        if self.sent_bytes is None or self.bytes_per_s is None:
            return ""
        if step_s < TOO_SHORT * self.sent_bytes / self.bytes_per_s:
            return (
                f"{self.sent_bytes / 1e6:.3g} MB in a step of {ms(step_s)} are more than the "
                f"{self.bytes_per_s / 1e9:.3g} GB/s of the links"
            )
        return ""

    def rates(self, lost_s: float) -> Rates | None:
        """Return None where nobody counted the gradients, or nothing was lost."""
        if self.sent_bytes is None or lost_s <= 0:
            return None
        return Rates(
            sent_bytes=self.sent_bytes,
            implied=self.sent_bytes / lost_s,
            possible=self.bytes_per_s,
            expected_s=self.seconds,
        )


def links_of(fall: Waterfall, seen: Observed, inner: InnerLinks | None) -> Links:
    """Return the links between the target's hosts, or within its one; `seen` is of the target."""
    if between := host_links(fall, seen):
        return Links(
            sent_bytes=between.link_bytes,
            bytes_per_s=between.bytes_per_s,
            seconds=between.seconds,
            at_most_s=HOST_LINKS_EXPLAIN * between.seconds,
        )
    return Links(
        sent_bytes=gradient_bytes(fall.target.axes, seen.num_parameters),
        bytes_per_s=1e9 * inner.gb_per_s if inner else None,
        seconds=inner.seconds if inner else None,
        at_most_s=inner.at_most_s if inner else None,
    )
