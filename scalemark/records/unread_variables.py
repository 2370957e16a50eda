"""Finds environment variables of a trial that nothing reads, as their reader takes no part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from scalemark.abilities import ALL_REDUCES, VARIABLE_UPDATES
from scalemark.abilities.variable_update import Sends
from scalemark.records import environment_axes
from scalemark.records.axes import Engine
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.text.wording import listed


class _Reader(NamedTuple):
    begins: tuple[str, ...]  # names of the variables that it alone reads
    name: str


_NCCL = _Reader(("NCCL_",), "NCCL (all_reduce=nccl, on GPUs)")
_XLA = _Reader(("XLA_", "TF_XLA_"), "XLA (xla=on)")
_CUDA = _Reader(("CUDA_", "CUDNN_", "CUBLAS_", "TF_GPU_", "TF_CUDNN_"), "a GPU")


def unread(spec: TrialSpec) -> list[str]:
    """Return the axes of the variables that nothing reads; none of a program, of which nobody knows
    what it reads.
    """
    return list(_readers(spec))


def notes(specs: Iterable[TrialSpec]) -> list[str]:
    """Say of which variables the values cannot matter in some of these trials."""
    axes_of: dict[str, dict[str, None]] = {}
    for spec in specs:
        for axis, reader in _readers(spec).items():
            axes_of.setdefault(reader, {})[axis] = None
    found = []
    for reader, axes in axes_of.items():
        them = "it" if len(axes) == 1 else "them"
        found.append(
            f"{listed(list(axes))}: nothing reads {them} in trials without {reader}, whose "
            "differences are chance"
        )
    return found


def _readers(spec: TrialSpec) -> Mapping[str, str]:
    """Return axis -> what would read it, of the variables that nothing reads."""
    if spec.engine != Engine.tensorflow:
        return {}
    missing = list(_missing(spec))
    found = {}
    for name in environment_axes.variables(spec.free):
        for reader in missing:
            if name.startswith(reader.begins):
                found[f"{environment_axes.PREFIX}{name}"] = reader.name
    return found


def _missing(spec: TrialSpec) -> Iterator[_Reader]:
    """Yield what certainly takes no part; on GPUs, TensorFlow itself reads flags of XLA."""
    if spec.device_kind == DeviceKind.CPU_DEVICE:
        yield _NCCL
        yield _CUDA
        if spec.xla == "off":
            yield _XLA
    elif not _may_use_nccl(spec):
        yield _NCCL


def _may_use_nccl(spec: TrialSpec) -> bool:
    """Return False only where gradients are known to go another way."""
    update, reduction = VARIABLE_UPDATES.get(spec.variable_update), ALL_REDUCES.get(spec.all_reduce)
    if update is None or reduction is None or update.is_distributed:
        return True
    if update.sends is Sends.NOTHING or update.sends is Sends.TO_OWNERS:
        return False
    return update.sends is not Sends.ALL_REDUCE or reduction.uses_nccl
