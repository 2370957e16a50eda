"""Probes of boxes that do not exist, and the boxes."""

from itertools import combinations, permutations

from scalemark.records.machine import Figure, GpuLink, Machine, Probe, Probed
from tests.specs import gpu

GIB = 2**30
MIB = 2**20


def box(
    num_gpus: int,
    name: str,
    num_nvlinks: int = 0,
    pcie: str = "host_bridge",
    capability: str = "8.9",
) -> Machine:
    """A machine of equal GPUs, each two linked in the same way."""
    facts = {"name": name, "memory_bytes": 24 * GIB, "compute_capability": capability}
    gpus = tuple(gpu(f"GPU-{number}", **facts) for number in range(num_gpus))
    links = tuple(
        GpuLink(between=(first.uuid, second.uuid), num_nvlinks=num_nvlinks, pcie=pcie)
        for first, second in combinations(gpus, 2)
    )
    return Machine(
        host="box",
        cpu="a CPU",
        num_cores=64,
        memory_bytes=256 * GIB,
        gpus=gpus,
        driver="570",
        links=links,
    )


def figures(num_gpus: int, pair: float, bus: float) -> tuple[Figure, ...]:
    """What a box of GPUs reaches whose PCIe carries 25 GB/s; the last GPU is slower than others."""
    found = []
    for number in range(num_gpus):
        peak = 150e12 if number < num_gpus - 1 else 140e12
        found += [
            Figure(what=Probed.PEAK, value=peak, precision="bf16", source=number),
            Figure(what=Probed.PEAK, value=peak / 2, precision="fp32", source=number),
            Figure(what=Probed.TO_DEVICE, value=25e9, target=number, num_bytes=2048 * MIB),
            Figure(what=Probed.TO_HOST, value=26e9, source=number, num_bytes=2048 * MIB),
        ]
    for source, target in permutations(range(num_gpus), 2):
        found.append(
            Figure(what=Probed.PAIR, value=pair, source=source, target=target, num_bytes=2048 * MIB)
        )
    if num_gpus > 1:
        found += [
            Figure(what=Probed.ALL_REDUCE, value=bus / 10, num_bytes=64 * 1024),
            Figure(what=Probed.ALL_REDUCE, value=bus, num_bytes=256 * MIB),
        ]
    return tuple(found)


def probe_of(machine: Machine, found: tuple[Figure, ...], doubts: tuple[str, ...] = ()) -> Probe:
    return Probe(
        machine=machine.key,
        host=machine.host,
        device_kind="gpu",
        devices=tuple(gpu.name for gpu in machine.gpus),
        uuids=tuple(gpu.uuid for gpu in machine.gpus),
        measured_at="2026-11-25T12:00:00.000000+00:00",
        all_reduce="nccl",
        figures=found,
        doubts=doubts,
    )
