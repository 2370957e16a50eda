"""Recognizes errors that are a lack of host memory, also under a limit. Standard library only."""

from __future__ import annotations

import errno
import re

OUT_OF_HOST_MEMORY = (
    "out of host memory; try a smaller batch_size, image_px or seq_len, or a higher limit "
    "(ulimit -v, control group)"
)
_SIGNS = re.compile(
    r"std::bad_alloc|^MemoryError\b|Cannot allocate memory"
    r"|CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"
    r"|Unable to allocate [\d.]+ \w+ for an array"
    # unless its file system is noexec
    r"|failed to map segment from shared object(?!: (?:Operation not|Permission))"
)
_OTHER_LIMITS = {  # that are reported with the same words, or mostly the cause of what is reported
    re.compile(r"pthread_create\(\) failed|can't start new thread"): (
        "no thread could be started; raise the limit of processes (ulimit -u, pids.max of "
        "the control group), or that of memory"
    ),
    re.compile(r"(?i)(?:ibv_|memlock|mlock|regist(?:er|ration)).*Cannot allocate memory"): (
        "memory could not be locked; raise the limit of locked memory (ulimit -l)"
    ),
    re.compile(r"File too large|SIGXFSZ"): "a file met the limit of its size; raise it (ulimit -f)",
}


def is_lack_of_host_memory(error: BaseException) -> bool:
    """Check the error itself, and those that it was raised for."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, MemoryError) or says_so(str(seen)):
            return True
        if isinstance(seen, OSError) and seen.errno == errno.ENOMEM:
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def says_so(line: str) -> bool:
    """Return whether a line of a log, or the text of an error, reports a lack of memory."""
    return bool(_SIGNS.search(line)) and not other_limit(line)


def other_limit(line: str) -> str:
    """Return what to do about a limit that is not one of memory; empty for other lines."""
    for sign, remedy in _OTHER_LIMITS.items():
        if sign.search(line):
            return remedy
    return ""
