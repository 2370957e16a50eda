"""Boxes of GPUs, and the attempts of trials, as the kit sees them."""

from dataclasses import replace

from benchmarks.gpu.box import Box
from scalemark.records.machine import Gpu, Machine
from scalemark.records.measurement import GpuTelemetry
from tests.filled import measurement

H100 = Gpu(
    uuid="GPU-aaaa",
    name="NVIDIA H100 80GB HBM3",
    memory_bytes=80 * 2**30,
    pci_bus_id="00000000:00:04.0",
    compute_capability="9.0",
    power_limit_w=700.0,
)
V100 = replace(H100, name="Tesla V100-SXM2-16GB", memory_bytes=16 * 2**30, compute_capability="7.0")
SEEN = GpuTelemetry(
    uuid="GPU-aaaa",
    num_samples=9,
    sm_clock_mhz=1755.0,
    max_sm_clock_mhz=1980,
    power_w=512.0,
    power_limit_w=700.0,
    temperature_c=61,
    utilization=0.99,
    memory_used_bytes=2**30,
    throttle_reasons=(),
    num_foreign_processes=0,
)
MEASURED = measurement(
    2500.0,
    throughput_low=2490.0,
    throughput_high=2510.0,
    jitter_s=0.001,
    num_steps=40,
    window_s=4.0,
    num_warm_up_steps=40,
    time_to_first_step_s=30.0,
    trace_s=3.0,
    first_step_s=9.0,
    peak_device_memory_bytes=2**34,
    first_loss=6.9,
    last_loss=1.0,
    num_parameters=25_559_081,
    mfu=0.4,
)


def box(*gpus: Gpu) -> Box:
    machine = Machine(
        host="box7", cpu="AMD EPYC 7543", num_cores=64, memory_bytes=2**39, gpus=gpus, driver="580"
    )
    return Box(machine=machine, gpus=gpus)
