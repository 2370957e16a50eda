"""Shows now and then how a sweep goes, where somebody looks."""

from __future__ import annotations

from collections.abc import Callable

from sweeper.live.log import Log
from sweeper.loop.supervision import Supervision
from sweeper.planning.eta import Eta

SHOW_EVERY_S = 1.0


class Display:
    """Draws what runs; `due_s` is when it does so next."""

    def __init__(
        self, progress: Log, supervision: Supervision, eta: Eta, clock: Callable[[], float]
    ) -> None:
        self._progress, self._supervision, self._eta = progress, supervision, eta
        self._clock, self._next_s = clock, clock()

    @property
    def due_s(self) -> float:
        return self._next_s if self._progress.is_live else float("inf")

    def show_if_due(self, waits_for: str) -> None:
        now_s = self._clock()
        if now_s >= self.due_s:
            self._progress.show(self._supervision.started(), now_s, self._eta.left_s(), waits_for)
            self._next_s = self._clock() + SHOW_EVERY_S
