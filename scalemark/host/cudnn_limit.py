"""Knows how large a tensor cuDNN takes, and the line with which TensorFlow ends for a larger one.

Seen with TensorFlow 2.21 and cuDNN 9.19 on an H200: batch normalization of such a tensor ends the
process by SIGABRT. 2^31 are refused, and fewer are not (microsoft/onnxruntime#15715). Standard
library only.
"""

from __future__ import annotations

import re
from math import prod

MOST_NUMBERS = 2**31 - 1  # of one tensor that a descriptor of cuDNN describes
_REFUSED = re.compile(
    r"Check failed: cudnnSetTensorNdDescriptor\b.*"
    r"batch_descriptor: \{count: (\d+) feature_map_count: (\d+) spatial: ((?:\d+ )*\d+)"
)


def too_large(line: str) -> str:
    """Return what a line of a log says of a tensor too large for cuDNN; empty for other lines."""
    found = _REFUSED.search(line)
    if not found:
        return ""
    examples, channels, spatial = found.groups()
    numbers = prod(map(int, (examples, channels, *spatial.split())))
    if numbers <= MOST_NUMBERS:
        return ""
    return (
        f"a tensor has {numbers:,} numbers, of {examples} examples, and cuDNN takes fewer than "
        "2^31; choose a smaller batch_size or image_px"
    )
