"""Defines what a way of running a sweep brings: its devices, what counts as done, and a runner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import sqlalchemy as sa

from conf.schema import Config
from scalemark.records.machine import Machine
from scalemark.records.trial import TrialSpec
from store.errors import StoreError
from store.sweeps.ledger import Ledger
from store.sweeps.sweep_record import read_sweep
from store.writer import Writer
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError
from sweeper.planning.estimate import Estimate
from sweeper.planning.plan import Plan
from sweeper.race.planned import PlannedRaces
from sweeper.race.tally import Tally
from sweeper.report import Ran
from sweeper.running.run_folders import RunFolders


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, and what is known for it."""

    plan: Plan
    estimate: Estimate
    races: PlannedRaces | None = None  # where the sweep races, as the next
    tally: Tally | None = None  # what the contenders have shown


class Runner(Protocol):
    """Runs a sweep once."""

    @property
    def failure(self) -> StoreError | SweepRefusedError | None: ...

    @property
    def ran(self) -> Ran: ...

    def run(self) -> None: ...


class Way(Protocol):
    """Runs a sweep on this host, or on others. No `engine`: nothing was completed yet."""

    config: Config
    machine: Machine  # this host, or what it plays
    inventory: Inventory  # of each host that runs trials

    def check(self, specs: Sequence[TrialSpec]) -> None:
        """Raises SweepRefusedError when no host can run some of these."""

    def num_completed(
        self, engine: sa.Engine | None, specs: Sequence[TrialSpec]
    ) -> Mapping[str, int]:
        """Trial id -> repeats that need not be run again."""

    def planned(self, plan: Plan, engine: sa.Engine | None) -> Planned: ...

    def runner(self, planned: Planned, writer: Writer, stack: ExitStack) -> Runner:
        """Write the sweep down, and return what runs it; what must be closed is put on the stack.

        Raises SweepRefusedError.
        """


def make_run_folders(
    runs_dir: str, ledger: Ledger, machine: Machine, software_key: str
) -> RunFolders:
    """For the sweep as the database has it: one that is continued keeps its beginning. Raises
    SweepRefusedError.
    """
    try:
        path = Path(runs_dir).expanduser().resolve()
        return RunFolders(path, read_sweep(ledger.engine, ledger.sweep_id), machine, software_key)
    except SweepRefusedError:
        ledger.end(datetime.now(UTC), finished=False)
        raise
