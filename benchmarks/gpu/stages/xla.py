"""Speed with XLA, and whether what it compiled ran where it was asked to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.gpu.box import Box
from benchmarks.gpu.kit import Finding, Kit
from benchmarks.gpu.stages.plain import EFFORT
from benchmarks.gpu.trials import all_completed, measured

ABOUT = "speed with XLA"
LINES: Mapping[str, str] = {"xla": "compiled trials complete, with each op on the device asked for"}
MINUTES: Mapping[str, float] = {"gpus": 1.5, "gpu": 1.5, "cpu": 0.3}


def run(kit: Kit) -> Iterator[Finding]:
    trials = yield from measured(kit, "xla", grid(kit.box))
    yield all_completed("xla", trials)


def grid(box: Box) -> list[str]:
    """Return the overrides of the sweep."""
    if not box.on_gpus:
        return ["model=lenet5", "xla=on"]
    batch_size = f"batch_size={box.batch_size}"
    return ["model=resnet50", f"precision={box.half}", batch_size, *EFFORT, "xla=on,auto"]
