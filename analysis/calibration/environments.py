"""Guess which hardware a machine is: a shipped profile, one like it, or from the GPU's name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.calibration.boxes import Possible, possible
from analysis.hardware_words import normalized
from analysis.reported_hosts import read
from analysis.results import Environment, Gpus
from costs.hardware import MOST_GPUS, Hardware
from costs.profiles import profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A guess of hardware."""

    hardware: Hardware  # the likeliest before any row is seen
    reason: str
    others: tuple[Possible, ...] = ()  # all that it may be; none of a box that a profile describes

    @property
    def is_known(self) -> bool:
        """A profile describes the box; else its links are guessed."""
        return not self.others


def guess_of(environment: Environment, num_gpus: int) -> Guess:
    """Guess the hardware of a machine; `num_gpus` is the most that is asked of it."""
    if environment.hardware_profile:
        own = Hardware.from_json(environment.hardware_profile)
        box = replace(own, num_gpus=max(own.num_gpus, num_gpus))
        return Guess(hardware=box, reason=f"simulated on {own.name}")
    return (
        of_gpus(environment.gpus, num_gpus)
        if environment.gpus
        else guessed(environment.machine, num_gpus)
    )


def of_gpus(gpus: Gpus, num_gpus: int) -> Guess:
    """Guess from GPUs: known where name, number and NVLinks are those of a profile."""
    text = f"{gpus.num} x {gpus.name or 'several kinds of GPUs'}"
    has_nvlink = gpus.num_nvlink_pairs > 0
    name = _matching(_BY_GPU, gpus.name.lower())
    if name is None:
        return _by_name(text, max(num_gpus, gpus.num), has_nvlink=has_nvlink)
    there = profile(name)
    box = _large_enough(there, max(num_gpus, gpus.num))
    if gpus.memory_bytes:
        box = replace(box, memory_gib=gpus.memory_bytes / 2**30)
    if (gpus.num, gpus.num_nvlink_pairs) == (there.num_gpus, there.num_nvlink_pairs):
        return Guess(hardware=box, reason=f"{text!r} is like {name}")
    is_of_pcie = there.nvlink_gb_per_s is None
    return Guess(
        hardware=box,
        reason=(
            f"{text!r} with {gpus.num_nvlink_pairs} pairs of NVLink is not quite {name} "
            f"({there.num_gpus} GPUs, {there.num_nvlink_pairs} pairs), so links are guessed"
        ),
        others=possible(
            box, is_gpu_known=is_of_pcie and not has_nvlink, has_nvlink=is_of_pcie and has_nvlink
        ),
    )


def guessed(text: str, num_gpus: int) -> Guess:
    """Guess from the text by which a source names its hardware, and the most GPUs of its rows."""
    words = normalized(text)
    has_nvlink = re.search(r"\bnvlink\b", words) is not None
    name = _matching(_BOXES, words)
    if name is None:
        return _by_name(text, num_gpus, has_nvlink=has_nvlink)
    box = _large_enough(profile(name), num_gpus)
    if has_nvlink and box.nvlink_gb_per_s is None:
        others = possible(box, is_gpu_known=True, has_nvlink=True)
        reason = f"{text!r} has NVLink, which {name} does not have: links guessed"
        return Guess(hardware=box, reason=reason, others=others)
    return Guess(hardware=box, reason=f"{text!r} is like {name}")


def unknown(text: str, num_gpus: int) -> Guess:
    """Guess a box whose words say nothing."""
    box = _generic(_UNKNOWN, _most(text, num_gpus))
    return Guess(
        hardware=box,
        reason=f"{text!r}: no GPU that is known, links guessed",
        others=possible(box, is_gpu_known=False),
    )


def _by_name(text: str, num_gpus: int, *, has_nvlink: bool = False) -> Guess:
    name = _matching(_GPU_WORDS, normalized(text))
    if name is None:
        return unknown(text, num_gpus)
    gpu = next(gpu for gpu in _GPUS if gpu.name == name)
    box = _generic(gpu, _most(text, num_gpus))
    return Guess(
        hardware=box,
        reason=f"{text!r}: GPU {name}, links guessed",
        others=possible(box, is_gpu_known=True, has_nvlink=has_nvlink),
    )


def _matching(patterns: Sequence[tuple[str, str]], words: str) -> str | None:
    """Return the first name whose pattern is in the words."""
    for pattern, name in patterns:
        if re.search(pattern, words):
            return name
    return None


def _most(text: str, num_gpus: int) -> int:
    """Return the GPUs of the box: those that its words name, unless no box has so many."""
    named = read(text).gpus_per_host or 0
    return max(num_gpus, named if named <= MOST_GPUS else 0)


_BY_GPU = (  # the name of a GPU, as NVML has it; a part of another (MIG) is none of them
    (r"\bv100-sxm3\b", "dgx2_v100"),
    (r"\bv100-sxm2\b", "dgx1_v100"),
    (r"\bv100-pcie\b", "v100_pcie_8"),
    (r"\bp100-sxm2\b", "dgx1_p100"),
    (r"\bp100-pcie\b", "p100_pcie_8"),
    (r"\ba100-sxm4-80gb\b(?!.*\bmig\b)", "dgx_a100_80"),
    (r"\ba100-sxm4\b(?!.*\bmig\b)", "dgx_a100"),
    (r"\bh100 80gb hbm3\b(?!.*\bmig\b)", "h100_8"),
    (r"\bh200$", "h200_8"),
    (r"\bk80\b", "k80_8"),
    (r"\bgtx titan x$", "titanx_pcie_8"),
    (r"\bb200$", "b200_8"),
    (r"\bl4$", "l4_8"),
    (r"\bl40s$", "l40s_8"),
    (r"\ba10$", "a10_4"),
    (r"\brtx 2080 ti$", "rtx2080ti_4"),
    (r"\brtx 3090$", "rtx3090_4"),
    (r"\brtx 4090$", "rtx4090_4"),
    (r"\brtx 5090$", "rtx5090_4"),
)
_NVLINKED = r"(?=.*\b(?:dgx[ -]?1|sxm2?|nvlink)\b)"
_OF_80_GB = (  # and not 80 GB of the host's memory
    r"(?=.*\b(?:a100(?:(?!40)[^,;]){0,20}[ (-]80 ?gi?b?|80 ?gi?b? (?:nvidia )?a100"
    r"|dgx[ -]?a100[ -]640 ?gb|p4de|a2-ultragpu)\b)"
)
_BOXES = (  # words of a source, in any order
    (r"\bdgx[ -]?2h?\b|^(?=.*\bv100\b)(?=.*\bsxm3\b)", "dgx2_v100"),
    (rf"\bdgx[ -]?1v\b|^{_NVLINKED}(?=.*\bv100\b)", "dgx1_v100"),
    (
        r"\bp3\.(8|16)xlarge\b|\bp3dn\b"
        r"|^(?!.*\bpcie\b)(.*\bgce\b.*\bv100\b|.*\b8 x (nvidia |tesla )*v100\b)",
        "dgx1_v100",
    ),
    (rf"\bdgx[ -]?1p\b|^{_NVLINKED}(?=.*\bp100\b)", "dgx1_p100"),
    (r"^(?!.*\b(nvl|pcie)\b)(?=.*\bh200\b)", "h200_8"),
    (r"^(?!.*\b(nvl|pcie)\b)(?=.*\bh100\b)", "h100_8"),
    (rf"^(?!.*\bpcie\b){_OF_80_GB}", "dgx_a100_80"),
    (r"^(?!.*\bpcie\b)(?=.*\ba100\b)", "dgx_a100"),
    (r"\bk80\b|\bp2\.(8|16)?xlarge\b", "k80_8"),
    (r"\btitan x\b(?!.*\bpascal\b)", "titanx_pcie_8"),
    (r"\bp100\b|\bgn5\b", "p100_pcie_8"),
    (r"\bv100\b", "v100_pcie_8"),
)


@dataclass(frozen=True, slots=True)
class _Gpu:
    """Rough figures, none of them checked: rows of one GPU replace those of compute."""

    words: str  # by which sources name it
    name: str
    fp32: float  # TFLOP/s
    fp16: float
    gb_per_s: float
    gib: float
    peer_to_peer: bool = True
    ampere: bool = False  # or newer: TensorFloat-32 at half the rate of fp16

    @property
    def tf32(self) -> float:
        return self.fp16 / 2 if self.ampere else self.fp32


_GPUS = (
    _Gpu(r"\b1080 ?ti\b", "GeForce GTX 1080 Ti", 11.3, 11.3, 484, 11),
    _Gpu(r"\bgtx ?1080\b", "GeForce GTX 1080", 8.9, 8.9, 320, 8),
    _Gpu(r"\btitan xp\b|\btitan x\b.*\bpascal\b", "TITAN Xp", 12, 12, 548, 12),
    _Gpu(r"\btitan v\b", "TITAN V", 14, 110, 653, 12),
    _Gpu(r"\btitan rtx\b", "TITAN RTX", 16, 130, 672, 24, peer_to_peer=False),
    _Gpu(r"\b2080 ?ti\b", "GeForce RTX 2080 Ti", 13.4, 54, 616, 11, peer_to_peer=False),
    _Gpu(r"\b3090\b", "GeForce RTX 3090", 35, 71, 936, 24, peer_to_peer=False, ampere=True),
    _Gpu(r"\b4090\b", "GeForce RTX 4090", 82, 165, 1008, 24, peer_to_peer=False, ampere=True),
    _Gpu(r"\b5090\b", "GeForce RTX 5090", 105, 210, 1792, 32, peer_to_peer=False, ampere=True),
    _Gpu(r"\bm40\b", "Tesla M40", 6.8, 6.8, 288, 12),
    _Gpu(r"\bm60\b|\bg3\.", "Tesla M60", 4.8, 4.8, 160, 8),
    _Gpu(r"\bp40\b", "Tesla P40", 11.8, 11.8, 346, 24),
    _Gpu(r"\bt4\b|\bg4dn\b", "Tesla T4", 8.1, 65, 320, 16),
    _Gpu(r"\brtx ?[68]000\b(?!.*\bada\b)", "Quadro RTX 6000", 16, 130, 672, 24),
    _Gpu(r"\ba6000\b", "RTX A6000", 38, 155, 768, 48, ampere=True),
    _Gpu(
        rf"^(?!.*\bmig\b)(?=.*\ba100\b){_OF_80_GB}",
        "A100 80GB PCIe",
        19.5,
        312,
        1935,
        80,
        ampere=True,
    ),
    _Gpu(r"\ba100\b(?!.*\bmig\b)", "A100-PCIE-40GB", 19.5, 312, 1555, 40, ampere=True),
    _Gpu(
        r"^(?!.*\bmig\b)(?=.*\b(pcie|nvl)\b)(?=.*\bh100\b)",
        "H100 PCIe",
        51,
        756,
        2000,
        80,
        ampere=True,
    ),
    _Gpu(r"\ba10g?\b|\bg5\.", "A10", 31, 125, 600, 24, ampere=True),
    _Gpu(r"\bl4\b", "L4", 30, 121, 300, 24, ampere=True),
    _Gpu(r"\bl40s?\b", "L40", 90, 181, 864, 48, ampere=True),
)
_GPU_WORDS = [(gpu.words, gpu.name) for gpu in _GPUS]
_UNKNOWN = _Gpu("", "unknown GPU", 12, 60, 600, 16)


def _large_enough(box: Hardware, num_gpus: int) -> Hardware:
    """Return a box of the same kind with as many GPUs as rows were made with."""
    if num_gpus <= box.num_gpus:
        return box
    return replace(box, num_gpus=num_gpus, name=f"{box.name} x {num_gpus}")


def _generic(gpu: _Gpu, num_gpus: int) -> Hardware:
    """Return a box as most are: two sockets with up to four GPUs each, two below a switch."""
    return replace(
        profile("v100_pcie_8"),
        name="guessed",
        gpu=gpu.name,
        tflops={"fp32": gpu.fp32, "fp16": gpu.fp16, "bf16": gpu.fp16, "tf32": gpu.tf32},
        memory_gb_per_s=gpu.gb_per_s,
        memory_gib=gpu.gib,
        peer_to_peer=gpu.peer_to_peer,
        num_gpus=max(8, num_gpus),
        sources={},
    )
