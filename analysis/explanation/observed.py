"""What was seen beside the step times of a trial: waiting for input, clocks, neighbors, and
TensorFlow's profile.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.results import Result, is_quotable
from analysis.source import Source
from scalemark.records.planted import PLANTED_REASON

THROTTLING = (
    "hw_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "sw_thermal_slowdown",
    "sw_power_cap",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Medians over the attempts of one trial that have a number. None where nobody looked."""

    data_wait_share: float | None = None  # of the measured window
    cores_taken: float | None = None  # by others, of all cores: 0..1
    num_cores: int | None = None
    # of the GPU that lost most, for which the others wait, below the highest clock it can: 0..1
    clock_loss: float | None = None
    throttled: tuple[str, ...] = ()  # reasons that were seen
    num_parameters: int | None = None
    link_bytes_per_s: float | None = None  # between its hosts, before the measured steps
    doubts: tuple[str, ...] = ()  # why an attempt is suspect, what is planted left out
    # of the newest attempt that has one: a scalemark.records.measurement.Profile
    profile: Mapping[str, Any] | None = None

    @property
    def exposed_share(self) -> float | None:
        """Of the step while profiled, in which gradients were reduced and nothing else was done."""
        return (
            None
            if self.profile is None
            else self.profile["exposed_reduction_s"] / self.profile["step_s"]
        )

    @property
    def launch_gap_share(self) -> float | None:
        return None if self.profile is None else self.profile["launch_gap_share"]


NOTHING = Observed()


def observed(attempts: Sequence[Mapping[str, Any]]) -> Observed:
    """Of rows of `store.reading.queries.attempt_details`, oldest first."""
    taken = [
        row["cores_taken_by_others"] / row["num_cores"]
        for row in attempts
        if row["cores_taken_by_others"] is not None
    ]
    gpus = [gpu for row in attempts for gpu in row.get("recorded_telemetry") or ()]
    seen = {reason for gpu in gpus for reason in gpu["throttle_reasons"] if reason in THROTTLING}
    doubts = (
        reason
        for row in attempts
        for reason in row["verdict_reasons"] or ()
        if not reason.startswith(PLANTED_REASON)
    )
    return Observed(
        data_wait_share=_median(row["data_wait_share"] for row in attempts),
        cores_taken=_median(taken),
        num_cores=attempts[-1]["num_cores"] if attempts else None,
        clock_loss=_median(_clock_loss(row.get("recorded_telemetry") or ()) for row in attempts),
        throttled=tuple(sorted(seen)),
        num_parameters=attempts[-1]["num_parameters"] if attempts else None,
        link_bytes_per_s=_median(row["link_bytes_per_s"] for row in attempts),
        doubts=tuple(dict.fromkeys(doubts)),
        profile=next(
            (row["recorded_profile"] for row in reversed(attempts) if row["recorded_profile"]), None
        ),
    )


def observer(source: Source) -> Callable[[Result], Observed]:
    """Of each of its results; of published figures nothing."""

    def observe(result: Result) -> Observed:
        rows = [source.attempts[number] for number in result.attempt_ids]
        return observed([row for row in rows if is_quotable(row)]) if rows else NOTHING

    return observe


def _clock_loss(gpus: Iterable[Mapping[str, Any]]) -> float | None:
    """Of the one that lost most."""
    clocks = ((gpu["sm_clock_mhz"], gpu["max_sm_clock_mhz"]) for gpu in gpus)
    return max(
        (1 - clock / highest for clock, highest in clocks if clock and highest), default=None
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
