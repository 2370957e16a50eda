"""The states of repeats and attempts, verdicts, and faults that can be injected."""

from collections.abc import Mapping
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
EXIT_CODES = {outcome: code for code, outcome in TRAINER_EXIT_CODES.items()}

LAST_LINES = "Its last lines:"
"""Begins the line of a message that what a program printed in the end follows."""


def without_last_lines(message: str) -> str:
    """Return why an attempt did not complete, without the last lines of a program."""
    return message.partition(f"\n{LAST_LINES}")[0]


INJECTED = {
    "noise": "standard deviation of a step's time within a process, over its mean",
    "process_noise": "standard deviation of processes' mean step times, over their mean",
    "drift": "growth of the step time over the whole attempt, over its mean",
    "throttling": "share of the GPUs' clock that is lost",
    "contention": "share of the host's cores that others take",
    "launch_s": "seconds more per step between kernels",
    "reduction_s": "seconds more per step while gradients are reduced",
    "input_s": "seconds more that each batch takes to make",
    "slow_replica_by": "share of its own compute that one replica takes longer",
    "slow_replica": "number of that replica, counted from 0",
    "out_of_memory": "1 = runs out of memory",
    "hang": "1 = stops for good half-way through the measured steps",
    "failure_rate": (
        "share of attempts that fail without a result, drawn by the seed and the attempt's folder"
    ),
}
"""Faults by name, with their meaning. Simulated trials can have all of them."""

_RETIRED = ("link_mbit",)  # that trials in older databases have

NOISE = ("noise", "process_noise")
"""Noise that simulated trials have as real ones do; it is no fault."""

INJECTED_FOR_REAL = ("reduction_s", "input_s", "slow_replica_by", "slow_replica")
"""Faults that TensorFlow trials can have, too, by waiting. Their numbers are suspect."""

INJECTED_REASON = "injected: "
"""Begins the reason of a verdict that is suspect only for injected faults."""


def injected_text(values: Mapping[str, float]) -> str:
    """Return faults as canonical text, the same for equal values."""
    return " ".join(f"{name}={values[name]:g}" for name in sorted(values))


def read_injected(text: str) -> dict[str, float]:
    """Invert `injected_text`. Raises ValueError for text that is not canonical."""
    values: dict[str, float] = {}
    for part in text.split():
        name, _, value = part.partition("=")
        if name not in INJECTED and name not in _RETIRED:
            raise ValueError(f"injected={text}: no {name}; there are {', '.join(INJECTED)}")
        try:
            values[name] = float(value)
        except ValueError:
            raise ValueError(f"injected={text}: wanted NAME=NUMBER, found {part}") from None
        if not 0 <= values[name] < float("inf"):
            raise ValueError(f"injected.{part}: wanted a finite number, 0 or more")
    if injected_text(values) != text:
        raise ValueError(
            f"injected={text}: wanted {injected_text(values)}, each name once and in order"
        )
    return values
