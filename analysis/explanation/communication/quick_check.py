"""The performance guide's quick check: a reduction takes about parameters x 4 bytes / bandwidth.

"Optimize TensorFlow GPU performance with the TensorFlow Profiler", section "Optimize gradient
AllReduce"; gradients are sent in fp32 whatever the precision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.explanation.ablations import several_hosts
from analysis.known_boxes import known_box
from analysis.reported_hosts import hosts_of
from analysis.results import Result
from scalemark.records.probe import Probe
from simulator.costs.box import Hardware
from simulator.costs.networks import UnknownNetworkError, network

BYTES_PER_PARAMETER = 4
PCIE_GB_PER_S = 12.0  # NCCL's own figure of PCIe 3.0 x16: what a GPU has at least

_NVLINKS = {
    "6": (18.0, 4),
    "7": (20.0, 6),
    "8": (20.0, 12),
    "9": (20.6, 18),
    "10": (40.1, 18),
}
"""Major compute capability -> GB/s of one NVLink by NCCL (src/graph/tuning.cc), most per GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """The rate of the links that gradients take, one direction."""

    gb_per_s: float
    known_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickCheck:
    """The guide's expectation of one reduction."""

    num_parameters: int
    bandwidth: Bandwidth

    @property
    def seconds(self) -> float:
        return self.num_parameters * BYTES_PER_PARAMETER / (self.bandwidth.gb_per_s * 1e9)


def quick_check(
    target: Result, num_parameters: int | None, bandwidth: Bandwidth | None
) -> QuickCheck | None:
    """Return None on one replica, between hosts, and where parameters or bandwidth are unknown."""
    known = num_parameters or _counted(target)
    if target.num_gpus == 1 or several_hosts(target.axes) or not known or bandwidth is None:
        return None
    return QuickCheck(num_parameters=known, bandwidth=bandwidth)


def _counted(target: Result) -> int | None:
    """Count the parameters of its network, where they were not measured."""
    try:
        return network(str(target.axes["model"]).rstrip("?")).num_parameters
    except UnknownNetworkError:
        return None


def of_profile(hardware_profile: str) -> Bandwidth:
    """Return the bandwidth of simulated hardware, given as canonical JSON."""
    box = Hardware.from_json(hardware_profile)
    if box.nvlink_gb_per_s and not box.is_bridged:
        return Bandwidth(gb_per_s=box.nvlink_gb_per_s, known_by=f"{box.name}: NVLink")
    return Bandwidth(gb_per_s=box.pcie_gb_per_s, known_by=f"{box.name}: PCIe")


def of_known_box(figure: Result) -> Bandwidth | None:
    """Return the bandwidth of the box of a figure of others; None of one without a profile."""
    box = known_box(figure.environment, figure.num_gpus)
    if box is None or hosts_of(figure.environment.machine, figure.num_gpus) != 1:
        return None
    return of_profile(box.to_json())


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


def of_links(links: Sequence[Mapping[str, Any]], compute_capability: str) -> Bandwidth | None:
    """Return the bandwidth of a ring through all GPUs of a machine; None without links.

    `links` as `store.reading.provenance.links` has them. A ring uses all NVLinks of a GPU where
    they reach everywhere, as the cost model and NCCL have it, and else PCIe.
    """
    if not links:
        return None
    generation = _NVLINKS.get(compute_capability.partition(".")[0])
    if generation is None or not _reaches_all(links):
        return Bandwidth(gb_per_s=PCIE_GB_PER_S, known_by="PCIe 3.0 x16, at least")
    gb_per_s, most = generation
    per_gpu: Counter[str] = Counter()
    for link in links:
        for end in _ENDS:
            per_gpu[link[end]] += link["num_nvlinks"]
    # The links to a switch are listed once for each GPU behind it.
    fewest = min(*per_gpu.values(), most)
    return Bandwidth(gb_per_s=fewest * gb_per_s, known_by=f"{fewest} NVLinks of {gb_per_s:g} GB/s")


_ENDS = ("first_uuid", "second_uuid")


def _reaches_all(links: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether NVLinks alone lead from any GPU to all others."""
    gpus = {link[end] for link in links for end in _ENDS}
    reached = {links[0]["first_uuid"]}
    for _ in gpus:  # after as many rounds as there are GPUs the farthest is reached
        for link in links:
            ends = {link[end] for end in _ENDS}
            if link["num_nvlinks"] and ends & reached:
                reached |= ends
    return reached == gpus
