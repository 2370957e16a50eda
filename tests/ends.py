"""That what a killed test run had started ends, too."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from select import select

import psutil

PATIENCE_S = 300  # it costs nothing where all is well, and a busy machine may need much


@contextmanager
def ends(processes: list[psutil.Process]) -> Iterator[None]:
    """Asserts that all die in the body or soon after; an orphan may stay a zombie where nobody reaps it."""
    assert processes
    with ExitStack() as stack:
        signs = [
            stack.enter_context(os.fdopen(os.pidfd_open(process.pid))) for process in processes
        ]
        yield
        for process, sign in zip(processes, signs, strict=True):
            assert select([sign], [], [], PATIENCE_S)[0], f"{process} lives on"
