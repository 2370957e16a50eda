"""Makes a hardware profile of a probe: the box as the cost model knows it, with its sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from costs.hardware import Hardware
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Gpu, GpuLink, Machine, PcieLevel
from scalemark.records.probe import Probe, Probed
from sweeper.devices.gpu_kinds import CHOOSE_ONE, several_kinds
from sweeper.errors import SweepRefusedError

_GIB = 2**30
_GIGA = 1e9
_BELOW_ONE_SWITCH = (PcieLevel.SAME_BOARD, PcieLevel.SINGLE_SWITCH, PcieLevel.MULTIPLE_SWITCHES)
_DIRECT = 0.75  # of PCIe's rate; a copy by way of the host's memory reaches about half
_READ = 2 / 3  # of the bytes that a sum in place moves
_HOP_US = {True: 3.4, False: 5.7}  # with NVLink, without
_HOP_SOURCE = "NCCL src/graph/tuning.cc at 5067397c, ring, Simple"
_DRIVER = "as the driver reports it"

_Sourced = tuple[str, Any, str]  # field, value, where it comes from


@dataclass(frozen=True, slots=True, kw_only=True)
class _Box:
    """The GPUs that were probed, and the links between them."""

    probe: Probe
    machine: Machine
    gpus: tuple[Gpu, ...]
    links: tuple[GpuLink, ...]

    @property
    def measured(self) -> str:
        return f"measured by scalemark probe, {self.probe.measured_at[:10]}"

    def pair_rates(self, *levels: PcieLevel) -> list[float]:
        """Return the rates of the pairs without NVLink at these levels; of all where none named."""
        numbers = {gpu.uuid: number for number, gpu in enumerate(self.gpus)}
        wanted = set()
        for link in self.links:
            if not link.num_nvlinks and (not levels or link.pcie in levels):
                wanted.add(frozenset(numbers[uuid] for uuid in link.between))
        found = []
        for figure in self.probe.of(Probed.PAIR):
            if frozenset({figure.source, figure.target}) in wanted and figure.value:
                found.append(figure.value)
        return found


def profile_of(name: str, probe: Probe, machine: Machine) -> Hardware:
    """Raises SweepRefusedError for what is no box of GPUs, or was not measured as far as needed."""
    if probe.kind is not DeviceKind.GPU:
        raise SweepRefusedError(
            f"--profile {name}: a hardware profile describes GPUs, and these are "
            f"{probe.kind.plural}; leave --profile out"
        )
    gpus = tuple(_gpu(machine, uuid) for uuid in probe.uuids)
    check_one_kind(name, gpus)
    uuids = set(probe.uuids)
    links = tuple(link for link in machine.links if uuids.issuperset(link.between))
    box = _Box(probe=probe, machine=machine, gpus=gpus, links=links)
    values: dict[str, Any] = {"name": name}
    sources = {}
    for field, value, source in _fields(box):
        if value is None:
            raise SweepRefusedError(
                f"--profile {name}: {field} was not measured ({'; '.join(probe.problems)}); mend "
                "that, and probe again"
            )
        values[field] = value
        sources[field] = source
    return Hardware.from_values(values | {"sources": sources})


def check_one_kind(name: str, gpus: Iterable[Gpu]) -> None:
    """Raises SweepRefusedError."""
    if kinds := several_kinds(gpus):
        raise SweepRefusedError(
            f"--profile {name}: a profile describes equal GPUs, found {kinds}; {CHOOSE_ONE}"
        )


def yaml_of(hardware: Hardware) -> str:
    """Write a file as those of conf/hardware/, with the figures that have a source."""
    values: dict[str, Any] = {"name": hardware.name}
    for field in hardware.sources:
        value = getattr(hardware, field)
        values[field] = dict(value) if isinstance(value, Mapping) else value
    values["sources"] = dict(hardware.sources)
    content = {"device_kind": str(DeviceKind.SIMULATED_GPU), "profile": values}
    comment = f"# {hardware.num_gpus} x {hardware.gpu}, as scalemark probe measured them.\n"
    return comment + yaml.safe_dump(content, sort_keys=False, width=1000, allow_unicode=True)


def _gpu(machine: Machine, uuid: str) -> Gpu:
    everyone = [one for gpu in machine.gpus for one in (gpu, *gpu.mig_devices)]
    return next(gpu for gpu in everyone if gpu.uuid == uuid)


def _fields(box: _Box) -> Iterator[_Sourced]:
    """Yield each figure; None where it was not measured."""
    gpu, machine = box.gpus[0], box.machine
    yield "gpu", gpu.name, _DRIVER
    yield "num_gpus", len(box.gpus), "as many as were probed"
    yield "memory_gib", round((gpu.memory_bytes or 0) / _GIB, 2) or None, _DRIVER
    yield "compute_capability", gpu.compute_capability, _DRIVER
    yield "tflops", _peaks(box) or None, f"{box.measured}: the least of the GPUs"
    owned = [one.value for one in box.probe.of(Probed.MEMORY) if one.source is not None]
    yield "memory_gb_per_s", _gb(min(filter(None, owned), default=None)), box.measured
    pcie = min(filter(None, map(box.probe.least, (Probed.TO_DEVICE, Probed.TO_HOST))), default=None)
    yield "pcie_gb_per_s", _gb(pcie), f"{box.measured}: the slower way of the slowest GPU"
    yield "gpus_per_switch", _gpus_per_switch(box), _DRIVER
    yield from _peer_to_peer(box, pcie)
    yield from _sockets(box)
    yield from _nvlink(box)
    host = [one.value for one in box.probe.of(Probed.MEMORY) if one.source is None]
    host_rate = next(filter(None, host), None)
    yield "host_memory_gb_per_s", _gb(host_rate), box.measured
    read = _READ * host_rate if host_rate else None
    yield "host_sum_gb_per_s", _gb(read), f"{box.measured}: what a sum in the host's memory reads"
    yield "num_cores", machine.num_cores, "as the kernel counts them, threads of a core included"
    yield "host_memory_gib", round(machine.memory_bytes / _GIB, 1), "as the kernel reports it"
    if gpu.power_limit_w is not None:
        yield "power_w", gpu.power_limit_w, f"{_DRIVER}: its limit"


def _peaks(box: _Box) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in box.probe.of(Probed.PEAK):
        assert one.value is not None
        tera = float(f"{one.value / 1e12:.4g}")
        found[one.precision] = min(tera, found.get(one.precision, tera))
    return found


def _gpus_per_switch(box: _Box) -> int:
    below: Counter[str] = Counter()
    for link in box.links:
        if link.pcie in _BELOW_ONE_SWITCH:
            below.update(link.between)
    return 1 + max(below.values(), default=0)


def _peer_to_peer(box: _Box, pcie: float | None) -> Iterator[_Sourced]:
    """Tell copies between two GPUs from those by way of the host by their rate, where no NVLink is
    in between.
    """
    near = box.pair_rates(*(level for level in PcieLevel if level is not PcieLevel.SYSTEM))
    if near and pcie and max(near) < _DIRECT * pcie:
        reached = f"copies between GPUs reach {max(near) / pcie:.0%} of those to the host"
        yield "peer_to_peer", False, f"{box.measured}: {reached}"


def _sockets(box: _Box) -> Iterator[_Sourced]:
    nodes = {gpu.numa_node for gpu in box.gpus if gpu.numa_node is not None}
    yield "num_sockets", max(1, len(nodes)), f"{_DRIVER}: NUMA nodes of the GPUs"
    across = box.pair_rates(PcieLevel.SYSTEM)
    if across:
        yield "socket_gb_per_s", _gb(min(across)), f"{box.measured}: a pair across it"


def _nvlink(box: _Box) -> Iterator[_Sourced]:
    """Yield the links of a box in which every GPU has some, by the bus bandwidth of all."""
    partners: Counter[str] = Counter()
    for link in box.links:
        if link.num_nvlinks:
            partners.update(link.between)
    num = len(box.gpus)
    has_nvlink = len(partners) == num and num > 1
    yield "hop_us", _HOP_US[has_nvlink], _HOP_SOURCE
    if not has_nvlink:
        return
    fewest = min(partners.values())
    # of two cliques each GPU has a partner in the other one
    clique = fewest + 1 if fewest in (1, num - 1) else fewest
    pairs = [one.value for one in box.probe.of(Probed.PAIR) if one.value]
    rate = max(pairs, default=None) if fewest == 1 < num - 1 else box.probe.bus_bytes_per_s
    yield "nvlink_gb_per_s", _gb(rate), f"{box.measured}: the bus bandwidth of a reduction"
    yield "nvlink_clique", clique, _DRIVER


def _gb(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else float(f"{bytes_per_s / _GIGA:.4g}")
