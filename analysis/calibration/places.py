"""Which hardware a place is, as far as is told: a profile that ships, one like it, or a guess from
the GPU's name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from analysis.calibration.boxes import Possible, possible
from analysis.hardware_words import normalized
from analysis.hosts_told import read
from analysis.results import Gpus, Place
from costs.hardware import MOST_GPUS, Hardware
from costs.profiles import profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Of hardware."""

    hardware: Hardware  # the likeliest before any row is seen
    reason: str
    others: tuple[Possible, ...] = ()  # all that it may be; none of a box that a profile describes

    @property
    def is_known(self) -> bool:
        """A profile describes the box; else its links are guessed."""
        return not self.others


def guess_of(place: Place, num_gpus: int) -> Guess:
    """`num_gpus`: the most that is asked of the place."""
    if place.hardware_profile:
        own = Hardware.from_json(place.hardware_profile)
        return Guess(
            hardware=replace(own, num_gpus=max(own.num_gpus, num_gpus)),
            reason=f"simulated on {own.name}",
        )
    return of_gpus(place.gpus, num_gpus) if place.gpus else guessed(place.machine, num_gpus)


def of_gpus(gpus: Gpus, num_gpus: int) -> Guess:
    """Of a machine whose GPUs are told: known where its GPU, their number and their NVLinks are
    those of a profile.
    """
    text = f"{gpus.num} x {gpus.name or 'several kinds of GPUs'}"
    name = next((name for pattern, name in _BY_GPU if re.search(pattern, gpus.name.lower())), None)
    if name is None:
        return _by_name(text, max(num_gpus, gpus.num), has_nvlink=gpus.num_nvlink_pairs > 0)
    there = profile(name)
    box = _large_enough(_with_memory(there, gpus), max(num_gpus, gpus.num))
    links = f"{gpus.num_nvlink_pairs} pairs with NVLink"
    if (gpus.num, gpus.num_nvlink_pairs) == (there.num_gpus, there.num_nvlink_pairs):
        return Guess(hardware=box, reason=f"{text!r}, {links}, is like {name}")
    wanted = f"{name} has {there.num_gpus} GPUs and {there.num_nvlink_pairs} pairs"
    return Guess(
        hardware=box,
        reason=f"{text!r}, {links}: {wanted}, so links are guessed",
        others=possible(
            box,
            is_gpu_known=there.nvlink_gb_per_s is None and not gpus.num_nvlink_pairs,
            has_nvlink=there.nvlink_gb_per_s is None and gpus.num_nvlink_pairs > 0,
        ),
    )


def guessed(text: str, num_gpus: int) -> Guess:
    """Of the text by which a source names its hardware, and the most GPUs that its rows use."""
    told = normalized(text)
    has_nvlink = re.search(r"\bnvlink\b", told) is not None
    name = next((name for pattern, name in _BOXES if re.search(pattern, told)), None)
    if name is None:
        return _by_name(text, num_gpus, has_nvlink=has_nvlink)
    box = _large_enough(profile(name), num_gpus)
    if has_nvlink and box.nvlink_gb_per_s is None:
        others = possible(box, is_gpu_known=True, has_nvlink=True)
        reason = f"{text!r} tells of NVLink, which {name} does not have: links guessed"
        return Guess(hardware=box, reason=reason, others=others)
    return Guess(hardware=box, reason=f"{text!r} is like {name}")


def unknown(text: str, num_gpus: int) -> Guess:
    """Of a place whose words tell nothing."""
    box = _generic(_UNKNOWN, _most(text, num_gpus))
    return Guess(
        hardware=box,
        reason=f"{text!r}: no GPU that is known, links guessed",
        others=possible(box, is_gpu_known=False),
    )


def _by_name(text: str, num_gpus: int, *, has_nvlink: bool = False) -> Guess:
    gpu = next(
        (gpu for pattern, gpu in _GPUS.items() if re.search(pattern, normalized(text))), None
    )
    if gpu is None:
        return unknown(text, num_gpus)
    box = _generic(gpu, _most(text, num_gpus))
    others = possible(box, is_gpu_known=True, has_nvlink=has_nvlink)
    with_nvlink = ", some with NVLink" if has_nvlink else ""
    return Guess(
        hardware=box, reason=f"{text!r}: GPU {gpu.name}{with_nvlink}, links guessed", others=others
    )


def _most(text: str, num_gpus: int) -> int:
    """GPUs of the box: those that its words tell, unless no box has so many."""
    told = read(text).gpus_per_host or 0
    return max(num_gpus, told if told <= MOST_GPUS else 0)


def _with_memory(box: Hardware, gpus: Gpus) -> Hardware:
    return replace(box, memory_gib=gpus.memory_bytes / 2**30) if gpus.memory_bytes else box


_BY_GPU = (  # the name of a GPU, as NVML has it; a part of another (MIG) is none of them
    (r"\bv100-sxm3\b", "dgx2_v100"),
    (r"\bv100-sxm2\b", "dgx1_v100"),
    (r"\bv100-pcie\b", "v100_pcie_8"),
    (r"\bp100-sxm2\b", "dgx1_p100"),
    (r"\bp100-pcie\b", "p100_pcie_8"),
    (r"\ba100-sxm4\b(?!.*\bmig\b)", "dgx_a100"),
    (r"\bh100 80gb hbm3\b(?!.*\bmig\b)", "h100_8"),
    (r"\bh200$", "h200_8"),
    (r"\bk80\b", "k80_8"),
    (r"\bgtx titan x$", "titanx_pcie_8"),
)
_NVLINKED = r"(?=.*\b(?:dgx[ -]?1|sxm2?|nvlink)\b)"
_BOXES = (  # words of a source, in any order
    (r"\bdgx[ -]?2h?\b|^(?=.*\bv100\b)(?=.*\bsxm3\b)", "dgx2_v100"),
    (rf"\bdgx[ -]?1v\b|^{_NVLINKED}(?=.*\bv100\b)", "dgx1_v100"),
    (
        r"\bp3\.(8|16)xlarge\b|\bp3dn\b|^(?!.*\bpcie\b)(.*\bgce\b.*\bv100\b|.*\b8 x (nvidia |tesla )*v100\b)",
        "dgx1_v100",
    ),
    (rf"\bdgx[ -]?1p\b|^{_NVLINKED}(?=.*\bp100\b)", "dgx1_p100"),
    (r"^(?!.*\b(nvl|pcie)\b)(?=.*\bh200\b)", "h200_8"),
    (r"^(?!.*\b(nvl|pcie)\b)(?=.*\bh100\b)", "h100_8"),
    (r"^(?!.*\bpcie\b)(?=.*\ba100\b)", "dgx_a100"),
    (r"\bk80\b|\bp2\.(8|16)?xlarge\b", "k80_8"),
    (r"\btitan x\b(?!.*\bpascal\b)", "titanx_pcie_8"),
    (r"\bp100\b|\bgn5\b", "p100_pcie_8"),
    (r"\bv100\b", "v100_pcie_8"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gpu:
    """Rough figures: rows of one GPU replace those of compute. None was checked against a data
    sheet.
    """

    name: str
    fp32: float
    fp16: float
    gb_per_s: float
    gib: float
    peer_to_peer: bool = True


_GPUS = {
    r"\b1080 ?ti\b": _Gpu(name="GeForce GTX 1080 Ti", fp32=11.3, fp16=11.3, gb_per_s=484, gib=11),
    r"\bgtx ?1080\b": _Gpu(name="GeForce GTX 1080", fp32=8.9, fp16=8.9, gb_per_s=320, gib=8),
    r"\btitan xp\b|\btitan x\b.*\bpascal\b": _Gpu(
        name="TITAN Xp", fp32=12, fp16=12, gb_per_s=548, gib=12
    ),
    r"\btitan v\b": _Gpu(name="TITAN V", fp32=14, fp16=110, gb_per_s=653, gib=12),
    r"\btitan rtx\b": _Gpu(
        name="TITAN RTX", fp32=16, fp16=130, gb_per_s=672, gib=24, peer_to_peer=False
    ),
    r"\b2080 ?ti\b": _Gpu(
        name="GeForce RTX 2080 Ti", fp32=13.4, fp16=54, gb_per_s=616, gib=11, peer_to_peer=False
    ),
    r"\b3090\b": _Gpu(
        name="GeForce RTX 3090", fp32=35, fp16=71, gb_per_s=936, gib=24, peer_to_peer=False
    ),
    r"\b4090\b": _Gpu(
        name="GeForce RTX 4090", fp32=82, fp16=165, gb_per_s=1008, gib=24, peer_to_peer=False
    ),
    r"\b5090\b": _Gpu(
        name="GeForce RTX 5090", fp32=105, fp16=210, gb_per_s=1792, gib=32, peer_to_peer=False
    ),
    r"\bm40\b": _Gpu(name="Tesla M40", fp32=6.8, fp16=6.8, gb_per_s=288, gib=12),
    r"\bm60\b|\bg3\.": _Gpu(name="Tesla M60", fp32=4.8, fp16=4.8, gb_per_s=160, gib=8),
    r"\bp40\b": _Gpu(name="Tesla P40", fp32=11.8, fp16=11.8, gb_per_s=346, gib=24),
    r"\bt4\b|\bg4dn\b": _Gpu(name="Tesla T4", fp32=8.1, fp16=65, gb_per_s=320, gib=16),
    r"\brtx ?[68]000\b(?!.*\bada\b)": _Gpu(
        name="Quadro RTX 6000", fp32=16, fp16=130, gb_per_s=672, gib=24
    ),
    r"\ba6000\b": _Gpu(name="RTX A6000", fp32=38, fp16=155, gb_per_s=768, gib=48),
    r"\ba100\b(?!.*\bmig\b)": _Gpu(
        name="A100-PCIE-40GB", fp32=19.5, fp16=312, gb_per_s=1555, gib=40
    ),
    r"^(?!.*\bmig\b)(?=.*\b(pcie|nvl)\b)(?=.*\bh100\b)": _Gpu(
        name="H100 PCIe", fp32=51, fp16=756, gb_per_s=2000, gib=80
    ),
    r"\ba10g?\b|\bg5\.": _Gpu(name="A10", fp32=31, fp16=125, gb_per_s=600, gib=24),
    r"\bl4\b": _Gpu(name="L4", fp32=30, fp16=121, gb_per_s=300, gib=24),
    r"\bl40s?\b": _Gpu(name="L40", fp32=90, fp16=181, gb_per_s=864, gib=48),
}
_UNKNOWN = _Gpu(name="unknown GPU", fp32=12, fp16=60, gb_per_s=600, gib=16)


def _large_enough(box: Hardware, num_gpus: int) -> Hardware:
    """Of the same kind, with as many GPUs as rows were made with."""
    return (
        box
        if num_gpus <= box.num_gpus
        else replace(box, num_gpus=num_gpus, name=f"{box.name} x {num_gpus}")
    )


def _generic(gpu: _Gpu, num_gpus: int) -> Hardware:
    """Most boxes have two sockets with up to four GPUs each, two below a switch."""
    tflops: Mapping[str, float] = {
        "fp32": gpu.fp32,
        "fp16": gpu.fp16,
        "bf16": gpu.fp16,
        "tf32": gpu.fp32,
    }
    return replace(
        profile("v100_pcie_8"),
        name="guessed",
        gpu=gpu.name,
        tflops=tflops,
        memory_gb_per_s=gpu.gb_per_s,
        memory_gib=gpu.gib,
        peer_to_peer=gpu.peer_to_peer,
        num_gpus=max(8, num_gpus),
        sources={},
    )
