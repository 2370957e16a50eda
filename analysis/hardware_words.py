"""The words by which a source names its hardware, in one spelling, so that all who read them read
the same.
"""

from __future__ import annotations

import re


def normalized(text: str) -> str:
    """Lower case, counts apart from what they count: `8xK80` and `K80x8` have the words 8, x and
    k80.

    NVSwitch is NVLink, too, and without NVLink there is PCIe.
    """
    told = text.casefold().replace("?", "").replace("\N{MULTIPLICATION SIGN}", "x")
    told = re.sub(r"\bnv[- ]?(?:link|switch)(?:s|es)?\b", "nvlink", told)
    told = re.sub(r"(?:\bno|\bwithout|\bw/o|\bnon)[ -]nvlink\b", "pcie", told)
    told = re.sub(r"(?<![a-wyz\d.-])(\d+)x(?!large)", r" \1 x ", told)
    # not of DGX1 and GTX1080
    told = re.sub(r"(?:(?<=\d)|(?<=large))x(?=\d+\b(?!\.))|\bx(?=\d)", " x ", told)
    return " ".join(told.split())
