"""Writes to a database that is locked or away for a while, and goes on giving signs meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from store.errors import AwayError, LockedError
from sweeper.loop.heartbeat import Heartbeat
from sweeper.stop import Stop

Value = TypeVar("Value")

LOCKED_TRIES = 10  # each waits for store.engine.BUSY_TIMEOUT_S
LOCKED_FOR_S = 300.0  # the same for agents, each of whose tries waits for a part of their lease


class Patience:
    """Tries writes again. `obey` ends what runs when a signal asked for it meanwhile."""

    def __init__(
        self,
        heartbeat: Heartbeat,
        stop: Stop,
        obey: Callable[[], None],
        tell: Callable[[str], object],
        clock: Callable[[], float],
        *,
        is_leased: bool,
    ) -> None:
        self._heartbeat, self._stop, self._obey = heartbeat, stop, obey
        self._tell, self._clock, self._is_leased = tell, clock, is_leased

    def write(self, write: Callable[[], Value]) -> Value:
        """Try again for minutes what another program keeps locked. Raises StoreError after that.

        Agents wait for a server that is away, too, as long as their lease allows. Raises LostError
        after that.
        """
        num_tries, gives_up_s = 0, self._clock() + LOCKED_FOR_S
        while True:
            try:
                return write()
            except LockedError as error:
                num_tries += 1
                if self._clock() >= gives_up_s if self._is_leased else num_tries == LOCKED_TRIES:
                    raise
                self._tell(f"{error}; trying again")
            except AwayError as error:
                if not self._is_leased or self._stop.times_asked > 1:
                    raise
                self._heartbeat.tell_away(error)
            if self._is_leased:
                self._obey()
                self._heartbeat.beat_if_due()
