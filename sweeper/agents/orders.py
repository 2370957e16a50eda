"""Decides what the controller of a shared sweep wants of its agents, and passes it on."""

from __future__ import annotations

from collections.abc import Callable

from conf.schema import OnInterrupt
from scalemark.text.wording import counted
from sweeper.agents.fleet import Fleet
from sweeper.loop.source import Wish
from sweeper.stop import Stop


class Orders:
    """Compares what is wanted with `wish`, which the database and the fleet know of. `set_wish`
    writes to the database, and raises StoreError and LostError.
    """

    def __init__(
        self,
        on_interrupt: OnInterrupt,
        stop: Stop,
        fleet: Fleet,
        set_wish: Callable[[Wish], None],
        tell: Callable[[str], object],
    ) -> None:
        self.wish = Wish.GO_ON
        self.is_finishing = False  # nothing more is started, whatever the user says
        self._on_interrupt, self._stop, self._fleet = on_interrupt, stop, fleet
        self._set_wish, self._tell = set_wish, tell
        self._num_heeded = 0  # signals

    @property
    def wanted(self) -> Wish:
        asked = self._stop.times_asked
        if asked > 1:
            return Wish.KILL
        if asked and self._on_interrupt is not OnInterrupt.finish:
            return Wish.STOP
        return Wish.FINISH if asked or self.is_finishing else Wish.GO_ON

    @property
    def ends_what_runs(self) -> bool:
        """Say whether attempts are ended: whoever finds that records them as interrupted."""
        return self.wish >= Wish.STOP

    def obey(self, num_running: int) -> None:
        """Pass on what is wanted: to all agents by the database, and to ours by what runs them.
        Call again after an error.
        """
        wish = self.wanted
        if wish > self.wish:
            self._set_wish(wish)
            if wish is Wish.FINISH:
                self._fleet.take_back()
            else:
                self._fleet.stop(at_once=wish is Wish.KILL)
            self.wish = wish
        if self._stop.times_asked > self._num_heeded:
            self._num_heeded = self._stop.times_asked
            if wish < Wish.KILL and num_running:
                doing = "waiting for" if wish is Wish.FINISH else "ending"
                self._tell(f"{doing} {counted(num_running, 'running attempt')}{self._stop.hint}")
