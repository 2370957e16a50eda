"""Estimates what the links between a trial's hosts take of a step: its bytes over their measured
rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.explanation.ablations import INJECTED_LINK, Ablation, several_hosts
from analysis.explanation.observed import NOTHING, Observed
from analysis.explanation.step_times import Seconds, step_s
from analysis.explanation.waterfall import Waterfall
from analysis.results import Result
from scalemark.abilities import rank_jobs
from scalemark.records.outcomes import read_injected
from simulator.costs.exchange import host_link_phases
from simulator.costs.networks import network

BYTES_PER_PARAMETER = 4  # gradients are sent in fp32 whatever the precision
COMPACT_BYTES = 2  # of one, with compact_gradients
PAYLOAD = 1448 / 1514  # bytes of TensorFlow in a full frame of Ethernet


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLinks:
    """The communication between the hosts of one target."""

    # bytes over the busiest link of each step: of a reduction, or of weights and then gradients
    phases: tuple[float, ...]
    bytes_per_s: float
    known_by: str  # how that is known
    rest: Result | None  # the same trial where no slow link is in its way
    # of its own links, as a machine's loopback; None where nobody knows
    rest_bytes_per_s: float | None

    @property
    def link_bytes(self) -> float:
        return sum(self.phases)

    @property
    def seconds(self) -> float:
        """The part of a step, if nothing hid it."""
        return self.link_bytes / self.bytes_per_s

    @property
    def expected_step_s(self) -> Seconds | None:
        """The target's step, as if nothing of either hid behind the other."""
        if self.rest is None:
            return None
        in_rest_s = 0.0  # what fast links take is not counted twice
        if self.rest_bytes_per_s:
            in_rest_s = min(self.seconds, self.link_bytes / self.rest_bytes_per_s)
        return step_s(self.rest).plus(self.seconds - in_rest_s)


def host_links(fall: Waterfall, seen: Observed, rest_seen: Observed = NOTHING) -> HostLinks | None:
    """Return None on one host, and where rate or parameters are unknown.

    `seen` is of the target, `rest_seen` of the same trial over fast links.
    """
    axes = fall.target.axes
    rate, known_by = seen.link_bytes_per_s, "measured before the steps"
    injected = read_injected(axes.get("injected", "")).get(INJECTED_LINK)
    if not rate and injected is not None:
        rate, known_by = injected * 1e6 / 8 * PAYLOAD, "injected, headers left out"
    if not rate or not seen.num_parameters:
        return None
    phases = _phases(axes, seen.num_parameters)
    if not any(phases):
        return None
    return HostLinks(
        phases=phases,
        bytes_per_s=rate,
        known_by=known_by,
        rest=fall.ablations.found.get(Ablation.FAST_LINKS),
        rest_bytes_per_s=rest_seen.link_bytes_per_s,
    )


def link_bytes(axes: Mapping[str, Any], num_parameters: int) -> float:
    """Return the bytes that a step sends over the busiest link; 0 on one host."""
    return sum(_phases(axes, num_parameters))


def _phases(axes: Mapping[str, Any], num_parameters: int) -> tuple[float, ...]:
    if not several_hosts(axes) or not rank_jobs(axes["variable_update"]):
        return ()
    sizes = _tensor_bytes(axes, num_parameters)
    return host_link_phases(
        axes["variable_update"], axes["all_reduce"], sizes, axes["hosts"], axes["num_gpus"]
    )


def _tensor_bytes(axes: Mapping[str, Any], num_parameters: int) -> list[float]:
    """Return the bytes of each tensor; for an unknown network equal parts on each host."""
    per_element = COMPACT_BYTES if axes.get("compact_gradients") else BYTES_PER_PARAMETER
    try:
        tensors = network(str(axes["model"]), axes.get("image_px"), axes.get("num_classes")).tensors
    except ValueError:  # unknown, or of an image too small for it
        tensors = ()
    if sum(tensors) != num_parameters:
        return [per_element * num_parameters / axes["hosts"]] * axes["hosts"]
    return [float(per_element * elements) for elements in tensors]
