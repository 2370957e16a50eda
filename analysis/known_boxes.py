"""Tells from a result which GPUs of its box fast links join, and whether its strategy is known."""

import re
from collections.abc import Mapping
from typing import Any

from analysis.results import Environment
from scalemark.abilities import VARIABLE_UPDATES, Sends
from simulator.costs.box import Hardware

_MOST_CHARACTERS = 300  # of a name that are read: a longer one is none
_USUAL_NUM = 8  # GPUs of a box, where its words do not say another number
_BY_PAIRS = {16: 4, 28: 8}  # NVLinked pairs of 8 GPUs: two cliques as of DGX-1, or a switch


def num_gpus_there(environment: Environment) -> int:
    """Return how many GPUs the box has; 0 where that is not known."""
    if environment.hardware_profile:
        return Hardware.from_json(environment.hardware_profile).num_gpus
    return environment.gpus.num if environment.gpus else 0


def fast_group(environment: Environment, num_gpus: int, *, by_ring: bool) -> int | None:
    """Return how many GPUs reach each other by NVLink, or in a box without by one socket's PCIe;
    None where it is not known.

    `by_ring`: gradients go from neighbor to neighbor, so that a slower link holds up all.
    """
    if environment.hardware_profile:
        box = Hardware.from_json(environment.hardware_profile)
        if box.nvlink_gb_per_s is None:
            return box.gpus_per_socket
        return box.nvlink_clique if by_ring else None
    if environment.gpus is None:
        words = _normalized(environment.machine[:_MOST_CHARACTERS])
        linked = next((num for pattern, num in _NVLINKED if re.search(pattern, words)), None)
        is_of_sockets = linked is None and re.search(_OF_SOCKETS, words) is not None
    else:
        name, num_pairs = environment.gpus.name.lower(), environment.gpus.num_nvlink_pairs
        if environment.gpus.num != _USUAL_NUM:
            return None
        linked = _BY_PAIRS.get(num_pairs)
        is_of_sockets = num_pairs == 0 and re.search(_PCIE_GPUS, name) is not None
    if is_of_sockets:
        return max(num_gpus, _USUAL_NUM) // 2
    return linked if by_ring else None


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


# as NVML names GPUs whose boxes have two sockets
_PCIE_GPUS = r"\b(v100|p100)-pcie\b|\bgtx titan x$"
# words of a source, in any order
_OF_SOCKETS = r"^(?!.*\b(nvlink|k80|[ah]100|h200)\b).*\b([pv]100|gn5|titan x(?!.*\bpascal))\b"
_NVLINKED = (
    (r"\bdgx[ -]?2h?\b|^(?=.*\bsxm3\b).*\bv100\b", 16),
    (r"^(?!.*\b(pcie|nvl)\b).*\b([ah]100|h200|p4de|a2-ultragpu)\b", 8),
    (r"\bdgx[ -]?1[pv]\b|\bp3\.(8|16)xlarge\b|\bp3dn\b", 4),
    (r"^(?=.*\b(dgx[ -]?1|sxm2?|nvlink)\b).*\b[pv]100\b", 4),
    (r"^(?!.*\bpcie\b)(.*\bgce\b.*\bv100\b|.*\b8 x (nvidia |tesla )*v100\b)", 4),
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
