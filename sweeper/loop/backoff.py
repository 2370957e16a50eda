"""Spaces out questions about devices or repeats that others have."""

from __future__ import annotations

from collections.abc import Callable

ASK_AGAIN_EVERY_S = 1.0  # while another sweep has the devices, or runs what would do for us
# agents may be many, and what is left for none of them: each miss in a row doubles the wait
MOST_S = 5.0


class Backoff:
    """Waits for others: `text` says for what, and is empty when there is nothing to wait for."""

    def __init__(self, clock: Callable[[], float], tell: Callable[[str], object]) -> None:
        self.text = ""
        self.ask_again_s = clock()
        self._clock, self._tell = clock, tell
        self._told = ""
        self._num_misses = 0  # one after another

    @property
    def is_due(self) -> bool:
        return bool(self.text) and self._clock() >= self.ask_again_s

    def wait(self, what: str, *, is_idle: bool) -> None:
        """Ask again in a second. People are told once, if nothing runs meanwhile."""
        self.text = f"waiting: {what}"
        if self._told != what and is_idle:
            self._tell(self.text)
            self._told = what
        self.ask_again_s = self._clock() + ASK_AGAIN_EVERY_S

    def wait_longer(self, what: str, *, is_idle: bool) -> None:
        """Wait longer each time that there was nothing."""
        self.wait(what, is_idle=is_idle)
        wait_s = min(ASK_AGAIN_EVERY_S * 2 ** min(self._num_misses, 10), MOST_S)
        self._num_misses += 1
        self.ask_again_s = self._clock() + wait_s

    def clear(self) -> None:
        """Ask now."""
        self.text = ""

    def reset(self) -> None:
        """There was something: begin with short waits anew."""
        self._num_misses = 0
