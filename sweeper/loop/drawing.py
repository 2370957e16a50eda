"""Draws one repeat at a time from a source that others draw from, too, when there is room for it;
and spaces out questions about what others have.
"""

from __future__ import annotations

from collections.abc import Callable

from store.errors import StoreError
from sweeper.loop.backlog import Backlog
from sweeper.loop.room import Rooms
from sweeper.loop.source import Drawn, Source
from sweeper.loop.stopping import Stopping
from sweeper.loop.tools import Tools

ASK_AGAIN_EVERY_S = 1.0  # while another sweep has the devices, or runs what would do for us
# agents may be many, and what is left for none of them: each miss in a row doubles the wait
MOST_S = 5.0


class Backoff:
    """Waits for others: `text` says for what, and is empty when there is nothing to wait for."""

    def __init__(self, clock: Callable[[], float], tell: Callable[[str], object]) -> None:
        self.text = ""
        self.ask_again_s = clock()
        self._clock, self._tell = clock, tell
        self._reported = ""
        self._next_wait_s = ASK_AGAIN_EVERY_S

    @property
    def is_due(self) -> bool:
        return bool(self.text) and self._clock() >= self.ask_again_s

    def wait(self, what: str, *, is_idle: bool, for_s: float = ASK_AGAIN_EVERY_S) -> None:
        """Ask again then. Say so once, if nothing runs meanwhile."""
        self.text = f"waiting: {what}"
        if is_idle:
            self.say()
        self.ask_again_s = self._clock() + for_s

    def say(self) -> None:
        """Say what is waited for, if anything, and if it was not said last."""
        if self.text and self._reported != self.text:
            self._tell(self.text)
            self._reported = self.text

    def wait_longer(self, what: str, *, is_idle: bool) -> None:
        """Wait longer each time that there was nothing."""
        self.wait(what, is_idle=is_idle, for_s=self._next_wait_s)
        self._next_wait_s = min(2 * self._next_wait_s, MOST_S)

    def clear(self) -> None:
        """Ask now."""
        self.text = ""

    def reset(self) -> None:
        """Begin with short waits again: there was something."""
        self._next_wait_s = ASK_AGAIN_EVERY_S


class Patience:
    """Gives up on GPUs that others use when nothing could be started for `most_s` because of them;
    never when it is None.
    """

    def __init__(self, most_s: float | None, tools: Tools, stopping: Stopping) -> None:
        self._most_s, self._clock, self._tell = most_s, tools.clock, tools.tell
        self._stopping = stopping
        self._since_s: float | None = None  # None: not waiting

    def renew(self) -> None:
        """Begin again: something was started."""
        self._since_s = None

    def wait(self, others: str) -> None:
        """Go on waiting, or have nothing more started; `others` is empty when nobody has GPUs."""
        if not others or self._most_s is None:
            self._since_s = None
            return
        if self._since_s is None:
            self._since_s = self._clock()
        if self._clock() - self._since_s >= self._most_s:
            setting = f"launcher.wait_for_gpus_s={self._most_s:g}"
            self._tell(f"{setting}: {others}; nothing more is started")
            self._stopping.starts_no_more = True


class Drawing:
    """Fills the backlog. `may_get_more`: the source was not found to be over."""

    def __init__(
        self,
        source: Source,
        backlog: Backlog,
        rooms: Rooms,
        backoff: Backoff,
        stopping: Stopping,
    ) -> None:
        self.may_get_more = source.is_leased
        self._source, self._backlog, self._rooms = source, backlog, rooms
        self._backoff, self._stopping = backoff, stopping

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

    def _ask(self, *, is_idle: bool) -> Drawn | None:
        most = self._rooms.most_free()
        if not most and self._rooms.held_by:
            self._backoff.wait(self._rooms.held_by, is_idle=is_idle)
        drawn = self._source.draw(most) if most else None
        if drawn is not None:
            return drawn
        if most or is_idle:
            self.may_get_more = not self._source.is_over()
        if most and self.may_get_more:
            others = "what is left is run by other agents, or needs more free devices"
            self._backoff.wait_longer(others, is_idle=is_idle)
        return None
