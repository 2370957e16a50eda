"""Reads how many hosts a published figure is of from the words in which its source names the
hardware.

Rows have no axis for it, but sources write `4 nodes x 8xV100`, `1xK80/node`, `p3.16xlarge x2` or
`DGX-1`. What such words leave open stays open: nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

# GPUs that one host may have where its source does not say: DGX-2 and p2.16xlarge have so many
MOST_IN_ONE_BOX = 16
_MOST_CHARACTERS = 300  # of a name that are read: a longer one is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """The meaning of the words for some hardware."""

    gpus_per_host: int | None  # None: they leave it open
    is_several: bool  # they speak of several hosts
    is_exact: bool = False  # hosts of this kind have so many GPUs, whatever a row says
    # the number may be of cards with two GPUs each: sources count K80 and M60 in both ways
    may_be_cards: bool = False


def hosts_of(hardware: str, num_gpus: int) -> int | None:
    """Return how many hosts a figure on so many GPUs is of; None where the words leave it open.

    A figure on no more GPUs than one host has is of one host. Words that name no host mean one.
    """
    found = read(hardware)
    if num_gpus == 1:
        return 1
    if found.gpus_per_host is None:
        return None if found.is_several or num_gpus > MOST_IN_ONE_BOX else 1
    if num_gpus <= found.gpus_per_host * (2 if found.may_be_cards else 1):
        return 1
    is_known = found.is_several or found.is_exact
    return -(-num_gpus // found.gpus_per_host) if is_known else None


def why_several(hardware: str, num_gpus: int) -> str:
    """Return why a figure cannot be taken to be of one host; empty where it can."""
    hosts, each = hosts_of(hardware, num_gpus), read(hardware).gpus_per_host
    if hosts == 1:
        return ""
    what = f"{hardware!r} with {num_gpus} GPUs"
    if hosts is None:
        return f"{what} may be of several hosts (GPUs of each: {each or 'not reported'})"
    return f"{what} is of {hosts} hosts (GPUs of each: {each})"


@cache
def read(hardware: str) -> Reported:
    """Read the surest words: GPUs per node, a kind of host, hosts times GPUs, then GPUs alone."""
    text = normalized(hardware[:_MOST_CHARACTERS])
    for word, digit in _DIGITS.items():
        text = re.sub(rf"\b{word}\b", digit, text)
    if each := _PER_HOST.search(text):
        return Reported(gpus_per_host=int(each[1]), is_several=True, is_exact=True)
    boxes = [int(one) for pattern in _NUM_BOXES for one in re.findall(pattern, text)]
    is_several = bool(_SEVERAL.search(text)) or any(num > 1 for num in boxes)
    if box := _BOX.search(text):
        for pattern, num_gpus in _BOXES.items():
            if re.fullmatch(pattern, box[0]):
                return Reported(gpus_per_host=num_gpus, is_several=is_several, is_exact=True)
    if each := _GROUPS.search(text):
        return Reported(gpus_per_host=int(each[1]), is_several=True)
    if is_several:
        return Reported(gpus_per_host=_joined(text), is_several=True)
    found = [int(one) for pattern in _NUM_GPUS for one in re.findall(pattern, text)]
    may_be_cards = re.search(r"\b[km][86]0\b", text) is not None
    return Reported(
        gpus_per_host=max(found, default=None), is_several=False, may_be_cards=may_be_cards
    )


def normalized(text: str) -> str:
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


def _joined(text: str) -> int | None:
    """Return the GPUs of each of several hosts; None where nothing joins the two numbers, as in
    `8 V100, 4 nodes`: they may be of each or of all.
    """
    if each := _EACH.search(text):
        return int(each[1] or each[2] or each[3])
    if spread := _OVER.search(text):
        num_gpus, hosts = int(spread[1]), int(spread[2])
        return num_gpus // hosts if num_gpus % hosts == 0 else None
    return None


_DIGITS = {
    **{"single": "1", "one": "1", "two": "2", "dual": "2", "three": "3", "four": "4"},
    **{"five": "5", "six": "6", "eight": "8", "sixteen": "16"},
}
_BOXES = {  # kinds of host that come with one number of GPUs alone
    r"dgx[ -]?station(?: a100)?": 4,
    r"dgx[ -]?2h?": 16,
    r"dgx[ -]?(?:1[vp]?|[abh][12]00)": 8,
    r"p2\.xlarge|p3\.2xlarge|g[3456]\w*\.(?:4x|8x|2x|x)large": 1,
    r"p3\.8xlarge|g[456]\w*\.(?:12|24)xlarge": 4,
    r"p2\.8xlarge|p3\.16xlarge|p3dn\.24xlarge|p4de?\.24xlarge|[pg][56]\w*\.48xlarge": 8,
    r"p2\.16xlarge|a2-megagpu-16g": 16,
    r"a[23]-\w+-8g": 8,
    r"a2-\w+-4g": 4,
    r"a2-\w+-2g": 2,
    r"a2-\w+-1g": 1,
}
_OTHER_BOX = (
    r"dgx|\w+\.(?:\d*x?large|metal)|[a-z]\d\w?-(?:standard|highmem|highcpu|custom)(?:-\d+)?"
)
_ANY_BOX = rf"(?:{'|'.join(_BOXES)}|{_OTHER_BOX})\b"
_BOX = re.compile(rf"\b{_ANY_BOX}")

_N = r"(?<![\w.-])([1-9]\d{0,5})"  # a 0 counts nothing
_HOST = r"(?:node|server|host|machine|instance|vm|box|system|computer)(?:s|es)?\b"
_PART = r"(?:xeon|epyc|intel|cpus?|v?cores?|sockets?|nics?|ports?|lanes?|g(?:i?b|be|bit)\w*)\b"
_GPU = (
    r"(?:(?:nvidia|tesla|geforce|quadro|pascal|volta)[ -])*"
    r"(?:gpu|card|accelerator|titan|[gr]tx|[kpvmahlb]\d{2,3}|t4)"
)
_NUM_BOXES = (rf"{_N}[ -](?:x )?{_ANY_BOX}", rf"\b{_ANY_BOX} x {_N}\b", rf"{_N}[ -]{_HOST}")
_SEVERAL = re.compile(
    r"\b(?:nodes|servers|hosts|machines|instances|vms|boxes|systems|clusters?|several|multiple|"
    rf"multi|superpod|supercomputer)\b|(?:/ ?|\bper |\beach ){_HOST}"
)
# `8 gpus per node`, `1 x k80/node`, `8 gpus in each of 4 nodes`, `8 gpus each`
_PER_HOST = re.compile(
    rf"{_N}(?: x)?(?: [a-z][\w-]*){{0,3}}? ?(?:(?:/ ?|\bper |\bin each of )(?:\d+ )?{_HOST}|each\b)"
)
_GROUPS = re.compile(rf"\b\d+ x {_N} (?:x )?{_GPU}")  # `2 x 8 v100`
# `4 nodes x 8 x v100`, `8 x v100 x 4 nodes` and `a100 80gb x 8 x 2 nodes`
_EACH = re.compile(
    rf"\d[ -]{_HOST} (?:x|with|of) {_N}\b|{_N} x (?!{_PART})[^,;(]+ x \d+ {_HOST}|"
    rf"\b{_GPU}\S*(?: [\w-]+)? x {_N} x \d+ {_HOST}"
)
# `16 v100 on 2 servers` and `8 x titan x over 2 hosts`
_OVER = re.compile(
    rf"{_N} (?:x )?{_GPU}[^\s,;(]*(?: [a-z]\w*)?? (?:on|over|across|in) {_N} {_HOST}"
)
_NUM_GPUS = (  # `8 x foocard`, `8 v100`, `8-gpu`, `k80 x 8`
    rf"{_N} x (?=[a-z])(?!{_PART})",
    rf"{_N}[ -]{_GPU}",
    rf"(?<!pcie) x {_N}\b(?! (?:x )?{_PART})(?! [a-z])",
)
