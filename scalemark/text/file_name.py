"""Makes names of files and folders out of the values of axes."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[^\w.,+=@()\[\] -]+", re.ASCII)
_LONGEST = 150  # characters; most file systems take 255 bytes, and more is added to it


def safe_name(text: str) -> str:
    """Replace what is unsafe in a file name: `models/my_model.py:build` is
    `models_my_model.py_build`.
    """
    return _UNSAFE.sub("_", text).lstrip(".").strip()[:_LONGEST]
