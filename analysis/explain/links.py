"""Says what the cost model knows of a target: bytes that are sent, links, and kernels.

The quick check is of "Optimize TensorFlow GPU performance with the TensorFlow Profiler", section
"Optimize gradient AllReduce": a reduction takes about parameters x 4 bytes / bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.explain.ablations import several_hosts
from analysis.explain.observed import Observed
from analysis.explain.waterfall import ms
from analysis.known_boxes import known_box
from analysis.results import Result
from scalemark.records.machine import Probe
from simulator.costs.networks import Network, network

BYTES_PER_PARAMETER = 4  # gradients are sent in fp32 whatever the precision
COMPACT_BYTES = 2  # of one, with compact_gradients
LAUNCH_S = 40e-6  # of one kernel, from the host's queue to its start: 20 to 40 us in the guide
COMPUTED_AGAIN = 4 / 3  # of the operations, where the forward pass is computed twice
# times the quick check: parameter servers on a DGX-1, the worst of all published figures, lost 146
LINKS_EXPLAIN = 150.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """The rate of the links that gradients take within a host, one direction."""

    gb_per_s: float
    known_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What the links within a host can carry of the gradients of one target."""

    sent_bytes: float  # gradients of one replica
    bytes_per_s: float
    known_by: str  # how the rate is known
    check_s: float  # fp32 gradients over the rate: the quick check

    def deny(self, lost_s: float) -> str:
        """Return why communication cannot be all that was lost; empty where it can."""
        if lost_s <= LINKS_EXPLAIN * self.check_s:
            return ""
        return f"its links take {ms(self.check_s)} for its gradients, and do not explain the rest"


def links_of(target: Result, seen: Observed, bandwidth: Bandwidth | None) -> Links | None:
    """Return the links within the target's host; None where rate or bytes are unknown, and of
    several hosts.
    """
    is_one = target.num_gpus == 1 or several_hosts(target.axes)
    counted = _network(target.axes)
    num_parameters = seen.num_parameters or (counted.num_parameters if counted else None)
    if is_one or num_parameters is None or bandwidth is None:
        return None
    each = COMPACT_BYTES if target.axes.get("compact_gradients") else BYTES_PER_PARAMETER
    rate = bandwidth.gb_per_s * 1e9
    return Links(
        sent_bytes=float(each * num_parameters),
        bytes_per_s=rate,
        known_by=bandwidth.known_by,
        check_s=BYTES_PER_PARAMETER * num_parameters / rate,
    )


def kernels_s(axes: Mapping[str, Any]) -> float | None:
    """Return the launches of a step, if each waited as long as the performance guide saw it."""
    counted = _network(axes)
    if counted is None:
        return None
    num_kernels = counted.num_operations * (axes.get("gradient_accumulation") or 1)
    return LAUNCH_S * num_kernels * (COMPUTED_AGAIN if axes.get("recompute") else 1)


def of_box(result: Result) -> Bandwidth | None:
    """Return the bandwidth of the box by its hardware profile; None of a box without one."""
    place = result.environment
    box = known_box(place, result.num_gpus)
    is_one_host = place.origin.is_ours or result.is_on_one_host
    if box is None or not is_one_host:
        return None
    if box.nvlink_gb_per_s:
        return Bandwidth(gb_per_s=box.nvlink_gb_per_s, known_by=f"{box.name}: NVLink")
    return Bandwidth(gb_per_s=box.pcie_gb_per_s, known_by=f"{box.name}: PCIe")


def of_probe(probe: Probe | None, num_gpus: int) -> Bandwidth | None:
    """Return what a reduction over the GPUs of a machine was measured to reach; None where that was
    over fewer GPUs, or others used them meanwhile.
    """
    if probe is None or probe.doubts or len(probe.devices) < num_gpus:
        return None
    if probe.bus_bytes_per_s is None:
        return None
    known_by = f"measured by scalemark probe, {probe.measured_at[:10]}"
    return Bandwidth(gb_per_s=float(f"{probe.bus_bytes_per_s / 1e9:.3g}"), known_by=known_by)


def _network(axes: Mapping[str, Any]) -> Network | None:
    name = str(axes["model"]).rstrip("?")
    try:
        return network(name, axes.get("image_px"), axes.get("num_classes"), axes.get("seq_len"))
    except ValueError:  # unknown, or of a size that it does not take
        return None
