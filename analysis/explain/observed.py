"""Reads what is known beside step times: waiting for input, clocks, neighbors, and a profile."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.results import Result, is_quotable
from analysis.selection import Source
from scalemark.records.measurement import INJECTED_REASON
from simulator.costs.networks import Network, network

LAUNCH_S = 40e-6  # of one kernel, from the host's queue to its start: 20 to 40 us in the guide
LEAST_LAUNCH_S = 20e-6
COMPUTED_AGAIN = 4 / 3  # of the operations, where the forward pass is computed twice

Times = Mapping[str, Sequence[float]]
"""Replica -> seconds of its own compute in each round of one process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """The time of a replica above the median of the others, as a share of that."""

    replica: str
    value: float
    low: float  # both hold for all replicas at once in 98 % of cases
    high: float
    others_s: float  # median time of the others' own compute


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowReplicas:
    """The answer to which replica is slow, see `analysis.explain.slow_replica`."""

    slow: tuple[Slowness, ...]  # slowest first; empty where none is, or where it cannot be told
    slowest: Slowness | None  # None where there are too few times
    unknown: str = ""  # why it cannot be told, a part of a sentence; empty where it can
    timed_in: str = ""  # another trial that timed them; empty: this one, or none


UNTIMED = SlowReplicas(slow=(), slowest=None, unknown="the compute of each replica was not timed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Medians over the attempts of one trial that have a number; None where it was not recorded."""

    data_wait_share: float | None = None  # of the measured window
    cores_taken: float | None = None  # by others, of all cores: 0..1
    num_cores: int | None = None
    # of the GPU that lost most, for which the others wait, below the highest clock it can: 0..1
    clock_loss: float | None = None
    # reason why clocks were lowered, as trainer/watching/telemetry.py names it -> UUIDs of the GPUs
    throttled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    num_parameters: int | None = None
    doubts: tuple[str, ...] = ()  # why an attempt is suspect, but for injected faults
    # of the newest attempt that has one: a scalemark.records.measurement.Profile
    profile: Mapping[str, Any] | None = None
    replica_times: tuple[Times, ...] = ()  # of each attempt that timed them

    @property
    def launch_gap_share(self) -> float | None:
        """Share of the profiled step in which GPUs waited for the host to launch kernels.

        From one step to the next they may wait for input, or for a reduction elsewhere, too.
        """
        if self.profile is None:
            return None
        within, between = self.profile["launch_gap_share"], self.profile.get("step_gap_share")
        if within is None:
            return None
        if between is None:
            return float(within)
        waits = self.profile["input_wait_s"] + self.profile["exposed_reduction_s"]
        return float(within + max(0.0, between - waits / self.profile["step_s"]))


NOTHING = Observed()


def observed(attempts: Sequence[Mapping[str, Any]]) -> Observed:
    """Summarize rows of `store.reading.listing.attempt_details`, oldest first."""
    if not attempts:
        return NOTHING
    taken: list[float] = []
    clock_losses: list[float | None] = []
    throttled: dict[str, dict[str, None]] = {}
    doubts: dict[str, None] = {}
    profile = None
    replica_times = []
    for row in attempts:
        if row["cores_taken_by_others"] is not None:
            taken.append(row["cores_taken_by_others"] / row["num_cores"])
        gpus = row.get("recorded_telemetry") or ()
        clock_losses.append(_clock_loss(gpus))
        for gpu in gpus:
            for cause in gpu["throttle_reasons"]:
                throttled.setdefault(cause, {})[gpu["uuid"]] = None
        for reason in row["verdict_reasons"] or ():
            if not reason.startswith(INJECTED_REASON):
                doubts[reason] = None
        profile = row["recorded_profile"] or profile
        times = row.get("recorded_replica_times")
        if times:
            replica_times.append(times["seconds"])
    newest = attempts[-1]
    return Observed(
        data_wait_share=_median(row["data_wait_share"] for row in attempts),
        cores_taken=_median(taken),
        num_cores=newest["num_cores"],
        clock_loss=_median(clock_losses),
        throttled={cause: tuple(gpus) for cause, gpus in throttled.items()},
        num_parameters=newest["num_parameters"],
        doubts=tuple(doubts),
        profile=profile,
        replica_times=tuple(replica_times),
    )


def observer(source: Source) -> Callable[[Result], Observed]:
    """Return what observes a result of the source; of published figures nothing is seen."""

    def observe(result: Result) -> Observed:
        rows = [source.attempts[number] for number in result.attempt_ids]
        return observed([row for row in rows if is_quotable(row)])

    return observe


def _clock_loss(gpus: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the loss of the GPU that lost most."""
    losses = []
    for gpu in gpus:
        clock, highest = gpu["sm_clock_mhz"], gpu["max_sm_clock_mhz"]
        if clock and highest:
            losses.append(1 - clock / highest)
    return max(losses, default=None)


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def kernels_s(axes: Mapping[str, Any]) -> float | None:
    """Return the launches of a step, if each waited as long as the performance guide saw it."""
    counted = _network(axes)
    if counted is None:
        return None
    num_kernels = counted.num_operations * (axes.get("gradient_accumulation") or 1)
    return LAUNCH_S * num_kernels * (COMPUTED_AGAIN if axes.get("recompute") else 1)


def _network(axes: Mapping[str, Any]) -> Network | None:
    name = str(axes["model"]).rstrip("?")
    try:
        return network(name, axes.get("image_px"), axes.get("num_classes"), axes.get("seq_len"))
    except ValueError:  # unknown, or of a size that it does not take
        return None
