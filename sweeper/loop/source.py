"""Defines where the loop gets its repeats from, and the source of a local sweep: all of a ledger.

A source is the ledger that every state is written to, and what differs between a sweep that is one
process's own (`OwnSource`) and one that several share (`sweeper.loop.leased.LeasedSource`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Protocol

from scalemark.records.placement import Placement
from store.finished_attempt import FinishedAttempt
from store.sweeps.ledger import Claim, Ledger, OpenRepeat
from sweeper.planning.plan import PlannedTrial
from sweeper.running.recover import Recovered, recover


class Wish(IntEnum):
    """What the planner of a sweep wants of all who run it; each is more than the one before."""

    GO_ON = 0
    FINISH = 1  # start nothing more
    STOP = 2  # end what runs
    KILL = 3  # at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A repeat that is claimed for us."""

    repeat: OpenRepeat
    trial: PlannedTrial


class States(Protocol):
    """Writes the states of repeats, as `store.sweeps.ledger.Ledger` does and with its errors."""

    def claim(self, repeat: OpenRepeat, at: datetime) -> Claim: ...
    def give_back(self, repeat_id: int, at: datetime) -> None: ...
    def run(self, repeat: OpenRepeat, run_dir: str, placement: Placement, at: datetime) -> int: ...
    def started(self, repeat_id: int, pid: int, start_ticks: int) -> None: ...
    def finish(
        self, repeat_id: int, attempt: FinishedAttempt, at: datetime, *, again: str | None = None
    ) -> None: ...
    def skip(self, repeat_ids: Sequence[int], reason: str, at: datetime) -> None: ...
    def beat(self, at: datetime) -> None: ...
    def end(self, at: datetime, *, finished: bool) -> None: ...


class Source(Protocol):
    """Gives repeats to the loop. Raises StoreError and LostError as its ledger does."""

    @property
    def ledger(self) -> States: ...

    @property
    def is_leased(self) -> bool:
        """Whether others take what is run here as soon as this process is silent for too long."""

    def own(self) -> Sequence[OpenRepeat]:
        """Return what is this process's alone to run, from the beginning."""

    def draw(self, most_gpus: int) -> Drawn | None:
        """Return the next repeat that wants no more devices of each host; None: there is none now."""

    def is_over(self) -> bool:
        """Whether there is nothing left to draw, and nothing that may have to be tried again."""

    def wish(self) -> Wish:
        """Return what the sweep's planner wants now."""

    def leave_to_others(self, repeat_id: int) -> None:
        """Let others run what was to be tried again here."""

    def recover(self) -> Recovered | None:
        """Close what processes that were killed had in flight."""


class OwnSource:
    """Gives all that a local sweep has open, at once."""

    is_leased = False

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def own(self) -> Sequence[OpenRepeat]:
        return self.ledger.open_repeats()

    def draw(self, most_gpus: int) -> Drawn | None:
        return None

    def is_over(self) -> bool:
        return True

    def wish(self) -> Wish:
        return Wish.GO_ON

    def leave_to_others(self, repeat_id: int) -> None:
        """Nobody else takes from this sweep: the next command finds it open."""

    def recover(self) -> Recovered | None:
        return recover(self.ledger.engine)
