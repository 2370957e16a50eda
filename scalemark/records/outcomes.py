"""How attempts end, where repeats stand, and what may be said of a number."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How one attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"


class State(StrEnum):
    """Where one repeat of a trial stands in its sweep. After `running` it is the outcome of the
    last attempt.
    """

    PENDING = "pending"  # to be run, or to be tried again
    CLAIMED = "claimed"  # one orchestrator has taken it; nothing is started yet
    RUNNING = "running"  # its process is started, or about to be
    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"
    SKIPPED = "skipped"  # never run, for a reason that stands beside it


class Doing(StrEnum):
    """What a trainer is at, as it tells in its run folder: each has its own deadline."""

    BUILDING = "building"  # until the first step is done
    STEPPING = "stepping"
    PROFILING = "profiling"  # and whatever else comes after the last measured step


IN_FLIGHT = (State.CLAIMED, State.RUNNING)
"""Of repeats that an orchestrator has in its hands."""


class Phase(StrEnum):
    """Which part of an attempt a step belongs to; only `measure` steps make the numbers."""

    WARM_UP = "warm_up"
    MEASURE = "measure"


class Verdict(StrEnum):
    """May a measurement be quoted?"""

    VALID = "valid"
    SUSPECT = "suspect"
    INVALID = "invalid"


TRAINER_EXIT_CODES = {
    0: Outcome.COMPLETED,
    1: Outcome.FAILED,
    3: Outcome.UNSUPPORTED,
    4: Outcome.OUT_OF_MEMORY,
    5: Outcome.INVALID,
    6: Outcome.HUNG,  # a rank of a distributed trial
    130: Outcome.INTERRUPTED,
}
"""Exit status of `python -m trainer`; every other status is `failed`."""
