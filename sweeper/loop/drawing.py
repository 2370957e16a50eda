"""Draws one repeat at a time from a source that others draw from, too, when there is room for it."""

from __future__ import annotations

from collections.abc import Callable

from store.errors import StoreError
from sweeper.loop.backlog import Backlog
from sweeper.loop.backoff import Backoff
from sweeper.loop.room import Rooms
from sweeper.loop.source import Drawn, Source
from sweeper.loop.stopping import Stopping


class Drawing:
    """Fills the backlog. `may_get_more`: the source was not found to be over."""

    def __init__(
        self,
        source: Source,
        backlog: Backlog,
        rooms: Rooms,
        backoff: Backoff,
        stopping: Stopping,
        clock: Callable[[], float],
        idle_timeout_s: float | None,
    ) -> None:
        self.may_get_more = source.is_leased
        self._source, self._backlog, self._rooms = source, backlog, rooms
        self._backoff, self._stopping, self._clock = backoff, stopping, clock
        self._idle_timeout_s, self._idle_since_s = idle_timeout_s, clock()

    def draw(self, *, is_idle: bool) -> None:
        """Have one more repeat wait, if there is one that there is room for now."""
        if self._backoff.text:
            return  # asked a moment ago
        try:
            self._stopping.heed(self._source.wish())
            if self._stopping.is_stopping:
                return
            drawn = self._ask(is_idle=is_idle)
        except StoreError as error:
            self._backoff.wait(str(error), is_idle=is_idle)
            return
        if drawn is not None:
            self._backoff.reset()
            self._backlog.add(drawn.repeat, drawn.trial, self._rooms.width(drawn.trial.spec))

    def not_idle(self) -> None:
        self._idle_since_s = self._clock()

    def _ask(self, *, is_idle: bool) -> Drawn | None:
        most = self._rooms.most_free()
        if not most and self._rooms.held_by:
            self._backoff.wait(self._rooms.held_by, is_idle=is_idle)
        drawn = self._source.draw(most) if most else None
        if drawn is not None:
            return drawn
        if most or is_idle:
            self.may_get_more = not self._source.is_over() and not self._is_idle_for_long(is_idle)
        if most and self.may_get_more:
            others = "what is left is run by other agents, or needs more free devices"
            self._backoff.wait_longer(others, is_idle=is_idle)
        return None

    def _is_idle_for_long(self, is_idle: bool) -> bool:
        """With nothing that runs, or could, as long as it may be."""
        if not is_idle:
            self.not_idle()
        timeout_s = self._idle_timeout_s
        return timeout_s is not None and self._clock() - self._idle_since_s >= timeout_s
