"""Gives signs of life to the database, also while a write waits for it; and ends what runs here
when no sign could be given for too long.

```
  sign given   +10 s     2/3: gives up waiting     5/6: the watchdog kills     1: others take over
  |-----------|---------|-------------------------|---------------------------|----------------►
```
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TypeVar

from store.errors import AwayError, LockedError, LostDatabaseError, StoreError
from store.sweeps.ledger import LostError
from sweeper.loop.source import Source
from sweeper.loop.stopping import Stopping
from sweeper.loop.watchdog import Watchdog

Value = TypeVar("Value")

BEAT_EVERY_S = 10.0
# Shares of the time after which others take over. Giving up comes before the watchdog, so that a
# loop that still turns ends its attempts in order; the watchdog leaves a sixth for the kill itself.
GIVE_UP_AFTER = 2 / 3
KILL_AFTER = 5 / 6
LOCKED_TRIES = 10  # each waits for store.engine.BUSY_TIMEOUT_S
LOCKED_FOR_S = 300.0  # the same for agents, each of whose tries waits for a part of their lease


class Heartbeat:
    """Beats when it is due. Raises LostError once others may have taken what runs here. `obey` ends
    what runs when a signal asked for it; `kill` is the watchdog's.
    """

    def __init__(
        self,
        source: Source,
        stopping: Stopping,
        heartbeat_timeout_s: float,
        obey: Callable[[], None],
        kill: Callable[[], None],
        tell: Callable[[str], object],
        clock: Callable[[], float],
    ) -> None:
        self._source, self._stopping, self._timeout_s = (
            source,
            stopping,
            heartbeat_timeout_s,
        )
        self._obey, self._tell, self._clock = obey, tell, clock
        self._watchdog = Watchdog(kill)
        self._beat_every_s = min(BEAT_EVERY_S, heartbeat_timeout_s / 6)
        self._is_away = False  # the database, and that was said
        self._beat_s = self.next_s = clock()

    def watching(self) -> AbstractContextManager[None]:
        """Keep the watchdog while the context lasts."""
        return self._watchdog.watching()

    def check(self) -> None:
        """Raise LostError if the watchdog has killed: call before an end is taken for an outcome,
        and before anything is started.
        """
        if self._watchdog.has_acted:
            raise LostError("this agent")

    def beat_if_due(self) -> None:
        self.check()
        if self._clock() >= self.next_s:
            self._beat()

    def write(self, write: Callable[[], Value]) -> Value:
        """Try again for minutes what another program keeps locked. Raises StoreError after that.

        Agents wait for a server that is away, too, as long as their lease allows, and raise
        LostError after that.
        """
        num_tries, gives_up_s = 0, self._clock() + LOCKED_FOR_S
        is_leased = self._source.is_leased
        while True:
            try:
                return write()
            except LockedError as error:
                num_tries += 1
                is_enough = num_tries == LOCKED_TRIES
                if is_leased:
                    is_enough = self._clock() >= gives_up_s
                if is_enough:
                    raise
                self._tell(f"{error}; trying again")
            except AwayError as error:
                if not is_leased or self._stopping.stop.times_asked > 1:
                    raise
                self._say_away(error)
            if is_leased:
                self._obey()
                self.beat_if_due()

    def _beat(self) -> None:
        """Give a sign. A database that is locked for a while ends nothing."""
        now_s = self._clock()
        try:
            self._source.ledger.beat(datetime.now(UTC))
            self._beat_s, self._is_away = now_s, False
            if self._source.is_leased:
                self._watchdog.renew(KILL_AFTER * self._timeout_s - (self._clock() - now_s))
            self._stopping.heed(self._source.wish())
        except StoreError as error:
            # counted from before the last sign was given: the database may have noted it then
            gives_up_s = self._beat_s + GIVE_UP_AFTER * self._timeout_s
            if self._clock() < gives_up_s and not isinstance(error, LostDatabaseError):
                self._say_away(error)
                self.next_s = min(self._clock() + self._beat_every_s, gives_up_s)
                return
            if self._source.is_leased:  # others will not wait for what runs here
                self._tell(str(error))
                raise LostError("this agent") from error
            self._stopping.give_up(error)
        self.next_s = self._clock() + self._beat_every_s

    def _say_away(self, error: StoreError) -> None:
        """Say it once, until a sign could be given."""
        if not self._is_away:
            self._is_away = True
            self._tell(f"{error}; trying again")
