"""Ranks that something else starts and ends, which reports `rank worker-1 ended: -9`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence

from scalemark.records.cluster import Cluster, Rank

_ENDED = re.compile(r"rank (worker|ps)-(\d+) ended: (-?\d+|unseen)")


class AssignedRanks:
    """Reads from a pipe or socket how ranks end; other lines go to the log."""

    def __init__(self, cluster: Cluster, descriptor: int) -> None:
        self.cluster = cluster
        self._descriptor = descriptor
        self._reported = b""
        self._has_ended = False
        self._ended: dict[Rank, int | None] = {}
        os.set_blocking(descriptor, False)

    @property
    def descriptors(self) -> Sequence[int]:
        return () if self._has_ended else (self._descriptor,)

    def look(self) -> Mapping[Rank, int | None]:
        while not self._has_ended:
            try:
                part = os.read(self._descriptor, 4096)
            except BlockingIOError:
                break
            self._has_ended = not part
            self._reported += part
        *lines, self._reported = self._reported.split(b"\n")
        for line in lines:
            self._hear(line.decode(errors="replace"))
        # else the others ended because that one did
        if self._has_ended and not any(self._ended.values()):
            self._ended |= dict.fromkeys(
                rank for rank in self.cluster.ranks if rank not in self._ended
            )
        return self._ended

    def _hear(self, line: str) -> None:
        found = _ENDED.fullmatch(line)
        if not found:
            print(line, file=sys.stderr, flush=True)
            return
        job_name, task_index, exit_code = found.groups()
        rank = Rank(job_name=job_name, task_index=int(task_index))
        self._ended[rank] = None if exit_code == "unseen" else int(exit_code)
