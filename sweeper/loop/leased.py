"""Takes repeats of a shared sweep for one agent, one at a time, as long as its lease lasts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from store.sweeps.agents import num_open, wish_of
from store.sweeps.ledger import OpenRepeat
from store.sweeps.shared import SharedLedger
from sweeper.loop.source import Drawn, Wish
from sweeper.planning.plan import PlannedTrial
from sweeper.running.recover import Expiry, Recovered, recover


class LeasedSource:
    """See `sweeper.loop.source.Source`. An agent over `hosts` hosts draws trials of as many."""

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
        if repeat is None:
            self._close_what_the_dead_had()
            return None
        return Drawn(repeat=repeat, trial=PlannedTrial(spec=repeat.spec, num_repeats=1))

    def is_over(self) -> bool:
        return self._hosts not in num_open(self.ledger.engine, self.ledger.sweep_id)

    def wish(self) -> Wish:
        return Wish(wish_of(self.ledger.engine, self.ledger.sweep_id))

    def leave_to_others(self, repeat_id: int) -> None:
        self.ledger.leave_to_others(repeat_id)

    def recover(self) -> Recovered | None:
        return recover(self.ledger.engine)

    def _close_what_the_dead_had(self) -> None:
        """Now and then, with what need not be run any more: there may be no controller to do it."""
        if self._expiry.is_due:
            self.ledger.skip_enough()
            self._expiry.look()
