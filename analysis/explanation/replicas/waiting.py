"""Estimates how long a step waits for its slowest replica."""

from __future__ import annotations

from analysis.explanation.evidence import Method
from analysis.explanation.remedies import Remedy
from analysis.explanation.replicas.slow_replica import Slowness, SlowReplicas
from analysis.explanation.step_times import Seconds
from analysis.explanation.suspects import Bound, Suspect
from analysis.explanation.waterfall import shares_cores
from analysis.results import Result
from scalemark.records.machine import DeviceKind


def waiting_for(found: SlowReplicas, timed: Result, *, num_processes: int) -> list[Suspect]:
    """Return what the slowest replica's own compute takes longer than the others', by the times of
    a trial in so many processes.

    Nothing where no replica is slow, and of CPU devices: they share cores, and those that wait
    leave theirs to the slow one.
    """
    if not found.slow or shares_cores(timed):
        return []
    slow = found.slow[0]
    seconds = Seconds(
        value=slow.value * slow.others_s,
        low=slow.low * slow.others_s,
        high=slow.high * slow.others_s,
        over_processes=num_processes > 1,
    )
    because = f"all wait for {slow.replica}, whose own compute takes {slow.value:.0%} longer"
    return [
        Suspect(
            bound=Bound.SLOW_REPLICA,
            seconds=seconds,
            is_direct=True,
            because=because,
            method=Method.REPLICA_TIMES,
            trials=(timed,),
        )
    ]


def against_slow(slow: Slowness, kind: DeviceKind) -> Remedy:
    """Return what to do about the replica for which all others wait."""
    why = "all others wait for it"
    if kind is DeviceKind.GPU:
        why += (
            "; nvidia-smi -q -d PERFORMANCE,CLOCK shows what holds it back, and a sweep with "
            "CUDA_VISIBLE_DEVICES without it what the others reach"
        )
    return Remedy(change=f"to mend or leave out {slow.replica}", why=why, command="")
