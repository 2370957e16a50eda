"""Spaces out questions about what others have, and gives up on GPUs that others keep."""

from __future__ import annotations

from collections.abc import Callable

from sweeper.loop.stopping import Stopping
from sweeper.loop.tools import Tools

ASK_AGAIN_EVERY_S = 1.0  # while another sweep has the devices, or runs what would do for us


class Backoff:
    """Waits for others: `text` says for what, and is empty when there is nothing to wait for."""

    def __init__(self, clock: Callable[[], float], tell: Callable[[str], object]) -> None:
        self.text = ""
        self.ask_again_s = clock()
        self._clock, self._tell = clock, tell
        self._reported = ""

    @property
    def is_due(self) -> bool:
        return bool(self.text) and self._clock() >= self.ask_again_s

    def wait(self, what: str, *, is_idle: bool) -> None:
        """Ask again then. Say so once, if nothing runs meanwhile."""
        self.text = f"waiting: {what}"
        if is_idle:
            self.say()
        self.ask_again_s = self._clock() + ASK_AGAIN_EVERY_S

    def say(self) -> None:
        """Say what is waited for, if anything, and if it was not said last."""
        if self.text and self._reported != self.text:
            self._tell(self.text)
            self._reported = self.text

    def clear(self) -> None:
        """Ask now."""
        self.text = ""


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
