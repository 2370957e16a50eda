"""Holds what local and shared sweeps have in common: a plan with what is known for it, and the
folder of the sweep's runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from scalemark.records.machine import Machine
from scalemark.records.outcomes import Outcome
from store.sweeps.ledger import Ledger
from store.sweeps.sweep_record import read_sweep
from sweeper.devices.gpu_users import GpuInUse
from sweeper.errors import SweepRefusedError
from sweeper.planning.plan import Plan
from sweeper.planning.simulate import Estimate
from sweeper.race.races import PlannedRaces, Tally
from sweeper.race.racing_observer import MakeObserver
from sweeper.running.run_folders import RunFolders


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, and what is known for it."""

    plan: Plan
    estimate: Estimate
    races: PlannedRaces | None = None  # where the sweep races, as the next
    tally: Tally | None = None  # what the contenders have shown
    in_use: Sequence[GpuInUse] = ()  # GPUs of this machine that others use while it is planned
    num_of_other_software: int = 0  # trials to run that have finished with other software
    failed_last: Mapping[str, Outcome] = field(default_factory=dict)  # trials to run, by id
    observe: MakeObserver | None = None  # holds repeats back, where the sweep does not race


def make_run_folders(
    runs_dir: str, ledger: Ledger, machine: Machine, software_key: str
) -> RunFolders:
    """Make them for the sweep as the database has it: one that is continued keeps its beginning.
    Raises SweepRefusedError.
    """
    try:
        path = Path(runs_dir).expanduser().resolve()
        return RunFolders(path, read_sweep(ledger.engine, ledger.sweep_id), machine, software_key)
    except SweepRefusedError:
        ledger.end(datetime.now(UTC), finished=False)
        raise
