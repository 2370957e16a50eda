"""Notes environment variables of a plan that no part of its trials reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scalemark.abilities import ALL_REDUCES, VARIABLE_UPDATES
from scalemark.abilities.variable_update import Sends
from scalemark.records import environment_axes
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec

_NCCL = "NCCL (all_reduce=nccl, on GPUs)"
_PREFIXES = {  # of the variables that it alone reads
    _NCCL: ("NCCL_",),
    "XLA (xla=on)": ("XLA_", "TF_XLA_"),
    "a GPU": ("CUDA_", "CUDNN_", "CUBLAS_", "TF_GPU_", "TF_CUDNN_"),
}


def notes(specs: Iterable[TrialSpec]) -> list[str]:
    """Return a sentence for each variable whose values cannot matter in some of these trials."""
    unread: dict[str, str] = {}  # axis -> what would read it
    for spec in specs:
        if spec.engine != Engine.tensorflow:
            continue  # nobody knows what a program reads
        for reader in _missing(spec):
            for name in environment_axes.variables(spec.free):
                if name.startswith(_PREFIXES[reader]):
                    unread[f"{environment_axes.PREFIX}{name}"] = reader
    return [
        f"{axis}: nothing reads it in trials without {reader}. Their differences are chance."
        for axis, reader in unread.items()
    ]


def _missing(spec: TrialSpec) -> Iterator[str]:
    """Yield what certainly takes no part; on GPUs, TensorFlow itself reads flags of XLA."""
    if spec.device_kind == DeviceKind.CPU_DEVICE:
        yield from (_NCCL, "a GPU")
        if spec.xla == "off":
            yield "XLA (xla=on)"
    elif not _may_use_nccl(spec):
        yield _NCCL


def _may_use_nccl(spec: TrialSpec) -> bool:
    """Return False only where gradients are known to go another way."""
    update, reduction = VARIABLE_UPDATES.get(spec.variable_update), ALL_REDUCES.get(spec.all_reduce)
    if update is None or reduction is None or update.is_distributed:
        return True
    if update.sends is Sends.ALL_REDUCE:
        return reduction.uses_nccl
    return update.sends not in (Sends.NOTHING, Sends.TO_OWNERS)
