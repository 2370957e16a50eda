"""Ways of starting the ranks of a distributed trial: one file per choice of `Placement.rank_start`;
`local` where that is empty.

```
  supervisor ── start_ranks(job) ──►  places: which HOST:PORT each rank gets
  (trainer/ranks/supervision.py)                  starts: all ranks at once, as children, by one
     srun, as Ray tasks, ... │  wait for descriptors, look()
     ▼  leave the block               ends: SIGKILL to whatever still runs, and waits until it has
     ended
```

Each file has `start_ranks(job: RanksJob) -> AbstractContextManager[StartedRanks]`. It may wait for
what it starts with (a connection, a job step), but not for the ranks: their deadlines are the
supervisor's. Raises UnsupportedTrialError for what this machine cannot do, OSError for what cannot
be started; nothing of it runs then. The folder of such a way is imported wherever a trainer is
loaded: what is large is imported within `start_ranks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from scalemark.host.own_code import module_command
from scalemark.records.attempt import Cluster, Placement, Rank
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from trainer import registry
from trainer.ranks.own_rank import Flags

LOCAL = "local"
"""What an empty `Placement.rank_start` means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksJob:
    """The work that ranks are started for."""

    spec: TrialSpec
    folder: RunFolder  # its path is absolute
    jobs: tuple[str, ...]  # of each host: worker, or worker and ps
    given: Placement | None = None  # none by hand
    # `python -m MODULE` is a rank; so is a fork in MODULE.run_rank(spec, folder, cluster, rank)
    module: str = "trainer.__main__"
    # what `module` imports for seconds: where that is done already, forking is worth it; empty =
    # never fork
    slow_import: str = "tensorflow"
    # how long the others may go on once worker 0 has completed, to complete as well, or else the
    # trial has not; None where they only serve worker 0
    grace_s: float | None = None

    def command(self, cluster: Cluster, rank: Rank) -> tuple[str, ...]:
        """Return a rank's command for any host with this Python and the run folder."""
        flags = Flags.of(cluster, rank).arguments()
        return module_command(self.module, str(self.folder.trial), str(self.folder.path), *flags)

    def cluster(self, addresses: Sequence[str], ports: Sequence[int]) -> Cluster:
        """Give each job on each host a port of its own: hosts may share an address."""
        free = iter(ports)
        listening: dict[str, list[str]] = {"worker": [], "ps": []}
        for address in addresses:
            for name in self.jobs:
                listening[name].append(f"{address}:{next(free)}")
        return Cluster(worker_hosts=tuple(listening["worker"]), ps_hosts=tuple(listening["ps"]))


class StartedRanks(Protocol):
    """Ranks that run."""

    @property
    def cluster(self) -> Cluster: ...

    @property
    def descriptors(self) -> Sequence[int]:
        """Return what is readable when `look` may have news; it is also called twice a second."""

    def look(self) -> Mapping[Rank, int | None]:
        """Return the exit codes of ended ranks, without waiting: -N by signal N, None if unseen."""


StartRanks = Callable[[RanksJob], AbstractContextManager[StartedRanks]]


def load(name: str) -> StartRanks:
    """Raises UnsupportedTrialError, listing the choices, for a name that is none."""
    start_ranks: StartRanks = registry.load("rank_starts", name or LOCAL).start_ranks
    return start_ranks
