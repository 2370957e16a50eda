"""Sentences about which replica is slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.explanation.replicas.gpu_clocks import GpuClock, slower_clocks
from analysis.explanation.replicas.slow_replica import SlowReplicas
from scalemark.records.machine import DeviceKind
from scalemark.text.wording import listed


def sentences(
    found: SlowReplicas, gpus: Sequence[GpuClock], kind: DeviceKind, timed_in: str
) -> Iterator[str]:
    """Yield what the times of each replica say, and the clocks of `gpus`.

    `timed_in` is another trial that timed them; else empty.
    """
    if found.slowest is not None:
        where = f" (timed in {timed_in})" if timed_in else ""
        yield f"{_by_times(found)}{where}."
        if found.slow and kind is DeviceKind.CPU_DEVICE:
            yield "CPU devices share the cores: what slows one of them is software."
    elif len(gpus) > 1:
        yield f"Which replica is slow cannot be told: {found.unknown}; replica_times=true times it."
    for gpu, usual_mhz in slower_clocks(gpus):
        why = f", for {listed(gpu.reasons)}" if gpu.reasons else ""
        name = gpu.uuid if gpu.replica is None else f"Replica {gpu.replica} ({gpu.uuid})"
        yield f"{name} ran at {gpu.clock_mhz:.0f} MHz, the others at {usual_mhz:.0f} MHz{why}."


def _by_times(found: SlowReplicas) -> str:
    if found.unknown:
        return f"Which replica is slow cannot be told: {found.unknown}"
    if not found.slow:
        assert found.slowest is not None  # it has times
        return (
            f"No replica is slow: {found.slowest.replica}, the slowest, takes at most "
            f"{found.slowest.high:.0%} longer than the others"
        )
    slow = [one.replica for one in found.slow]
    longer = [f"{one.value:.0%} [{one.low:.0%}, {one.high:.0%}]" for one in found.slow]
    if len(slow) == 1:
        return f"{slow[0]} is slow: its own compute takes {longer[0]} longer than the others'"
    return (
        f"{listed(slow)} are slow: their own compute takes {listed(longer)} longer than the others'"
    )
