"""Where an orchestrator gets its repeats, when others take from the same heap: one at a time, as it
has room for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from store.sweeps.ledger import OpenRepeat
from sweeper.planning.plan import PlannedTrial


class Wish(IntEnum):
    """What who planned the sweep wants of all who run it; each is more than the one before."""

    GO_ON = 0
    FINISH = 1  # start nothing more
    STOP = 2  # end what runs
    KILL = 3  # at once


@dataclass(frozen=True, slots=True, kw_only=True)
class Supplied:
    """A repeat that is claimed for us."""

    repeat: OpenRepeat
    trial: PlannedTrial


class Supply(Protocol):
    """Raises StoreError and LostError as `store.sweeps.ledger.Ledger` does."""

    def take(self, most_gpus: int) -> Supplied | None:
        """The next that wants no more devices of each host than these. None: there is none now."""

    def leave_to_others(self, repeat_id: int) -> None:
        """What was to be tried again here, by whom it was taken."""

    def is_over(self) -> bool:
        """Nothing is left to be run, and nothing runs that may have to be tried again."""

    def wish(self) -> Wish:
        """As it stands now."""
