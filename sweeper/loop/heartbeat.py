"""Gives signs of life to the database, also while a write waits for it; nothing more is started
when no sign could be given for too long.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

from store.errors import AwayError, LockedError, LostDatabaseError, StoreError
from store.sweeps.ledger import Ledger
from sweeper.loop.stopping import Stopping

Value = TypeVar("Value")

BEAT_EVERY_S = 10.0
GIVE_UP_AFTER = 2 / 3  # of the time after which others take over
LOCKED_TRIES = 10  # each waits for store.engine.BUSY_TIMEOUT_S
AWAY_TRIES = 60  # each waits some 5 s for the server


class Heartbeat:
    """Beats when it is due. Raises LostError when another orchestrator took this one for dead."""

    def __init__(
        self,
        ledger: Ledger,
        stopping: Stopping,
        heartbeat_timeout_s: float,
        tell: Callable[[str], object],
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._stopping = ledger, stopping
        self._timeout_s, self._tell, self._clock = heartbeat_timeout_s, tell, clock
        self._beat_every_s = min(BEAT_EVERY_S, heartbeat_timeout_s / 6)
        self._is_away = False  # the database, and that was said
        self._beat_s = self.next_s = clock()

    def beat_if_due(self) -> None:
        if self._clock() >= self.next_s:
            self._beat()

    def write(self, write: Callable[[], Value]) -> Value:
        """Try again for minutes while another program keeps the database locked, or its server is
        away. Raises StoreError after that.
        """
        tries_left = {LockedError: LOCKED_TRIES, AwayError: AWAY_TRIES}
        while True:
            try:
                return write()
            except (LockedError, AwayError) as error:
                tries_left[type(error)] -= 1
                if not tries_left[type(error)]:
                    raise
                if isinstance(error, AwayError):
                    self._say_away(error)
                else:
                    self._tell(f"{error}; trying again")

    def _beat(self) -> None:
        """Give a sign. A database that is locked for a while ends nothing."""
        now_s = self._clock()
        try:
            self._ledger.beat(datetime.now(UTC))
            self._beat_s, self._is_away = now_s, False
        except StoreError as error:
            # counted from before the last sign was given: the database may have noted it then
            gives_up_s = self._beat_s + GIVE_UP_AFTER * self._timeout_s
            if self._clock() < gives_up_s and not isinstance(error, LostDatabaseError):
                self._say_away(error)
                self.next_s = min(self._clock() + self._beat_every_s, gives_up_s)
                return
            self._stopping.give_up(error)
        self.next_s = self._clock() + self._beat_every_s

    def _say_away(self, error: StoreError) -> None:
        """Say it once, until a sign could be given."""
        if not self._is_away:
            self._is_away = True
            self._tell(f"{error}; trying again")
