"""Reads CUDA_VISIBLE_DEVICES as CUDA does: an inherited mask is never widened."""

from __future__ import annotations

from collections.abc import Mapping

from scalemark.records.machine import Gpu
from sweeper.errors import SweepRefusedError

HIDE_ALL = ("", "-1", "NoDevFiles")  # masks that are meant to leave nothing


def visible_gpus(gpus: tuple[Gpu, ...], variables: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return what trials may use, in the mask's order.

    Without a mask these are the whole GPUs, and the MIG devices where none is whole. As in CUDA, a
    mask lists indices, UUIDs, or beginnings of UUIDs; its first entry that names nothing, or is of
    another kind than the first one, ends the list, and one named twice leaves nothing.

    Raises SweepRefusedError where it is open which GPUs are meant, or where one of them is cut into
    MIG devices.
    """
    mask = variables.get("CUDA_VISIBLE_DEVICES")
    if mask is None:
        return tuple(gpu for gpu in gpus if not gpu.mig_mode) or _mig_devices(gpus)
    entries = [entry.strip() for entry in mask.split(",")]
    if entries[0].isdecimal():
        _check_order(gpus, mask, variables)
    visible: list[Gpu] = []
    for entry in entries:
        same_kind = _kind(entry) == _kind(entries[0])
        named = _named(entry, gpus) if same_kind else None
        if named is None:
            break
        if named in visible:
            return ()
        if named.mig_mode and named.mig_parent is None:
            raise SweepRefusedError(
                f"CUDA_VISIBLE_DEVICES={mask}: {named.uuid} is in MIG mode and cannot be used "
                f"whole; name MIG devices: {_listed(named.mig_devices)}"
            )
        visible.append(named)
    return tuple(visible)


def _mig_devices(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    return tuple(device for gpu in gpus for device in gpu.mig_devices)


def _kind(entry: str) -> str:
    return "index" if entry.isdecimal() else entry[:4]


def _named(entry: str, gpus: tuple[Gpu, ...]) -> Gpu | None:
    if entry.isdecimal():
        return gpus[int(entry)] if int(entry) < len(gpus) else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    devices = _mig_devices(gpus) if entry.startswith("MIG-") else gpus
    named = [device for device in devices if device.uuid.startswith(entry)]
    if not named and entry.startswith("MIG-GPU-"):
        raise SweepRefusedError(
            f"CUDA_VISIBLE_DEVICES: {entry} is the old way of naming a MIG device; "
            f"name it as nvidia-smi -L does: {_listed(devices)}"
        )
    return named[0] if len(named) == 1 else None


def _listed(devices: tuple[Gpu, ...]) -> str:
    if not devices:
        return "there are none; make some with nvidia-smi mig"
    return ", ".join(device.uuid for device in devices)


def _check_order(gpus: tuple[Gpu, ...], mask: str, variables: Mapping[str, str]) -> None:
    """Refuse indices that CUDA may count from the fastest GPU on, while we count in PCI order."""
    if len({gpu.name for gpu in gpus}) > 1 and variables.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        raise SweepRefusedError(
            f"CUDA_VISIBLE_DEVICES={mask}: CUDA counts GPUs of several kinds from the fastest on; "
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name GPUs by UUID, as nvidia-smi -L lists them"
        )
