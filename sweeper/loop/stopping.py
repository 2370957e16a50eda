"""Decides when the loop starts nothing more, and says why an attempt was interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sized

from store.errors import StoreError
from sweeper.errors import SweepRefusedError
from sweeper.loop.source import Source, Wish
from sweeper.stop import Stop

OF_SWEEP = "the sweep was interrupted"


class Stopping:
    """Collects the reasons to start nothing more: a signal, a wish, a failure of the store."""

    def __init__(self, stop: Stop, running: Sized, tell: Callable[[str], object]) -> None:
        self.stop = stop
        self.starts_no_more = False  # with sweep.on_failure=stop, or by the planner's wish
        self.failure: StoreError | SweepRefusedError | None = None  # results cannot be written
        self._running, self._tell = running, tell

    @property
    def was_interrupted(self) -> bool:
        return self.stop.times_asked > 0

    @property
    def is_stopping(self) -> bool:
        return self.was_interrupted or self.starts_no_more or self.failure is not None

    def heed(self, wish: Wish) -> None:
        if wish is Wish.FINISH:
            self.starts_no_more = True
        elif wish > Wish.FINISH:
            self.stop.ask(2 if wish is Wish.KILL else 1)

    def give_up(self, error: StoreError | SweepRefusedError) -> None:
        """Start nothing more; what runs may end, and the next command reads its run folder. Where
        nothing runs, the end says the error at once.
        """
        if self.failure is None:
            self.failure = error
            if self._running:
                self._tell(f"{error}; waiting for what still runs")


def why_interrupted(stop: Stop, source: Source) -> str:
    """An agent that is ended alone leaves its trials to others. The planner that ends a sweep may
    send its agents signals too, but says first what it wishes.
    """
    if not source.is_leased or stop.last_signal is None:
        return OF_SWEEP
    try:
        of_sweep = source.wish() >= Wish.STOP
    except StoreError:
        of_sweep = False  # the signal is all that is known
    if of_sweep:
        return OF_SWEEP
    return f"its agent was ended by {signal.Signals(stop.last_signal).name}; others run it"
