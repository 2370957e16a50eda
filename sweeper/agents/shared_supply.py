"""Takes repeats of a shared sweep for one agent."""

from __future__ import annotations

import time
from collections.abc import Callable

from store.sweeps.agents import num_open, wish_of
from store.sweeps.shared import SharedLedger
from sweeper.planning.plan import PlannedTrial
from sweeper.running.recover import Expiry
from sweeper.running.supply import Supplied, Wish


class SharedSupply:
    """See `sweeper.running.supply.Supply`. For an agent over `hosts` hosts: trials of as many."""

    def __init__(
        self,
        ledger: SharedLedger,
        hosts: int,
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger, self._hosts, self._clock = ledger, hosts, clock
        self._expiry = Expiry(ledger.engine, ledger.sweep_id, tell)
        self._next_close_s = clock()

    def take(self, most_gpus: int) -> Supplied | None:
        repeat = self._ledger.take(most_gpus * self._hosts, self._hosts)
        if repeat is None:
            self._close_what_the_dead_had()
            return None
        return Supplied(repeat=repeat, trial=PlannedTrial(spec=repeat.spec, num_repeats=1))

    def leave_to_others(self, repeat_id: int) -> None:
        self._ledger.leave_to_others(repeat_id)

    def is_over(self) -> bool:
        return self._hosts not in num_open(self._ledger.engine, self._ledger.sweep_id)

    def wish(self) -> Wish:
        return Wish(wish_of(self._ledger.engine, self._ledger.sweep_id))

    def _close_what_the_dead_had(self) -> None:
        """And what need not be run any more. Now and then: there may be no controller that does."""
        if self._clock() >= self._next_close_s:
            self._ledger.skip_enough()
            self._expiry.look()
            self._next_close_s = self._clock() + self._ledger.lease_s / 6
