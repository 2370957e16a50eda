"""Watches what a program takes of its host: CPU seconds, memory, and the cores that others take."""

from __future__ import annotations

import resource
import time
from collections.abc import Collection
from dataclasses import dataclass

from command import children
from trainer.watching import contention

LEAST_INTERVAL_S = 0.5
_SHARE_OF_TIME = 0.002  # of one core, that looking may take
_PER_RUN = 100  # looks in a run so far, where it is long


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a program took in its measured window."""

    cpu_s: float
    cores_taken_by_others: float | None  # None where the kernel does not say


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    cpu_s: float  # of the program so far
    host: contention.Moment


class Moments:
    """Looks at all processes of a program now and then. `but` are ours: they are not counted."""

    def __init__(self, but: Collection[int]) -> None:
        self.peak_bytes = 0  # largest sum of resident sizes seen
        self._but = but
        self._own_s = _ended_children_s()  # of what this process had run before
        self._began_s = time.monotonic()
        self._due_s = 0.0
        self._moments: list[_Moment] = []
        self._note(())  # nothing of it runs yet

    def look_if_due(self, now_s: float) -> None:
        if now_s >= self._due_s:
            self.look()

    def look(self) -> None:
        """Count now. It takes 10 us per process of the host."""
        start_s = time.monotonic()
        self._note(children.descendants(self._but))
        end_s = time.monotonic()
        interval_s = max(
            LEAST_INTERVAL_S,
            (end_s - start_s) / _SHARE_OF_TIME,
            (end_s - self._began_s) / _PER_RUN,
        )
        self._due_s = end_s + interval_s

    def end(self) -> None:
        """Count once more, when all processes have ended."""
        self._note(())

    def _note(self, living: Collection[children.Child]) -> None:
        self.peak_bytes = max(self.peak_bytes, sum(child.resident_bytes for child in living))
        living_s = sum(child.cpu_s for child in living)
        cpu_s = living_s + _ended_children_s() - self._own_s
        # of the trial's processes this one is one, too: nobody else takes its time
        host = contention.now(lambda: cpu_s + time.process_time())
        self._moments.append(_Moment(cpu_s=cpu_s, host=host))

    def taken(self, start_s: float, end_s: float) -> Taken | None:
        """Return what was taken between two moments of the monotonic clock, by the looks around
        them; None with fewer than two.
        """
        before = [one for one in self._moments if one.host.time_s <= start_s] or self._moments[:1]
        after = [one for one in self._moments if one.host.time_s >= end_s] or self._moments[-1:]
        if not before or before[-1] is after[0]:
            return None
        first, last = before[-1], after[0]
        between_s = last.host.time_s - first.host.time_s
        share = (end_s - start_s) / between_s if between_s > 0 else 0.0
        return Taken(
            cpu_s=max(0.0, last.cpu_s - first.cpu_s) * share,
            cores_taken_by_others=contention.cores_taken_by_others(first.host, last.host),
        )


def _ended_children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
