"""Speed without XLA, by precision and data format: is one held back by transposes or casts?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks.gpu.box import Box
from benchmarks.gpu.kit import Finding, Kit
from benchmarks.gpu.trials import all_completed, measured, mfu_is_sane

ABOUT = (
    "speed without XLA, by precision and data format; MFU: the share of its peak that a GPU reaches"
)
LINES: Mapping[str, str] = {
    "plain": "trials of every precision complete, with each op on the device asked for",
    "mfu": "utilization (MFU) is more than 0, and 1 at most",
}
MINUTES: Mapping[str, float] = {"gpus": 2.25, "gpu": 2.25, "cpu": 0.4}
EFFORT = (  # on GPUs
    "min_warm_up_steps=10",
    "min_warm_up_s=1",
    "num_steps=20",
    "min_window_s=3",
)


def run(kit: Kit) -> Iterator[Finding]:
    trials = yield from measured(kit, "plain", grid(kit.box))
    yield all_completed("plain", trials)
    yield mfu_is_sane(trials)


def grid(box: Box) -> list[str]:
    """Return the overrides of the sweep."""
    if not box.on_gpus:
        return ["model=lenet5", "precision=fp32,bf16"]
    grids = [f"{{precision:[{box.half},fp32]}}"]
    if box.knows_bfloat16:
        grids += ["{precision:fp16}", "{precision:tf32,data_format:[NHWC,NCHW]}"]
    return [
        "model=resnet50",
        f"batch_size={box.batch_size}",
        *EFFORT,
        f"hydra.sweeper.grids=[{','.join(grids)}]",
    ]
