"""Holds a plan with what is known for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scalemark.records.outcomes import Outcome
from sweeper.devices.gpu_users import GpuInUse
from sweeper.planning.plan import Plan
from sweeper.planning.simulate import Estimate
from sweeper.race.races import PlannedRaces, Tally
from sweeper.race.racing_observer import MakeObserver


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
