"""A row that calibration learns from, or that it is asked for: a result as the cost model sees it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from analysis.results import Result
from costs.hardware import Hardware
from costs.memory import memory_bytes
from costs.work import Work
from store.welch import error_of_log_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Of one place."""

    work: Work
    images_per_second: float | None  # None = asked for
    spread: float = 0.0  # standard error of images/s over processes, over their mean; 0 = one figure or process, nothing known
    is_told: bool = True  # its source says how variables are shared, in words that the cost model knows
    name: str = ""  # of the result that it is
    is_strong: bool = False  # its batch in all is what stays when GPUs are added
    undivided: str = ""  # why no batch per GPU makes it; its work is then the nearest that there is

    def on(self, num_gpus: int) -> Row:
        """Asked for, on so many GPUs; under strong scaling with the same batch in all."""
        work = replace(self.work, num_gpus=num_gpus)
        asked = replace(self, work=work, images_per_second=None, spread=0.0)
        if not self.is_strong:
            return asked
        images = self.work.batch_size * self.work.num_gpus
        told = f"num_gpus={num_gpus}: {images} images in all (scaling=strong) do not divide among {num_gpus} GPUs"
        return replace(
            asked,
            work=replace(work, batch_size=max(1, images // num_gpus)),
            undivided=f"{told}; choose a number of GPUs that divides {images}" if images % num_gpus else "",
        )

    @property
    def step_s(self) -> float:
        assert self.images_per_second is not None
        return self.work.num_gpus * self.work.batch_size / self.images_per_second

    @property
    def strategy(self) -> tuple[str, str, str]:
        work = self.work
        return work.variable_update, work.local_parameter_device, work.all_reduce

    @property
    def curve(self) -> Work:
        """The same for rows that differ in the number of GPUs alone."""
        return replace(self.work, num_gpus=1)


def row(result: Result, hardware: Hardware, note: str = "") -> Row:
    """Raises costs.networks.UnknownNetworkError, and ValueError for axes that the cost model cannot take.

    A batch that a source does not tell is taken to be the largest power of two, up to 256, that fits into the GPU.
    """
    axes = completed(result.axes, hardware, note)
    return Row(
        work=Work.of(axes),
        images_per_second=result.images_per_second,
        spread=error_of_log_mean(result.repeats) if len(result.repeats) > 1 else 0.0,
        is_told=is_told(result.axes),
        name=result.trial_id,
        is_strong=result.axes.get("scaling") == "strong",
    )


def completed(axes: Mapping[str, Any], hardware: Hardware, note: str = "") -> dict[str, Any]:
    """With what a published figure's note tells beyond its axes, in the cost model's words, and with a batch."""
    told = dict(axes)
    told["variable_update"], told["local_parameter_device"], told["all_reduce"] = _way(axes)
    told["data"] = _bare(axes["data"]) or "synthetic"
    precision, plus, compiler = _bare(axes["precision"]).partition("+")
    told["precision"] = f"{_PRECISIONS.get(precision, precision)}{plus}{compiler}"
    said = f"{axes['all_reduce']} {note}".lower()
    if found := re.search(r"repack(?:ing)?\W*(?:in)?(?:to)?\s*(\d+)", said):
        told["gradient_repacking"] = int(found[1])
    if "compact" in said:
        told["compact_gradients"] = True
    if told.get("batch_size") is None:
        told["batch_size"] = _fitting(told, hardware)
    return told


def _way(axes: Mapping[str, Any]) -> tuple[str, str, str]:
    """How variables are shared; where a source does not tell, or in words of its own, what is most like it."""
    update, device, all_reduce = (_bare(axes[axis]) for axis in ("variable_update", "local_parameter_device", "all_reduce"))
    device = "cpu" if device == "cpu" else "gpu"
    if update in _KNOWN:
        reduced = next((name for start, name in _ALL_REDUCES.items() if all_reduce.startswith(start)), all_reduce)
        return update, device, {"": "none", "n/a": "none", "default": "none"}.get(reduced, reduced)
    return next((way for part, way in _WAYS.items() if part in update), ("replicated", "gpu", "nccl"))


def is_told(axes: Mapping[str, Any]) -> bool:
    """Whether the cost model knows the way by its name."""
    return _bare(axes["variable_update"]) in _KNOWN


_KNOWN = ("parameter_server", "replicated", "independent", "mirrored", "horovod", "ddp")
_WAYS = {
    "kvstore": ("parameter_server", "cpu", "none"),
    "mirrored": ("mirrored", "gpu", "nccl"),
    "distributeddataparallel": ("ddp", "gpu", "nccl"),
    "byteps": ("horovod", "gpu", "nccl"),
    "dataparallel": ("replicated", "gpu", "none"),
}
_ALL_REDUCES = {"nccl": "nccl", "pscpu": "pscpu", "psgpu": "psgpu", "hier": "hierarchical_copy", "xring": "ring", "ring": "ring"}
_PRECISIONS = {"": "fp32", "float32": "fp32", "float16": "fp16", "amp": "fp16", "half": "fp16", "bfloat16": "bf16"}


def _bare(text: object) -> str:
    """Without doubts and remarks."""
    return re.sub(r"[?(].*", "", str(text or "")).strip().lower()


def _fitting(axes: dict[str, Any], hardware: Hardware) -> int:
    batch = 256
    while batch > 1 and memory_bytes(Work.of({**axes, "batch_size": batch})) > hardware.memory_gib * 2**30:
        batch //= 2
    return batch
