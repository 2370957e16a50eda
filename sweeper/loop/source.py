"""Defines where the loop gets its repeats from: a ledger of its own, or one that agents share.

A source has the ledger that every state is written to, and what differs between a sweep that is one
process's own (`OwnSource`) and one that several share (`LeasedSource`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Protocol

from scalemark.records.attempt import Placement
from store.finished_attempt import FinishedAttempt
from store.sweeps.agents import num_open, wish_of
from store.sweeps.ledger import Claim, Ledger, OpenRepeat
from store.sweeps.shared import SharedLedger
from sweeper.planning.plan import PlannedTrial
from sweeper.running.recover import Expiry, Recovered, recover


class Wish(IntEnum):
    """A sweep's wish to its controller and all who run it; each is more than the one before."""

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
        """Say whether others take what runs here as soon as this process is silent for too long."""

    def own(self) -> Sequence[OpenRepeat]:
        """Return what is this process's alone to run, from the beginning."""

    def draw(self, most_gpus: int) -> Drawn | None:
        """Return the next repeat that wants no more devices of each host, if there is one now."""

    def is_over(self) -> bool:
        """Say whether nothing is left to draw, and nothing may have to be tried again."""

    def wish(self) -> Wish:
        """Return what the sweep's controller wants now."""

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


class LeasedSource:
    """Takes repeats of a shared sweep for one agent, one at a time, as long as its lease lasts. An
    agent over `hosts` hosts draws trials of as many.
    """

    is_leased = True

    def __init__(
        self,
        ledger: SharedLedger,
        hosts: int,
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ledger = ledger
        self._hosts = hosts
        self._expiry = Expiry(
            ledger.engine, ledger.sweep_id, tell, every_s=ledger.lease_s / 6, clock=clock
        )

    def own(self) -> Sequence[OpenRepeat]:
        return ()

    def draw(self, most_gpus: int) -> Drawn | None:
        repeat = self.ledger.take(most_gpus * self._hosts, self._hosts)
        if repeat is not None:
            return Drawn(repeat=repeat, trial=PlannedTrial(spec=repeat.spec, num_repeats=1))
        # close what the dead had, and what need not run any more: the controller may be gone
        if self._expiry.is_due:
            self.ledger.skip_enough()
            self._expiry.look()
        return None

    def is_over(self) -> bool:
        return self._hosts not in num_open(self.ledger.engine, self.ledger.sweep_id)

    def wish(self) -> Wish:
        return Wish(wish_of(self.ledger.engine, self.ledger.sweep_id))

    def leave_to_others(self, repeat_id: int) -> None:
        self.ledger.leave_to_others(repeat_id)

    def recover(self) -> Recovered | None:
        return recover(self.ledger.engine)
