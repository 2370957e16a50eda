"""Tells the database that this process lives, and ends what it runs when it could not for too long.

```
  sign given   +10 s     2/3: gives up waiting for the database    5/6: the watchdog kills     1: others take over
  |-----------|---------------------------------------------------|--------------------------|------------------►
```
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime

from store.errors import LostDatabaseError, StoreError
from store.sweeps.ledger import LostError
from sweeper.loop.source import Source
from sweeper.loop.stopping import Stopping
from sweeper.loop.watchdog import Watchdog

BEAT_EVERY_S = 10.0
# Shares of the time after which others take over. Giving up comes before the watchdog, so that a
# loop that still turns ends its attempts in order; the watchdog leaves a sixth for the kill itself.
GIVE_UP_AFTER = 2 / 3
KILL_AFTER = 5 / 6


class Heartbeat:
    """Beats when it is due. Raises LostError once others may have taken what runs here."""

    def __init__(
        self,
        source: Source,
        stopping: Stopping,
        silent_for_s: float,
        kill: Callable[[], None],
        tell: Callable[[str], object],
        clock: Callable[[], float],
    ) -> None:
        self._source, self._stopping, self._silent_for_s = source, stopping, silent_for_s
        self._tell, self._clock = tell, clock
        self._watchdog = Watchdog(kill)
        self._beat_every_s = min(BEAT_EVERY_S, silent_for_s / 6)
        self._is_away = False  # the database, and that was told
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

    def tell_away(self, error: StoreError) -> None:
        """Once, until a sign could be given."""
        if not self._is_away:
            self._is_away = True
            self._tell(f"{error}; trying again")

    def _beat(self) -> None:
        """A database that is locked for a while ends nothing."""
        now_s = self._clock()
        try:
            self._source.ledger.beat(datetime.now(UTC))
            self._beat_s, self._is_away = now_s, False
            if self._source.is_leased:
                self._watchdog.renew(KILL_AFTER * self._silent_for_s - (self._clock() - now_s))
            self._stopping.heed(self._source.wish())
        except StoreError as error:
            if self._clock() < self._gives_up_s and not isinstance(error, LostDatabaseError):
                self.tell_away(error)
                self.next_s = min(self._clock() + self._beat_every_s, self._gives_up_s)
                return
            if self._source.is_leased:  # others will not wait for what runs here
                self._tell(str(error))
                raise LostError("this agent") from error
            self._stopping.give_up(error)
        self.next_s = self._clock() + self._beat_every_s

    @property
    def _gives_up_s(self) -> float:
        """Counted from before the last sign was given: the database may have noted it then."""
        return self._beat_s + GIVE_UP_AFTER * self._silent_for_s
