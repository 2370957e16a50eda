"""Holds the ranks of a trial to their deadlines, by their heartbeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from scalemark.records.cluster import WORKER_0, Cluster, Rank, RankLimits
from scalemark.run_folder.folder import RunFolder
from trainer.ranks import beat

LOOK_EVERY_S = 0.5
# In a trial that has failed: a rank that is well is never late by so much.
SILENT_S = 4 * beat.BEAT_EVERY_S
# A look that comes so much too late means that the machine was paused, or this process stopped.
OVERSLEPT_S = 2.0


@dataclass(slots=True)
class _Pulse:
    number: str  # as it was read last; empty until the rank can be reached
    changed_s: float

    @property
    def joins(self) -> bool:
        """It waits for others, and cannot beat meanwhile."""
        return self.number.endswith(beat.JOINING)

    @property
    def beats(self) -> bool:
        return bool(self.number) and not self.joins


class Pulses:
    """The heartbeats of all ranks. `clock` counts seconds; the clocks of their hosts do not matter.

    Time in which nobody looked is left out: probably the ranks stood still, too.
    """

    def __init__(
        self,
        folder: RunFolder,
        cluster: Cluster,
        limits: RankLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._limits, self._clock = folder, limits, clock
        self._looked_s = clock()
        # Worker 0 waits for the others: it is named only where they all are well.
        ranks = sorted(cluster.ranks, key=lambda rank: rank == WORKER_0)
        self._pulses = {rank: _Pulse("", self._looked_s) for rank in ranks}

    def missed(self, ended: Collection[Rank]) -> tuple[Rank, str] | None:
        """Return a rank that missed a deadline, and which; nothing is expected of ended ones."""
        now_s = self._hear()
        late = [
            rank
            for rank, pulse in self._pulses.items()
            if rank not in ended and now_s - pulse.changed_s >= self._limit_s(pulse)
        ]
        if not late:
            return None
        rank = min(late, key=lambda each: self._pulses[each].joins)  # those wait for others
        silences_s = self._silences_s(ended, now_s)
        if self._pulses[rank].joins and silences_s:
            silent = max(silences_s, key=silences_s.__getitem__)
            if silences_s[silent] >= SILENT_S:
                silence = f"gave no sign of life for {silences_s[silent]:.0f} s"
                return silent, f"{silence}, while others waited to join it"
        return rank, self._deadline(self._pulses[rank])

    def silences_s(self, ended: Collection[Rank]) -> dict[Rank, float]:
        """Return how long each rank that should beat has been silent."""
        return self._silences_s(ended, self._hear())

    def _silences_s(self, ended: Collection[Rank], now_s: float) -> dict[Rank, float]:
        return {
            rank: now_s - pulse.changed_s
            for rank, pulse in self._pulses.items()
            if pulse.beats and rank not in ended
        }

    def _hear(self) -> float:
        """Read all heartbeats; return when."""
        now_s = self._wake()
        for rank, pulse in self._pulses.items():
            number = self._read(rank)
            if number not in ("", pulse.number):
                pulse.number, pulse.changed_s = number, now_s
        return now_s

    def _limit_s(self, pulse: _Pulse) -> float:
        return self._limits.timeout_s if pulse.beats else self._limits.start_timeout_s

    def _deadline(self, pulse: _Pulse) -> str:
        if pulse.beats:
            return f"gave no sign of life for launcher.rank_timeout_s={self._limits.timeout_s:g}"
        what = "had not met the others" if pulse.joins else "could not be reached"
        limit = f"launcher.rank_start_timeout_s={self._limits.start_timeout_s:g}"
        return f"{what} within {limit}"

    def _wake(self) -> float:
        """Return the time now; move what was heard by the time that was overslept."""
        now_s = self._clock()
        overslept_s = now_s - self._looked_s - LOOK_EVERY_S
        if overslept_s > OVERSLEPT_S:
            for pulse in self._pulses.values():
                pulse.changed_s += overslept_s
        self._looked_s = now_s
        return now_s

    def _read(self, rank: Rank) -> str:
        """Read a heartbeat; empty when there is none yet, or it cannot be read."""
        try:
            return self._folder.rank_beat(rank).read_text()
        except OSError:
            return ""
