"""The work of a result in the cost model's words, which sources of published figures seldom use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from analysis.results import Result
from simulator.costs.exchange import updates
from simulator.costs.work import Work


def work_of(result: Result) -> Work:
    """Return the work of a result. Raises ValueError for axes that the cost model cannot take, and
    where its batch is not reported.
    """
    axes = result.axes
    if not axes["batch_size"]:
        raise ValueError(f"{result.trial_id}: its batch_size is not reported")
    update, device, all_reduce = _way(axes)
    precision, plus, compiler = str(axes["precision"] or "").lower().partition("+")
    precision = _bare(precision)
    completed = dict(axes) | {
        "variable_update": update,
        "local_parameter_device": device,
        "all_reduce": all_reduce,
        "data": _bare(axes["data"]) or "synthetic",
        "precision": f"{_PRECISIONS.get(precision, precision)}{plus}{compiler}",
    }
    work = Work.of(completed)
    work.num_items(result.item)
    return work


def is_known(axes: Mapping[str, Any]) -> bool:
    """Return whether the strategy is known by its name, and nothing of it is assumed."""
    update = _bare(axes["variable_update"])
    if update not in updates():
        return False
    if axes["num_gpus"] == 1 and update == "replicated":
        return True  # on one GPU nothing is reduced
    return all(_bare(axes[axis]) not in ("", "n/a") for axis in _NEEDED.get(update, ()))


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
