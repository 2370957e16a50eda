"""Sweeps of a user's own program: numbers are given, nothing is started."""

from collections.abc import Mapping, Sequence
from typing import Any

from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from tests.analysis.gpu_box import GPU_BOX, around
from tests.filled import fill

COMMAND = "torchrun --nproc-per-node={num_gpus} train.py --zero {zero} --offload {offload}"
ENVIRONMENT = {
    "python": "3.12.1",
    "kernel": "6.1",
    "packages": {"torch": "2.9.0", "numpy": "2.4.6", "scalemark": "0.1.0"},
    "commit": "abc",
    "variables": {},
    "interpreter": "/usr/bin/python3",
    "program": {"commit": "3f2a1c", "diff": "", "scripts": "77aa"},
}
SEEN_FROM_OUTSIDE: Mapping[str, Any] = {
    "item": "tokens",
    "trace_s": None,
    "first_step_s": None,
    "data_wait_share": None,
    "num_parameters": None,
    "peak_device_memory_bytes": 5 * 2**30,
}
REPORTED: Mapping[str, Any] = {
    **SEEN_FROM_OUTSIDE,
    "reported": True,
    "throughput_low": None,
    "throughput_high": None,
    "median_step_s": None,
    "jitter_s": None,
    "p90_step_s": None,
    "num_steps": 0,
    "time_to_first_step_s": None,
    "steps": [],
}
"""What is known where a program printed one number only."""

OTHERS_WORDS = (
    *("replicated", "parameter_server", "nccl", "pscpu", "psgpu", "variable_update"),
    *("local_parameter_device", "all_reduce", "staged", "repacking", "compact_gradients"),
    *("precision", "image_px", "XLA", "TensorFlow", "Keras", "NHWC", "loss_scale"),
    *("distortions", "synthetic", "fp32", "fp16", "images", "not reported", "None"),
    *("weak scaling", "strong scaling", "Weak scaling", "Strong scaling"),
)
"""Words that nothing should say of a program of somebody else's."""


def program(
    num_gpus: int = 1, zero: object = 0, offload: object = "cpu", **changes: Any
) -> TrialSpec:
    """Of a program with two free axes."""
    values = {
        "engine": "command",
        "model": "train",
        "num_gpus": num_gpus,
        "device_kind": DeviceKind.GPU,
        "command": COMMAND,
        "read": "json",
        "item": "tokens",
        "min_warm_up_steps": 0,
        "seed": 1,
        "free": {"zero": zero, "offload": offload},
    }
    return TrialSpec.of(values | changes)


def grid(
    zeros: Sequence[object] = (0, 2, 10),
    counts: Sequence[int] = (1, 2, 4, 8),
    **changes: Any,
) -> list[tuple[TrialSpec, float | None]]:
    """Every combination of `zeros` and offload on so many GPUs, three repeats each: the more GPUs,
    the further the zeros are apart, and offloading costs a tenth.
    """
    found = []
    for place, zero in enumerate(zeros):
        for offload, share in (("cpu", 0.9), ("none", 1.0)):
            for num in counts:
                throughput = 1000.0 * share * num ** (0.95 - 0.1 * place)
                found += around(program(num, zero, offload, **changes), throughput)
    return found


def fill_programs(
    results: Sequence[tuple[TrialSpec, float | None]],
    url: str = "results.db",
    *,
    measured: Mapping[str, Any] = SEEN_FROM_OUTSIDE,
    **reported: Any,
) -> None:
    """Fill a database as `tests.filled.fill` does, on a machine with 8 GPUs."""
    fill(
        url,
        list(results),
        **{"machine": GPU_BOX, "environment": ENVIRONMENT} | reported,
        details=[measured if value is not None else {} for _, value in results],
    )
