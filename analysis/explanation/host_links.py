"""What the links between a trial's hosts take of a step, worked out: bytes of its way of training
over their measured rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.explanation.observed import NOTHING, Observed
from analysis.explanation.rungs import PLANTED_LINK, Rung, several_hosts
from analysis.explanation.step_times import Seconds, step_s
from analysis.explanation.waterfall import Waterfall
from analysis.results import Result
from costs.between_hosts import between_hosts
from costs.networks import network
from scalemark.abilities import rank_jobs
from scalemark.records.planted import read_planted

BYTES_PER_PARAMETER = 4  # gradients are sent in fp32 whatever the precision
COMPACT_BYTES = 2  # of one, with compact_gradients
PHASES = ("weights", "gradients")
"""Where a step has two, which pass the links in one order or the other, as many bytes of each; one
alone is a reduction.
"""
PAYLOAD = 1448 / 1514  # bytes of TensorFlow in a full frame of Ethernet


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLinks:
    """Of one target."""

    # bytes over the busiest link, one after the other, of each step; see PHASES
    phases: tuple[float, ...]
    bytes_per_s: float
    told_by: str  # how that is known
    rest: Result | None  # the same trial where no slow link is in its way
    # of its own links, as a machine's loopback; None where nobody knows
    rest_bytes_per_s: float | None

    @property
    def link_bytes(self) -> float:
        """Per step."""
        return sum(self.phases)

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.link_bytes / self.bytes_per_s

    @property
    def expected_step_s(self) -> Seconds | None:
        """Of the target, as if nothing of either hid behind the other. What fast links take is not
        taken twice.
        """
        if self.rest is None:
            return None
        in_rest_s = (
            min(self.seconds, self.link_bytes / self.rest_bytes_per_s)
            if self.rest_bytes_per_s
            else 0.0
        )
        return step_s(self.rest).plus(self.seconds - in_rest_s)


def host_links(fall: Waterfall, seen: Observed, rest_seen: Observed = NOTHING) -> HostLinks | None:
    """`rest_seen` over fast links. None on one host, and where the rate of the links or the number
    of parameters is not known.
    """
    rate, told_by = _rate(fall.target.axes, seen)
    if not rate or not seen.num_parameters:
        return None
    phases = _phases(fall.target.axes, seen.num_parameters)
    if not any(phases):
        return None
    rest = fall.rungs.found.get(Rung.FAST_LINKS)
    return HostLinks(
        phases=phases,
        bytes_per_s=rate,
        told_by=told_by,
        rest=rest,
        rest_bytes_per_s=rest_seen.link_bytes_per_s,
    )


def _rate(axes: Mapping[str, Any], seen: Observed) -> tuple[float | None, str]:
    """Measured where the way of training has a client that can, else what was planted, without
    headers.
    """
    planted = read_planted(axes.get("planted", "")).get(PLANTED_LINK)
    if seen.link_bytes_per_s or planted is None:
        return seen.link_bytes_per_s, "measured before the steps"
    return planted * 1e6 / 8 * PAYLOAD, "planted, headers left out"


def link_bytes(axes: Mapping[str, Any], num_parameters: int) -> float:
    """That a step of a trial of these axes sends over the busiest link, one after the other; 0 on
    one host.
    """
    return sum(_phases(axes, num_parameters))


def _phases(axes: Mapping[str, Any], num_parameters: int) -> tuple[float, ...]:
    if not several_hosts(axes) or not rank_jobs(axes["variable_update"]):
        return ()
    sizes = _tensor_bytes(axes, num_parameters)
    sent = between_hosts(
        axes["variable_update"], axes["all_reduce"], sizes, axes["hosts"], axes["num_gpus"]
    )
    return tuple(phase.busiest for phase in sent.phases)


def _tensor_bytes(axes: Mapping[str, Any], num_parameters: int) -> list[float]:
    """By the layers of its network; of one that is not known, equal parts on each host."""
    per_element = COMPACT_BYTES if axes.get("compact_gradients") else BYTES_PER_PARAMETER
    try:
        tensors = network(str(axes["model"]), axes.get("image_px"), axes.get("num_classes")).tensors
    except ValueError:  # unknown, or of an image too small for it
        tensors = ()
    if sum(tensors) != num_parameters:
        return [per_element * num_parameters / axes["hosts"]] * axes["hosts"]
    return [float(per_element * elements) for elements in tensors]
