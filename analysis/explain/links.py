"""What explanations take from the cost model: bytes that are sent, links, kernels and memory.

The quick check is of "Optimize TensorFlow GPU performance with the TensorFlow Profiler", section
"Optimize gradient AllReduce": a reduction takes about parameters x 4 bytes / bandwidth. It is one
ring without latencies; a parameter server sends more, and small tensors take their time one by one,
so that the cost model says what the target's own strategy may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from analysis.explain.ablations import several_hosts
from analysis.explain.observed import Observed
from analysis.explain.waterfall import ms
from analysis.known_boxes import known_box
from analysis.reported_work import is_known, work_of
from analysis.results import Result
from scalemark.records.machine import Probe
from scalemark.records.trial import STRATEGY_COLUMNS
from simulator.costs.box import profile
from simulator.costs.networks import Network, network

BYTES_PER_PARAMETER = 4  # gradients are sent in fp32 whatever the precision
COMPACT_BYTES = 2  # of one, with compact_gradients
LAUNCH_S = 40e-6  # of one kernel, from the host's queue to its start: 20 to 40 us in the guide
COMPUTED_AGAIN = 4 / 3  # of the operations, where the forward pass is computed twice

# times its own cost: published figures on synthetic data lost up to 3 times as much, K80 boards 4
WAY_EXPLAINS = 4.0
# times the quick check, where that is more: VGG16 on a DGX-1 lost 12 times the check in 2017
CHECK_EXPLAINS = 20.0
# of the time that the bytes take at the full rate: no step is so much shorter
TOO_SHORT = 0.5
_SLOWEST_BOX = "k80_8"  # of the profiles, for a box that none describes


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
    check_s: float  # the bytes over the rate: the quick check
    seconds: float | None  # of a step, by its own strategy if nothing hid it; None: unknown

    @property
    def at_most_s(self) -> float | None:
        """The most that the links explain, however badly they are used."""
        if self.seconds is None:
            return None
        return max(WAY_EXPLAINS * self.seconds, CHECK_EXPLAINS * self.check_s)

    def contradict(self, lost_s: float, of_step_s: float) -> str:
        """Return why communication cannot be all that was lost; empty where it can."""
        at_most_s = self.at_most_s
        if at_most_s is None or self.seconds is None:
            return ""
        if lost_s > at_most_s:
            return (
                f"the links would take {ms(self.seconds)} of these {ms(lost_s)}, and do not "
                "explain the rest"
            )
        if of_step_s < TOO_SHORT * self.sent_bytes / self.bytes_per_s:
            return (
                f"{self.sent_bytes / 1e6:.3g} MB in a step of {ms(of_step_s)} are more than the "
                f"{self.bytes_per_s / 1e9:.3g} GB/s of the links"
            )
        return ""


def links_of(target: Result, seen: Observed, bandwidth: Bandwidth | None) -> Links | None:
    """Return the links within the target's host; None where rate or bytes are unknown, and of
    several hosts.
    """
    sent = gradient_bytes(target.axes, seen.num_parameters)
    is_one = target.num_gpus == 1 or several_hosts(target.axes)
    if is_one or sent is None or bandwidth is None:
        return None
    whole = sent / _bytes_per_element(target.axes) * BYTES_PER_PARAMETER
    rate = bandwidth.gb_per_s * 1e9
    return Links(
        sent_bytes=sent,
        bytes_per_s=rate,
        known_by=bandwidth.known_by,
        check_s=whole / rate,
        seconds=_communication_s(target),
    )


def gradient_bytes(axes: Mapping[str, Any], num_parameters: int | None = None) -> float | None:
    """Return the bytes of the gradients of one replica, sent once; None for an unknown network."""
    if num_parameters is None:
        counted = _network(axes)
        if counted is None:
            return None
        num_parameters = counted.num_parameters
    return float(_bytes_per_element(axes) * num_parameters)


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
    if box.nvlink_gb_per_s and not box.is_bridged:
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


def _communication_s(target: Result) -> float | None:
    """Return what the target's own strategy sends; the most of all strategies where it is not
    reported, in a slow box where no profile describes its own.
    """
    from simulator.costs.step import costs  # here, because it imports numpy

    box = known_box(target.environment, target.num_gpus)
    if box is None:
        slow = profile(_SLOWEST_BOX)
        box = replace(slow, num_gpus=max(slow.num_gpus, target.num_gpus))
    seconds: list[float] = []
    try:
        own = work_of(target)
        strategies = list(STRATEGY_COLUMNS)
        if is_known(target.axes):
            strategies = [(own.variable_update, own.local_parameter_device, own.all_reduce)]
        for update, device, all_reduce in strategies:
            # Gradients are fp32 whatever the precision, which a box need not have.
            work = replace(
                own,
                precision="fp32",
                variable_update=update,
                local_parameter_device=device,
                all_reduce=all_reduce,
            )
            seconds.append(costs(work, box).communication_s)
    except ValueError:  # a model, strategy or link that the cost model does not know
        pass
    return max(seconds, default=None)


def _bytes_per_element(axes: Mapping[str, Any]) -> int:
    if axes.get("compact_gradients"):
        return COMPACT_BYTES
    return BYTES_PER_PARAMETER


def _network(axes: Mapping[str, Any]) -> Network | None:
    name = str(axes["model"]).rstrip("?")
    try:
        return network(name, axes.get("image_px"), axes.get("num_classes"), axes.get("seq_len"))
    except ValueError:  # unknown, or of a size that it does not take
        return None
