"""How many hosts a published figure is of, by the words in which its source names the hardware:
rows have no axis for it.

`4 nodes x 8xV100`, `1xK80/node`, `p3.16xlarge x2`, `DGX-1`. What such words leave open stays open:
nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, pairwise

from analysis.hardware_words import normalized

MOST_IN_ONE_BOX = 16
"""GPUs that one host may have where its source does not say how many it has: DGX-2 and p2.16xlarge
have so many.
"""
MOST_WORDS = 200  # of a name that are read: a longer one is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the words for some hardware say."""

    gpus_per_host: int | None  # None: they leave it open
    is_several: bool  # they speak of several hosts
    is_exact: bool = False  # hosts of this kind have so many GPUs, whatever a row says
    # the number may be of cards with two GPUs each: sources count K80 and M60 in both ways
    may_be_cards: bool = False


def hosts_of(hardware: str, num_gpus: int) -> int | None:
    """How many hosts a figure on so many GPUs is of; None where the words leave it open.

    A figure on no more GPUs than one host has is of one host. Words that speak of no host mean one.
    """
    told = read(hardware)
    if num_gpus == 1:
        return 1
    if told.gpus_per_host is None:
        return None if told.is_several or num_gpus > MOST_IN_ONE_BOX else 1
    if num_gpus <= told.gpus_per_host * (2 if told.may_be_cards else 1):
        return 1
    return -(-num_gpus // told.gpus_per_host) if told.is_several or told.is_exact else None


def why_several(hardware: str, num_gpus: int) -> str:
    """Why a figure cannot be taken to be of one host; empty where it can."""
    hosts, told = hosts_of(hardware, num_gpus), read(hardware)
    if hosts == 1:
        return ""
    found = f"{hardware!r} with {num_gpus} GPUs"
    if hosts is not None:
        return f"{found} is of {hosts} hosts (GPUs of each: {told.gpus_per_host})"
    if told.gpus_per_host is not None:
        return f"{found} may be of several hosts: the name tells {told.gpus_per_host} GPUs"
    return f"{found} may be of several hosts: the name does not tell how many GPUs each has"


@cache
def read(hardware: str) -> Told:
    """The most certain words count: GPUs per node, hosts times GPUs, a kind of host, and last a
    number of GPUs alone.
    """
    words = list(_words(hardware))
    is_several = any(word.kind == "many" for word in words) or any(
        num > 1 for num in _counts(words, "host", "box", "group")
    )
    is_several = is_several or any(
        (one.kind, of.kind) == ("per", "host") for one, of in pairwise(words)
    )
    if (each := _per_host(words)) is not None:
        return Told(gpus_per_host=each, is_several=True, is_exact=True)
    if (
        own := next((_capacity(word.text) for word in words if word.kind == "box"), None)
    ) is not None:
        return Told(gpus_per_host=own, is_several=is_several, is_exact=True)
    if is_several:
        return Told(gpus_per_host=_joined(words), is_several=True)
    may_be_cards = any(word.text in ("k80", "m60") for word in words)
    return Told(
        gpus_per_host=max(_counts(words, "gpu"), default=None),
        is_several=False,
        may_be_cards=may_be_cards,
    )


@dataclass(frozen=True, slots=True)
class _Word:
    """A word, a number or a sign."""

    kind: str  # a key of _KINDS
    text: str

    @property
    def number(self) -> int:
        return _NUMBERS.get(self.text) or int(self.text)


def _words(hardware: str) -> Iterator[_Word]:
    for found in islice(_WORD.finditer(normalized(hardware)), MOST_WORDS):
        yield _Word(found.lastgroup or "", found[0])


def _counts(words: Sequence[_Word], *kinds: str) -> Iterator[int]:
    """The numbers of what is counted, as `8 x V100`, `4 nodes` or `V100 x 8`."""
    for at, word in enumerate(words):
        if word.kind == "number" and _counted(words, at) in kinds:
            yield word.number


def _counted(words: Sequence[_Word], at: int) -> str:
    """The kind of what the number at this place counts; a group is what has a number of its own, as
    the 2 of `2 x 8 V100`.
    """
    after = at + 1
    has_times = words[after : after + 1] != [] and words[after].kind == "times"
    rest = [word.kind for word in words[after + has_times :]]
    named = _skipped(rest)
    if (
        named[:1] == ["number"]
        and len(named) == len(rest)
        and _counted(words, after + has_times) in ("gpu", "box")
    ):
        return "group"
    if named[:1] in (["gpu"], ["box"], ["host"], ["part"]):
        is_host = named[1:2] == ["many"] and not has_times and named[0] != "part"  # `4 P100 nodes`
        return "host" if is_host else named[0]
    if named[:1] == ["many"]:
        return "host"
    before = _skipped([word.kind for word in reversed(words[:at])], "size", "times")
    if before[:1] in (["gpu"], ["box"], ["host"]) and at and words[at - 1].kind == "times":
        return before[0]
    return "gpu" if has_times and rest[:1] == ["word"] else ""


def _skipped(kinds: Sequence[str], *others: str) -> list[str]:
    """Without what stands before a noun, as in `8 NVIDIA Tesla V100`."""
    skipped = 0
    while skipped < len(kinds) and kinds[skipped] in (others or ("word",)):
        skipped += 1
    return list(kinds[skipped:])


def _per_host(words: Sequence[_Word]) -> int | None:
    """As of `8 GPUs per node`, `1xK80/node`, `n/8 nodes`, `8 GPUs each`."""
    for at, word in enumerate(words):
        if word.kind != "per":
            continue
        if [one.kind for one in words[at + 1 : at + 3]] in (
            ["number", "host"],
            ["number", "many"],
        ) and word.text == "/":
            return words[at + 1].number
        if word.text == "each" or [one.kind for one in words[at + 1 : at + 2]] == ["host"]:
            earlier = [place for place in range(at) if words[place].kind == "number"]
            if earlier and (earlier[-1] == at - 1 or _counted(words, earlier[-1]) == "gpu"):
                return words[earlier[-1]].number
    return None


def _joined(words: Sequence[_Word]) -> int | None:
    """GPUs of each of several hosts, as of `4 nodes x 8xV100`, `8xV100 x 4 nodes`, `2 x 8 V100`,
    and `16 V100 on 2 nodes`; None where nothing joins the two numbers, as in `8 V100, 4 nodes`:
    they may be of each or of all.
    """
    numbers = [
        at
        for at, word in enumerate(words)
        if word.kind == "number" and _counted(words, at) not in ("", "part")
    ]
    kinds = [_counted(words, at) for at in numbers]
    if kinds == ["gpu"]:  # `8xV100 servers`
        rest = [word for word in words[numbers[0] + 1 :] if word.kind != "word"]
        is_of_each = [word.kind for word in rest[:3]] == ["times", "gpu", "many"] and rest[
            2
        ].text != "cluster"
        return words[numbers[0]].number if is_of_each else None
    if len(numbers) != 2 or "gpu" not in kinds:
        return None
    gpus, hosts = (
        words[numbers[place]].number for place in (kinds.index("gpu"), 1 - kinds.index("gpu"))
    )
    between = [
        word.text
        for word in words[numbers[0] + 1 : numbers[1]]
        if word.kind in ("times", "over", "sign", "with")
    ]
    if kinds[0] == "group" or between[-1:] in (["x"], ["*"], ["with"], ["of"], ["@"]):
        return gpus
    if between[-1:] and words[numbers[1] - 1].kind == "over":
        return gpus // hosts if gpus % hosts == 0 else None
    return None


def _capacity(box: str) -> int | None:
    return next((num for pattern, num in _BOXES.items() if re.fullmatch(pattern, box)), None)


_BOXES = {  # kinds of host -> GPUs that each has; None: it is had with several numbers of them
    r"dgx[ -]?station(?: a100)?": 4,
    r"dgx[ -]?2h?": 16,
    r"dgx[ -]?(?:1[vp]?|[abh][12]00)": 8,
    r"p2\.xlarge|p3\.2xlarge|g[3456]\w*\.(?:4x|8x|2x|x)large": 1,
    r"p3\.8xlarge|g[456]\w*\.(?:12|24)xlarge": 4,
    r"p2\.8xlarge|p3\.16xlarge|p3dn\.24xlarge|p4de?\.24xlarge|p5\w*\.48xlarge|g[56]\w*\.48xlarge": 8,
    r"p2\.16xlarge|a2-megagpu-16g": 16,
    r"a[23]-\w+-8g": 8,
    r"a2-\w+-4g": 4,
    r"a2-\w+-2g": 2,
    r"a2-\w+-1g": 1,
    r"dgx|\w+\.(?:\d*x?large|metal)|[a-z]\d\w?-(?:standard|highmem|highcpu|custom)(?:-\d+)?": None,
}
_NUMBERS = {
    "single": 1,
    "one": 1,
    "two": 2,
    "dual": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "eight": 8,
    "sixteen": 16,
}
_GPU = (
    r"(?:gpus?|cards?|accelerators?|titan(?: x| xp| v| rtx)?|[gr]tx ?\d{3,4}(?: ?ti)?|(?:10|20|30|40|50)[5-9]0(?: ?ti)?|"
    r"[kmp]\d{1,3}|v100s?|t4|a\d{1,4}g?|l40?s?|g?h[12]00|g?b[123]00|mi\d{2,3}x?)\b"
)
_KINDS = {
    "box": rf"\b(?:{'|'.join(_BOXES)})\b",
    "part": r"\b(?:xeon|epyc|opteron|intel|e5|cpus?|v?cores?|vcpus?|sockets?|nics?|ports?|lanes?|nvlinks?|nvswitch(?:es)?|ssds?|"
    r"\d+ ?g(?:bit|be|bps)(?:/s)?|\d+(?:\.\d+)?-way|infiniband|[ehfn]dr)\b",
    "size": r"\b\d+ ?(?:gi?b?|ti?b)\b|\bsxm\d?\b",
    "gpu": rf"\b{_GPU}",
    "many": r"\b(?:nodes|servers|hosts|machines|instances|vms|boxes|systems|clusters?|several|multiple|multi|superpod|"
    r"supercomputer)\b",
    "host": r"\b(?:node|server|host|machine|instance|vm|box|system|computer)\b",
    "per": r"/|\b(?:per|each|every)\b",
    "over": r"\b(?:on|over|across|in)\b",
    "with": r"\b(?:with|of|having)\b|@",
    # A 0 counts nothing: what it should count is left open.
    "number": rf"(?<![\w.])[1-9]\d{{0,5}}(?![\w.])|\b(?:{'|'.join(_NUMBERS)})\b",
    "times": r"\bx\b|\*",
    "sign": r"[,;:()+&]",
    "word": r"[^\W_]+",
}
_WORD = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))
