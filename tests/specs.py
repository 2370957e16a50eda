"""A small valid trial and a GPU of no machine, and variations of them."""

from dataclasses import replace

from scalemark.records.machine import DeviceKind, Gpu
from scalemark.records.trial import TrialSpec

SMALL = TrialSpec(
    model="trivial",
    num_gpus=1,
    hosts=1,
    device_kind=DeviceKind.CPU_DEVICE,
    variable_update="replicated",
    local_parameter_device="gpu",
    all_reduce="none",
    staged_vars=False,
    gradient_repacking=0,
    compact_gradients=False,
    precision="fp32",
    loss_scale="none",
    xla="off",
    optimizer="momentum",
    learning_rate=0.01,
    momentum=0.9,
    weight_decay=4e-5,
    data="synthetic",
    data_dir="",
    distortions=False,
    data_format="NHWC",
    image_px=32,
    num_classes=10,
    batch_size=2,
    scaling="weak",
    steps_per_execution=1,
    min_warm_up_steps=2,
    num_steps=4,
    seed=1,
)


def small(**changes: object) -> TrialSpec:
    return replace(SMALL, **changes)  # type: ignore[arg-type]  # a test names real fields


def gpu(uuid: str, **changes: object) -> Gpu:
    usual = {"name": "P100", "memory_bytes": 1, "pci_bus_id": uuid, "compute_capability": "6.0"}
    return Gpu(**{"uuid": uuid, "power_limit_w": None, **usual, **changes})  # type: ignore[arg-type]
