"""The links of a box as a probe measured them: fields of `Hardware`, each with its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scalemark.records.machine import GpuLink, PcieLevel
from scalemark.records.probe import Probe, Probed

DRIVER = "as the driver reports it"

Sourced = tuple[str, Any, str]
"""A field, its value, None where it was not measured, and where it comes from."""

_BELOW_ONE_SWITCH = (PcieLevel.SAME_BOARD, PcieLevel.SINGLE_SWITCH, PcieLevel.MULTIPLE_SWITCHES)
_DIRECT = 0.75  # of PCIe's rate; a copy by way of the host's memory reaches about half
_BEYOND = 1.5  # times PCIe's rate: no copy by way of PCIe is so fast
_READ = 2 / 3  # of the bytes that a sum in place moves
_HOP_US = {True: 3.4, False: 5.7}  # with NVLink, without
_HOP_SOURCE = "NCCL src/graph/tuning.cc at 5067397c, ring, Simple"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedLinks:
    """A probe of GPUs, and what the driver says of the links between these."""

    probe: Probe
    links: Sequence[GpuLink]  # those of GPUs that were not probed tell nothing
    numa_nodes: Mapping[str, int | None]  # of each GPU, by UUID

    @property
    def measured(self) -> str:
        return f"measured by scalemark probe, {self.probe.measured_at[:10]}"

    def fields(self) -> Iterator[Sourced]:
        """Yield each figure of a link."""
        pcie = self._pcie
        yield "pcie_gb_per_s", gb(pcie), f"{self.measured}: the slower way of the slowest GPU"
        yield "gpus_per_switch", self._gpus_per_switch(), DRIVER
        yield from self._peer_to_peer(pcie)
        yield from self._sockets()
        yield from self._nvlink()
        host = [one.value for one in self.probe.of(Probed.MEMORY) if one.source is None]
        host_rate = next(filter(None, host), None)
        yield "host_memory_gb_per_s", gb(host_rate), self.measured
        read = _READ * host_rate if host_rate else None
        yield (
            "host_sum_gb_per_s",
            gb(read),
            f"{self.measured}: what a sum in the host's memory reads",
        )

    @property
    def has_nvlinks(self) -> bool:
        return any(link.num_nvlinks for link in self._between_probed())

    @property
    def _pcie(self) -> float | None:
        """The slower way between the host and the slowest GPU, in bytes/s."""
        rates = map(self.probe.least, (Probed.TO_DEVICE, Probed.TO_HOST))
        return min(filter(None, rates), default=None)

    def _between_probed(self) -> list[GpuLink]:
        """Return the links between GPUs that were probed.

        In virtual machines the driver counts no NVLinks: what is faster than PCIe is one.
        """
        uuids, pcie = set(self.probe.uuids), self._pcie
        found = []
        for link in self.links:
            if not uuids.issuperset(link.between):
                continue
            slower = min(self._rates(link), default=None)
            if not link.num_nvlinks and slower and pcie and slower > _BEYOND * pcie:
                link = replace(link, num_nvlinks=1)
            found.append(link)
        return found

    def _rates(self, link: GpuLink) -> list[float]:
        """Return those of a pair that were probed, both ways, in bytes/s."""
        pair = {self.probe.uuids.index(uuid) for uuid in link.between}
        found = []
        for figure in self.probe.of(Probed.PAIR):
            if {figure.source, figure.target} == pair and figure.value:
                found.append(figure.value)
        return found

    def _pair_rates(self, *levels: PcieLevel) -> list[float]:
        """Return the rates of the pairs without NVLink at these levels."""
        found: list[float] = []
        for link in self._between_probed():
            if not link.num_nvlinks and link.pcie in levels:
                found += self._rates(link)
        return found

    def _gpus_per_switch(self) -> int:
        below: Counter[str] = Counter()
        for link in self._between_probed():
            if link.pcie in _BELOW_ONE_SWITCH:
                below.update(link.between)
        return 1 + max(below.values(), default=0)

    def _peer_to_peer(self, pcie: float | None) -> Iterator[Sourced]:
        """Tell copies between two GPUs from those by way of the host by their rate, where no NVLink
        is in between.
        """
        near = self._pair_rates(*(level for level in PcieLevel if level is not PcieLevel.SYSTEM))
        if near and pcie:
            reached = f"copies between GPUs reach {max(near) / pcie:.0%} of those to the host"
            yield "peer_to_peer", max(near) >= _DIRECT * pcie, f"{self.measured}: {reached}"

    def _sockets(self) -> Iterator[Sourced]:
        nodes = {self.numa_nodes[uuid] for uuid in self.probe.uuids} - {None}
        yield "num_sockets", max(1, len(nodes)), f"{DRIVER}: NUMA nodes of the GPUs"
        across = self._pair_rates(PcieLevel.SYSTEM)
        if across:
            yield "socket_gb_per_s", gb(min(across)), f"{self.measured}: a pair across it"

    def _nvlink(self) -> Iterator[Sourced]:
        """Yield the links of a box in which every GPU has some, by the bus bandwidth of all."""
        partners: Counter[str] = Counter()
        for link in self._between_probed():
            if link.num_nvlinks:
                partners.update(link.between)
        num = len(self.probe.uuids)
        has_nvlink = len(partners) == num and num > 1
        yield "hop_us", _HOP_US[has_nvlink], _HOP_SOURCE
        if not has_nvlink:
            return
        fewest = min(partners.values())
        # of two cliques each GPU has a partner in the other one
        clique = fewest + 1 if fewest in (1, num - 1) else fewest
        pairs = [one.value for one in self.probe.of(Probed.PAIR) if one.value]
        rate = max(pairs, default=None) if fewest == 1 < num - 1 else self.probe.bus_bytes_per_s
        yield "nvlink_gb_per_s", gb(rate), f"{self.measured}: the bus bandwidth of a reduction"
        yield "nvlink_clique", clique, DRIVER


def gb(bytes_per_s: float | None) -> float | None:
    """Return GB/s with four digits."""
    return None if bytes_per_s is None else float(f"{bytes_per_s / 1e9:.4g}")
