"""One spelling for the words by which sources name their hardware."""

from __future__ import annotations

import re


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
