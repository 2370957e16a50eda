"""Speed with XLA, and whether what it compiled ran where it was asked to."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.gpu.found import Finding
from benchmarks.gpu.kit import Kit
from benchmarks.gpu.stages.plain import EFFORT
from benchmarks.gpu.trials import all_completed, sweep

ABOUT = "speed with XLA"
LINES = {"xla": "compiled trials complete, with ops where they were asked to be"}
SHARE = 2.0


def run(kit: Kit) -> Iterator[Finding]:
    grid = ["model=lenet5", "xla=on"]
    if kit.box.on_gpus:
        batch_size = f"batch_size={kit.box.batch_size}"
        grid = ["model=resnet50", f"precision={kit.box.half}", batch_size, *EFFORT, "xla=on,auto"]
    trials = []
    for trial in sweep(kit, "xla", grid):
        trials.append(trial)
        yield from trial.numbers()
    yield all_completed("xla", trials)
