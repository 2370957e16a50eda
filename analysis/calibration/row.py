"""A row to learn from or to predict: a result as the cost model sees it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from analysis.results import Result, keeps_micro_batches
from costs.communication import updates
from costs.hardware import Hardware
from costs.memory import memory_bytes
from costs.work import Work
from scalemark.records.measurement import IMAGES
from scalemark.records.strategies import STRATEGY_AXES, strategy_name
from scalemark.stats.welch import error_of_log_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A cell of one environment, with or without its throughput."""

    work: Work
    throughput: float | None  # None = asked for
    # standard error of throughput over processes, over their mean; 0 = one figure or process,
    # nothing known
    spread: float = 0.0
    # its source says how variables are shared, in words that the cost model knows
    is_known: bool = True
    # the same of more than one GPU: on one, where nothing is reduced, sources may leave that out
    is_known_of_more: bool = True
    # who asks for it names how variables are shared, whatever its rows report
    is_named: bool = False
    is_batch_known: bool = True  # else its batch is assumed
    # what its source does not report, or not in our words, and what it is taken to be
    assumed: tuple[str, ...] = ()
    # axes that the cost model does not look at and in which rows of its environment differ
    apart: tuple[tuple[str, str], ...] = ()
    name: str = ""  # of the result that it is
    is_strong: bool = False  # its batch in all is what stays when GPUs are added
    item: str = IMAGES  # what its throughput counts
    # its source keeps the micro-batches of all GPUs when GPUs are added
    keeps_micro_batches: bool = False
    undivided: str = ""  # why no batch per GPU makes it; its work is then the nearest that there is

    def asked(self, work: Work, *, is_named: bool = False) -> Row:
        """Ask for other work."""
        is_known = self.is_known and (work.num_gpus == 1 or self.is_known_of_more)
        return replace(
            self, work=work, throughput=None, spread=0.0, is_known=is_known, is_named=is_named
        )

    def on(self, num_gpus: int, gradient_accumulation: int | None = None) -> Row:
        """Ask for other GPUs, and other micro-batches where these are given; under strong scaling
        with the same batch in all.
        """
        num_batches = gradient_accumulation or self.work.gradient_accumulation
        undivided = ""
        if self.keeps_micro_batches and gradient_accumulation is None:
            num_micro = self.work.gradient_accumulation * self.work.num_gpus
            num_batches = max(1, num_micro // num_gpus)
            if num_micro % num_gpus:
                undivided = _undivided(f"{num_micro} micro-batches in all", num_micro, num_gpus, 1)
        work = replace(self.work, num_gpus=num_gpus, gradient_accumulation=num_batches)
        if self.is_strong:
            examples, num_parts = self.work.num_examples, num_gpus * num_batches
            if examples % num_parts:
                what = f"{examples} {work.network.examples} in all (scaling=strong)"
                undivided = _undivided(what, examples, num_gpus, num_batches)
            work = replace(work, batch_size=max(1, examples // num_parts))
        return replace(self.asked(work), undivided=undivided)

    @property
    def cell(self) -> tuple[object, ...]:
        """Return what rows of one cell have in common; the cost model may have one figure for
        several."""
        is_known = self.is_known or self.is_named
        return self.work, self.undivided, is_known, self.is_batch_known, self.apart

    @property
    def step_s(self) -> float:
        assert self.throughput is not None
        return self.work.num_items(self.item) / self.throughput

    @property
    def strategy(self) -> tuple[str, str, str]:
        work = self.work
        return work.variable_update, work.local_parameter_device, work.all_reduce

    @property
    def curve(self) -> Work:
        """Return what rows that differ only in the number of GPUs have in common."""
        work = self.work
        num_micro = work.gradient_accumulation * (work.num_gpus if self.keeps_micro_batches else 1)
        return replace(work, num_gpus=1, gradient_accumulation=num_micro)


def _undivided(what: str, num: int, num_gpus: int, num_batches: int) -> str:
    if num_batches == 1:
        return (
            f"num_gpus={num_gpus}: {what} do not divide among {num_gpus} GPUs; choose a number of "
            f"GPUs that divides {num}"
        )
    return (
        f"num_gpus={num_gpus} gradient_accumulation={num_batches}: {what} do not divide among "
        f"{num_gpus} * {num_batches} micro-batches; choose numbers whose product divides {num}"
    )


def row(result: Result, hardware: Hardware, note: str = "") -> Row:
    """Return a result as the cost model sees it.

    A batch that a source does not report is assumed to be the largest power of two, up to 256, that
    fits into the GPU. Raises costs.networks.UnknownNetworkError, and ValueError for axes that the
    cost model cannot take.
    """
    axes = completed(result.axes, hardware, note)
    work = Work.of(axes)
    work.num_items(result.item)
    assumed = tuple(_assumed(result.axes, axes))
    return Row(
        work=work,
        throughput=result.throughput,
        spread=error_of_log_mean(result.repeats) if len(result.repeats) > 1 else 0.0,
        is_known=is_known(result.axes),
        is_known_of_more=is_known({**result.axes, "num_gpus": max(2, result.num_gpus)}),
        is_batch_known=result.axes["batch_size"] is not None,
        assumed=assumed,
        name=result.trial_id,
        is_strong=result.axes.get("scaling") == "strong",
        item=result.item,
        keeps_micro_batches=keeps_micro_batches(result),
    )


def completed(axes: Mapping[str, Any], hardware: Hardware, note: str = "") -> dict[str, Any]:
    """Return the axes in the cost model's words, with a batch.

    A published figure's note may say more than its axes.
    """
    found = dict(axes)
    found["variable_update"], found["local_parameter_device"], found["all_reduce"] = _way(axes)
    found["data"] = _bare(axes["data"]) or "synthetic"
    precision, plus, compiler = _bare(axes["precision"]).partition("+")
    found["precision"] = f"{_PRECISIONS.get(precision, precision)}{plus}{compiler}"
    said = f"{axes['all_reduce']} {note}".lower()
    if packs := re.search(r"repack(?:ing)?\W*(?:in)?(?:to)?\s*(\d+)", said):
        found["gradient_repacking"] = int(packs[1])
    if "compact" in said:
        found["compact_gradients"] = True
    if found.get("batch_size") is None:
        found["batch_size"] = _fitting(found, hardware)
    return found


def _assumed(reported: Mapping[str, Any], taken: Mapping[str, Any]) -> Iterator[str]:
    """Yield each assumption as a sentence: what a source does not report is not given as a fact."""
    if reported["batch_size"] is None:
        batch = taken["batch_size"]
        yield (
            f"batch_size is not reported, {batch} is assumed: the largest power of two up to 256 "
            "that fits"
        )
    name = strategy_name(*(taken[axis] for axis in STRATEGY_AXES))
    if _bare(reported["variable_update"]) not in updates():
        update = str(reported["variable_update"] or "").strip("?")
        found = f"reported as {update!r}" if update else "not reported"
        yield f"how variables are shared is {found}, {name} is assumed"
    for axis in _unreported(reported):
        yield f"{axis} is not reported, {name} is assumed"


def _way(axes: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return how variables are shared, or what is most like the words of the source.

    Raises ValueError for words that are like nothing that is known: another strategy is another
    figure.
    """
    update, device, all_reduce = (
        _bare(axes[axis]) for axis in ("variable_update", "local_parameter_device", "all_reduce")
    )
    device = "cpu" if device == "cpu" else "gpu"
    if update in updates():
        if all_reduce in ("", "n/a", "default"):
            return update, device, "none"
        for start, name in _ALL_REDUCES.items():
            if all_reduce.startswith(start):
                return update, device, name
        return update, device, all_reduce
    if update in ("", "n/a"):
        return "replicated", "gpu", "nccl"
    for pattern, way in _WAYS.items():
        if re.search(pattern, update):
            return way
    known = ", ".join(updates())
    raise ValueError(
        f"variable_update={axes['variable_update']!r} is no strategy that the cost model knows: "
        f"{known}"
    )


def is_known(axes: Mapping[str, Any]) -> bool:
    """Return whether the strategy is known by its name, and nothing of it is assumed."""
    return _bare(axes["variable_update"]) in updates() and not _unreported(axes)


def _unreported(axes: Mapping[str, Any]) -> list[str]:
    """Return axes without which a variable update may be one of several strategies."""
    update = _bare(axes["variable_update"])
    if axes["num_gpus"] == 1 and update == "replicated":
        return []  # on one GPU nothing is reduced
    needed = _NEEDED.get(update, ())
    return [axis for axis in needed if _bare(axes[axis]) in ("", "n/a")]


_NEEDED = {"parameter_server": ("local_parameter_device",), "replicated": ("all_reduce",)}
_WAYS = {
    r"kvstore|\bps\b|parameter[ _-]?servers?": ("parameter_server", "cpu", "none"),
    "mirrored": ("mirrored", "gpu", "nccl"),
    "distributeddataparallel": ("ddp", "gpu", "nccl"),
    "byteps": ("horovod", "gpu", "nccl"),
    "dataparallel": ("replicated", "gpu", "none"),
}
_ALL_REDUCES = {
    "nccl": "nccl",
    "pscpu": "pscpu",
    "psgpu": "psgpu",
    "hier": "hierarchical_copy",
    "xring": "ring",
    "ring": "ring",
}
_PRECISIONS = {
    "": "fp32",
    "float32": "fp32",
    "float16": "fp16",
    "amp": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
}


def _bare(text: object) -> str:
    """Return the text without doubts and remarks."""
    return re.sub(r"[?(].*", "", str(text or "")).strip().lower()


def _fitting(axes: dict[str, Any], hardware: Hardware) -> int:
    for batch in (256, 128, 64, 32, 16, 8, 4, 2):
        if memory_bytes(Work.of({**axes, "batch_size": batch})) <= hardware.memory_gib * 2**30:
            return batch
    return 1
