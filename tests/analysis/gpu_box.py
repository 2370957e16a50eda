"""A machine with GPUs, and trials on it: numbers are given, no GPU is touched."""

from collections.abc import Sequence
from dataclasses import replace

from scalemark.records.machine import DeviceKind, Gpu, Machine
from scalemark.records.trial import TrialSpec
from tests.filled import MACHINE, fill
from tests.specs import small

GPU_BOX: Machine = replace(
    MACHINE,
    host="gpubox",
    driver="535.1",
    gpus=tuple(
        Gpu(
            uuid=f"GPU-{number}",
            name="Testla",
            memory_bytes=16 * 2**30,
            pci_bus_id=f"00000000:0{number}:00.0",
            compute_capability="7.0",
            power_limit_w=300.0,
        )
        for number in range(8)
    ),
)
PS = {"variable_update": "parameter_server", "local_parameter_device": "cpu", "all_reduce": "none"}
NCCL = {"variable_update": "replicated", "local_parameter_device": "gpu", "all_reduce": "nccl"}


def on_gpus(num_gpus: int = 1, **changes: object) -> TrialSpec:
    """Of trivial, replicated_none."""
    return small(**{"num_gpus": num_gpus, "device_kind": DeviceKind.GPU} | changes)


def repeated(spec: TrialSpec, *throughput: float | None) -> list[tuple[TrialSpec, float | None]]:
    return [(spec, value) for value in throughput]


def around(spec: TrialSpec, throughput: float) -> list[tuple[TrialSpec, float | None]]:
    """Three processes, 0.5 % apart."""
    return repeated(spec, *(throughput * share for share in (0.995, 1.0, 1.005)))


def curve(values: Sequence[float], **changes: object) -> list[tuple[TrialSpec, float | None]]:
    """On 1, 2, 4, 8 GPUs, three processes each."""
    return [
        pair
        for num, value in zip((1, 2, 4, 8), values, strict=False)
        for pair in around(on_gpus(num, **changes), value)
    ]


def fill_gpus(results: Sequence[tuple[TrialSpec, float | None]], **reported: object) -> None:
    fill("results.db", list(results), machine=GPU_BOX, **reported)  # type: ignore[arg-type]  # a test names what `fill` takes
