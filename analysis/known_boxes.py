"""What the cost model knows of a result: its box, and whether it knows its strategy."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from analysis.results import Environment
from scalemark.abilities import VARIABLE_UPDATES, Sends
from simulator.costs.box import Hardware, profile

_MOST_CHARACTERS = 300  # of a name that are read: a longer one is none


def known_box(environment: Environment, num_gpus: int) -> Hardware | None:
    """Return the box, with room for `num_gpus`; None where no profile describes it."""
    if environment.hardware_profile:
        return _large_enough(Hardware.from_json(environment.hardware_profile), num_gpus)
    if gpus := environment.gpus:
        name = _first_match(_BY_GPU, gpus.name.lower())
        if name is None:
            return None
        box = profile(name)
        if (gpus.num, gpus.num_nvlink_pairs) != (box.num_gpus, box.num_nvlink_pairs):
            return None
        return _large_enough(box, num_gpus)
    words = _normalized(environment.machine[:_MOST_CHARACTERS])
    name = _first_match(_BY_WORDS, words)
    if name is None:
        return None
    box = profile(name)
    if box.nvlink_gb_per_s is None and re.search(r"\bnvlink\b", words):
        return None
    return _large_enough(box, num_gpus)


def _normalized(text: str) -> str:
    """Lower the case, and set counts apart: `8xK80` and `K80x8` have the words 8, x and k80.

    NVSwitch is NVLink, too, and without NVLink there is PCIe.
    """
    words = text.casefold().replace("?", "").replace("\N{MULTIPLICATION SIGN}", "x")
    words = re.sub(r"\bnv[- ]?(?:link|switch)(?:s|es)?\b", "nvlink", words)
    words = re.sub(r"(?:\bno|\bwithout|\bw/o|\bnon)[ -]nvlink\b", "pcie", words)
    words = re.sub(r"(?<![a-wyz\d.-])(\d+)x(?!large)", r" \1 x ", words)
    # not of DGX1 and GTX1080
    words = re.sub(r"(?:(?<=\d)|(?<=large))x(?=\d+\b(?!\.))|\bx(?=\d)", " x ", words)
    return " ".join(words.split())


def _first_match(patterns: tuple[tuple[str, str], ...], words: str) -> str | None:
    return next((name for pattern, name in patterns if re.search(pattern, words)), None)


def _large_enough(box: Hardware, num_gpus: int) -> Hardware:
    return replace(box, num_gpus=max(box.num_gpus, num_gpus))


_BY_GPU = (  # as NVML names a GPU; a part of one (MIG) matches none
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
)
_NVLINKED = r"(?=.*\b(?:dgx[ -]?1|sxm2?|nvlink)\b)"
_OF_80_GB = (  # and not 80 GB of the host's memory
    r"(?=.*\b(?:a100(?:(?!40)[^,;]){0,20}[ (-]80 ?gi?b?|80 ?gi?b? (?:nvidia )?a100"
    r"|dgx[ -]?a100[ -]640 ?gb|p4de|a2-ultragpu)\b)"
)
_BY_WORDS = (  # of a source, in any order
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


def is_known(axes: Mapping[str, Any]) -> bool:
    """Return whether the strategy is known by its name, and nothing of it is assumed."""
    update = _bare(axes["variable_update"])
    abilities = VARIABLE_UPDATES.get(update)
    is_ours = abilities is not None and abilities.sends is not Sends.UNKNOWN
    if not is_ours and update not in _OF_OTHERS:
        return False
    if axes["num_gpus"] == 1 and update == "replicated":
        return True  # on one GPU nothing is reduced
    return all(_bare(axes[axis]) not in ("", "n/a") for axis in _NEEDED.get(update, ()))


_OF_OTHERS = ("horovod", "ddp")  # libraries that published figures name
_NEEDED = {"parameter_server": ("local_parameter_device",), "replicated": ("all_reduce",)}


def _bare(text: object) -> str:
    """Return the text without doubts and remarks."""
    return re.sub(r"[?(].*", "", str(text or "")).strip().lower()
