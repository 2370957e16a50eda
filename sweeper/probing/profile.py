"""Makes a hardware profile of a probe: the box as the cost model knows it, with its sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from costs.hardware import Hardware
from costs.probed_links import DRIVER, ProbedLinks, Sourced, gb
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Gpu, Machine
from scalemark.records.probe import Probe, Probed
from sweeper.devices.gpu_kinds import CHOOSE_ONE, several_kinds
from sweeper.errors import SweepRefusedError

_GIB = 2**30


def profile_of(name: str, probe: Probe, machine: Machine) -> Hardware:
    """Raises SweepRefusedError for what is no box of GPUs, or was not measured as far as needed."""
    if probe.kind is not DeviceKind.GPU:
        raise SweepRefusedError(
            f"--profile {name}: a hardware profile describes GPUs, and these are "
            f"{probe.kind.plural}; leave --profile out"
        )
    gpus = tuple(_gpu(machine, uuid) for uuid in probe.uuids)
    check_one_kind(name, gpus)
    values: dict[str, Any] = {"name": name}
    sources = {}
    for field, value, source in _fields(probe, machine, gpus):
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


def _fields(probe: Probe, machine: Machine, gpus: Sequence[Gpu]) -> Iterator[Sourced]:
    """Yield each figure; None where it was not measured."""
    gpu, numa_nodes = gpus[0], {gpu.uuid: gpu.numa_node for gpu in gpus}
    links = ProbedLinks(probe=probe, links=machine.links, numa_nodes=numa_nodes)
    yield "gpu", gpu.name, DRIVER
    yield "num_gpus", len(gpus), "as many as were probed"
    yield "memory_gib", round((gpu.memory_bytes or 0) / _GIB, 2) or None, DRIVER
    yield "compute_capability", gpu.compute_capability, DRIVER
    yield "tflops", _peaks(probe) or None, f"{links.measured}: the least of the GPUs"
    owned = [one.value for one in probe.of(Probed.MEMORY) if one.source is not None]
    yield "memory_gb_per_s", gb(min(filter(None, owned), default=None)), links.measured
    yield from links.fields()
    yield "num_cores", machine.num_cores, "as the kernel counts them, threads of a core included"
    yield "host_memory_gib", round(machine.memory_bytes / _GIB, 1), "as the kernel reports it"
    if gpu.power_limit_w is not None:
        yield "power_w", gpu.power_limit_w, f"{DRIVER}: its limit"


def _peaks(probe: Probe) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in probe.of(Probed.PEAK):
        assert one.value is not None
        tera = float(f"{one.value / 1e12:.4g}")
        found[one.precision] = min(tera, found.get(one.precision, tera))
    return found
