"""Says where GPUs are of several kinds, which no figure describes together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scalemark.records.machine import Gpu

CHOOSE_ONE = "choose one by CUDA_VISIBLE_DEVICES=, with UUIDs as nvidia-smi -L lists them"


def several_kinds(gpus: Iterable[Gpu]) -> str:
    """Return which these are; empty where all are of one kind."""
    kinds = Counter(gpu.name for gpu in gpus)
    if len(kinds) < 2:
        return ""
    named = ", ".join(f"{num} x {name}" for name, num in kinds.items())
    return f"{len(kinds)} kinds of GPU ({named})"
