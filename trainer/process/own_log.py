"""Reads what this process has logged, in which libraries tell more than their errors do."""

from __future__ import annotations

import ctypes
import os

from scalemark.run_folder.folder import RunFolder
from scalemark.run_folder.regular_file import open_regular
from trainer.ranks.own_rank import OwnRank

_TAIL_BYTES = 2**20  # an allocator's summary of what it holds may take most of it
_LINE_BUFFERED = 1  # _IOLBF of glibc's stdio.h


def write_lines_at_once() -> None:
    """Let libraries write their lines to the log at once.

    NCCL writes warnings to C's standard output, which keeps 4 KiB of what goes to a file: the last
    ones of a process that hangs were lost.
    """
    library = ctypes.CDLL(None)
    output = ctypes.c_void_p.in_dll(library, "stdout")
    library.setvbuf(output, None, _LINE_BUFFERED, ctypes.c_size_t(0))


def tail(folder: RunFolder, own: OwnRank | None) -> str:
    """Return the end of it; empty where it goes elsewhere, as of a trainer started by hand."""
    try:
        with open_regular(folder.rank_log(own.rank) if own else folder.log) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
