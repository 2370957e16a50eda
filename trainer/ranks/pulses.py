"""Holds the ranks of a trial to their deadlines, by their heartbeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from scalemark.records.cluster import WORKER_0, Cluster, Rank, RankLimits
from scalemark.run_folder.folder import RunFolder
from trainer.ranks import beat

LOOK_EVERY_S = 0.5
# in a trial that has failed: no beat is late by so much where the rank is well
SILENT_S = 4 * beat.BEAT_EVERY_S
# a look that comes so much too late finds a machine that was paused, or a supervisor that was
# stopped
OVERSLEPT_S = 2.0


@dataclass(slots=True)
class _Pulse:
    number: str  # as it was read last; empty until the rank can be reached
    changed_s: float

    @property
    def joins(self) -> bool:
        """It waits for others, and cannot beat meanwhile."""
        return self.number.endswith(beat.JOINING)


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
            (pulse.joins, rank)
            for rank, pulse in self._pulses.items()
            if rank not in ended and now_s - pulse.changed_s >= self._limit_s(pulse)
        ]
        if not late:
            return None
        joins, rank = min(late, key=lambda each: each[0])
        silent_s = self._silences_s(ended, now_s)
        # whom those that join wait for
        if joins and silent_s and max(silent_s.values()) >= SILENT_S:
            rank = max(silent_s, key=silent_s.__getitem__)
            return (
                rank,
                f"gave no sign of life for {silent_s[rank]:.0f} s, while others waited to join it",
            )
        return rank, self._told(self._pulses[rank])

    def silences_s(self, ended: Collection[Rank]) -> dict[Rank, float]:
        """Return how long each rank that should beat has been silent."""
        return self._silences_s(ended, self._hear())

    def _silences_s(self, ended: Collection[Rank], now_s: float) -> dict[Rank, float]:
        beating = {
            rank: pulse
            for rank, pulse in self._pulses.items()
            if pulse.number and not pulse.joins and rank not in ended
        }
        return {rank: now_s - pulse.changed_s for rank, pulse in beating.items()}

    def _hear(self) -> float:
        """Read all heartbeats; return when."""
        now_s = self._wake()
        for rank, pulse in self._pulses.items():
            if (number := self._read(rank)) and number != pulse.number:
                pulse.number, pulse.changed_s = number, now_s
        return now_s

    def _limit_s(self, pulse: _Pulse) -> float:
        return (
            self._limits.timeout_s
            if pulse.number and not pulse.joins
            else self._limits.start_timeout_s
        )

    def _told(self, pulse: _Pulse) -> str:
        if pulse.joins:
            return (
                "had not met the others within "
                f"launcher.rank_start_timeout_s={self._limits.start_timeout_s:g}"
            )
        if pulse.number:
            return f"gave no sign of life for launcher.rank_timeout_s={self._limits.timeout_s:g}"
        return (
            "could not be reached within "
            f"launcher.rank_start_timeout_s={self._limits.start_timeout_s:g}"
        )

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
