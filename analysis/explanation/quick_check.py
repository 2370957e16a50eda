"""The performance guide's quick check: reducing gradients takes about parameters x 4 bytes /
bandwidth.

"Optimize TensorFlow GPU performance with the TensorFlow Profiler", section "Optimize gradient
AllReduce"; gradients are sent in fp32 whatever the precision.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.explanation.rungs import several_hosts
from analysis.results import Result
from costs.hardware import Hardware
from costs.networks import UnknownNetworkError, network

BYTES_PER_PARAMETER = 4
PCIE_GB_PER_S = 12.0  # NCCL's own figure of PCIe 3.0 x16: what a GPU has at least


@dataclass(frozen=True, slots=True)
class _Generation:
    """Of NVLinks."""

    gb_per_s: float  # of one, of NCCL (src/graph/tuning.cc)
    per_gpu: int  # that a GPU has at most


_NVLINKS = {
    "6": _Generation(18.0, 4),
    "7": _Generation(20.0, 6),
    "8": _Generation(20.0, 12),
    "9": _Generation(20.6, 18),
    "10": _Generation(40.1, 18),
}
"""By the first number of the compute capability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """Of the links that gradients take, one direction."""

    gb_per_s: float
    told_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickCheck:
    """What the guide expects of one reduction."""

    num_parameters: int
    bandwidth: Bandwidth

    @property
    def seconds(self) -> float:
        return self.num_parameters * BYTES_PER_PARAMETER / (self.bandwidth.gb_per_s * 1e9)


def quick_check(
    target: Result, num_parameters: int | None, bandwidth: Bandwidth | None
) -> QuickCheck | None:
    """None on one replica, where parameters or bandwidth are not known, and between hosts: see
    `host_links` there.
    """
    known = num_parameters or _counted(target)
    if target.num_gpus == 1 or several_hosts(target.axes) or not known or bandwidth is None:
        return None
    return QuickCheck(num_parameters=known, bandwidth=bandwidth)


def _counted(target: Result) -> int | None:
    """By the layers of its network, where nobody measured."""
    try:
        return network(str(target.axes["model"]).rstrip("?")).num_parameters
    except UnknownNetworkError:
        return None


def of_profile(hardware_profile: str) -> Bandwidth:
    """Of simulated hardware, by its canonical JSON."""
    hardware = Hardware.from_json(hardware_profile)
    nvlink = None
    if hardware.nvlink_gb_per_s and not hardware.is_bridged:
        nvlink = Bandwidth(gb_per_s=hardware.nvlink_gb_per_s, told_by=f"{hardware.name}: NVLink")
    return _of_ring(
        nvlink, Bandwidth(gb_per_s=hardware.pcie_gb_per_s, told_by=f"{hardware.name}: PCIe")
    )


def of_links(links: Sequence[Mapping[str, Any]], compute_capability: str) -> Bandwidth | None:
    """Of a machine's GPUs, by `store.reading.provenance.links`; None without links."""
    if not links:
        return None
    return _of_ring(
        _nvlink(links, compute_capability),
        Bandwidth(gb_per_s=PCIE_GB_PER_S, told_by="PCIe 3.0 x16, at least"),
    )


def _of_ring(nvlink: Bandwidth | None, pcie: Bandwidth) -> Bandwidth:
    """Through all GPUs of the box: over all NVLinks of a GPU where they reach everywhere, as the
    cost model and NCCL have it.
    """
    return nvlink or pcie


def _nvlink(links: Sequence[Mapping[str, Any]], compute_capability: str) -> Bandwidth | None:
    """Of the GPU with the fewest; None where NVLinks alone do not reach all GPUs, or their rate is
    not known.
    """
    generation = _NVLINKS.get(re.sub(r"\..*", "", compute_capability))
    if generation is None or not _reaches_all(links):
        return None
    num_nvlinks: Counter[str] = Counter()
    for link in links:
        num_nvlinks.update(
            {link["first_uuid"]: link["num_nvlinks"], link["second_uuid"]: link["num_nvlinks"]}
        )
    # those to a switch are told once for each GPU behind it
    fewest = min(*num_nvlinks.values(), generation.per_gpu)
    return Bandwidth(
        gb_per_s=fewest * generation.gb_per_s,
        told_by=f"{fewest} NVLinks of {generation.gb_per_s:g} GB/s",
    )


def _reaches_all(links: Sequence[Mapping[str, Any]]) -> bool:
    gpus = {link[end] for link in links for end in _ENDS}
    reached = {links[0]["first_uuid"]}
    for _ in gpus:
        near = (
            link
            for link in links
            if link["num_nvlinks"] and reached.intersection(link[end] for end in _ENDS)
        )
        reached |= {link[end] for link in list(near) for end in _ENDS}
    return reached == gpus


_ENDS = ("first_uuid", "second_uuid")
