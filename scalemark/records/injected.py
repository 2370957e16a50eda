"""Faults that can be injected into a trial to check that they are found."""

from __future__ import annotations

from collections.abc import Mapping

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
    "link_mbit": "megabits per second that each host's link takes each way; 0 = as it is",
    "out_of_memory": "1 = runs out of memory",
    "hang": "1 = stops for good half-way through the measured steps",
    "failure_rate": (
        "share of attempts that fail without a result, drawn by the seed and the attempt's folder"
    ),
}
"""Faults by name, with their meaning. Simulated trials can have all of them."""

INJECTED_ON_LINKS = ("link_mbit",)
"""Faults that slow links between hosts."""

NOISE = ("noise", "process_noise")
"""Noise that simulated trials have as real ones do; it is no fault."""

INJECTED_FOR_REAL = ("reduction_s", "input_s", "slow_replica_by", "slow_replica", "link_mbit")
"""Faults that TensorFlow trials can have, too, by waiting or by a slower network. Their numbers are
suspect.
"""

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
        if name not in INJECTED:
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


def injected_on_one_host(text: str) -> str:
    """Leave out the faults of links between hosts."""
    values = read_injected(text)
    for name in INJECTED_ON_LINKS:
        values.pop(name, None)
    return injected_text(values)
