"""CUDA_VISIBLE_DEVICES is read as CUDA reads it, and what cannot be distinguished from it is refused."""

from dataclasses import replace

import pytest

from scalemark.records.machine import Gpu
from sweeper import SweepRefusedError
from sweeper.devices.machine import visible_gpus
from tests.specs import gpu


def cut(whole: Gpu, *uuids: str) -> Gpu:
    return replace(
        whole,
        mig_mode=True,
        mig_devices=tuple(replace(whole, uuid=uuid, mig_parent=whole.uuid) for uuid in uuids),
    )


GPUS = tuple(gpu(f"GPU-{letter}{letter}") for letter in "abcd")
MIXED = (cut(gpu("GPU-aa"), "MIG-11", "MIG-12"), gpu("GPU-bb"), cut(gpu("GPU-cc"), "MIG-31"))


def uuids(gpus, mask, **variables) -> list[str]:
    return [
        gpu.uuid
        for gpu in visible_gpus(
            gpus, variables if mask is None else variables | {"CUDA_VISIBLE_DEVICES": mask}
        )
    ]


@pytest.mark.parametrize(
    ("mask", "letters"),
    [
        (None, "abcd"),
        ("", ""),
        ("2,0", "ca"),
        (" 2 , 0", "ca"),
        ("GPU-bb,GPU-d", "bd"),
        ("1,9,2", "b"),
        ("-1", ""),
        ("2,-1,3", "c"),
        ("NoDevFiles", ""),
        ("0,0", ""),  # one named twice leaves nothing
        ("1,2,1", ""),
        ("GPU-aa,GPU-a", ""),
        ("GPU-", ""),  # the beginning of several
        ("G", ""),
        ("GPU-bb,1,GPU-c", "b"),  # another kind than the first ends the list
        ("1,GPU-cc", "b"),
        ("GPU-bb,MIG-11", "b"),
        ("MIG-11", ""),
        ("1gpu", ""),
        (",1", ""),
    ],
)
def test_a_mask_is_read_as_cuda_reads_it(mask, letters):
    assert [uuid[-1] for uuid in uuids(GPUS, mask)] == list(letters)


@pytest.mark.parametrize(
    ("mask", "named"),
    [
        (None, ["GPU-bb"]),
        ("1", ["GPU-bb"]),
        ("MIG-12,MIG-31", ["MIG-12", "MIG-31"]),
        ("MIG-3", ["MIG-31"]),
        ("MIG-1", []),  # the beginning of two
        ("MIG-11,MIG-11", []),
        ("MIG-12,GPU-bb", ["MIG-12"]),
        ("GPU-bb,MIG-12", ["GPU-bb"]),
    ],
)
def test_whole_gpus_and_mig_devices_are_never_mixed(mask, named):
    assert uuids(MIXED, mask) == named


def test_without_whole_gpus_all_mig_devices_are_usable():
    assert uuids((MIXED[0], MIXED[2]), None) == ["MIG-11", "MIG-12", "MIG-31"]


@pytest.mark.parametrize("mask", ["0", "1,0", "GPU-aa"])
def test_a_gpu_in_mig_mode_is_not_usable_whole(mask):
    said = (
        f"CUDA_VISIBLE_DEVICES={mask}: GPU-aa is in MIG mode and cannot be used whole; name its MIG"
    )
    with pytest.raises(SweepRefusedError, match=said):
        uuids(MIXED, mask)


def test_indices_of_unlike_gpus_need_pci_order():
    unlike = (gpu("GPU-aa"), gpu("GPU-bb", name="H100"))
    with pytest.raises(
        SweepRefusedError,
        match=r"counts GPUs of several kinds from the fastest on; set CUDA_DEVICE_ORDER=PCI_BUS_ID",
    ):
        uuids(unlike, "0")
    assert uuids(unlike, "0", CUDA_DEVICE_ORDER="PCI_BUS_ID") == ["GPU-aa"]
    assert uuids(unlike, "GPU-b") == ["GPU-bb"]
