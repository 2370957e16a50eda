"""The states of repeats and attempts, and the verdicts on their numbers."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The end of one attempt."""

    COMPLETED = "completed"
    FAILED = "failed"
    OUT_OF_MEMORY = "out_of_memory"
    TIMED_OUT = "timed_out"
    HUNG = "hung"
    INTERRUPTED = "interrupted"
    UNSUPPORTED = "unsupported"
    INVALID = "invalid"


class State(StrEnum):
    """The state of one repeat in its sweep; after `running` the outcome of its last attempt."""

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
    """The phase of a trainer, as its run folder says; each has its own deadline."""

    BUILDING = "building"  # until the first step is done
    STEPPING = "stepping"
    PROFILING = "profiling"  # and whatever else comes after the last measured step


IN_FLIGHT = (State.CLAIMED, State.RUNNING)
"""States of repeats that an orchestrator has taken."""


class Phase(StrEnum):
    """The part of an attempt that a step belongs to; only `measure` steps make the numbers."""

    WARM_UP = "warm_up"
    MEASURE = "measure"


class Verdict(StrEnum):
    """Says whether a measurement may be quoted."""

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

LAST_LINES = "Its last lines:"
"""Begins the line of a message that what a program printed in the end follows."""


def without_last_lines(message: str) -> str:
    """Return why an attempt did not complete, without the last lines of a program."""
    return message.partition(f"\n{LAST_LINES}")[0]
