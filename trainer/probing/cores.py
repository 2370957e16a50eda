"""Says whether others took cores of this process while it measured."""

from __future__ import annotations

import os

from trainer.verdict import MAX_FOREIGN_SHARE
from trainer.watching import contention
from trainer.watching.contention import Moment


def now() -> Moment:
    return contention.now()


def doubt(before: Moment) -> str:
    """Return why figures since then may be too low; empty where nothing speaks for it."""
    taken = contention.cores_taken_by_others(before, now())
    num_cores = len(os.sched_getaffinity(0))
    if taken is None or taken <= MAX_FOREIGN_SHARE * num_cores:
        return ""
    return f"others took {taken:.1f} of {num_cores} cores; end them, and probe again"
