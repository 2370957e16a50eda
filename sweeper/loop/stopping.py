"""Decides when the loop starts nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sized

from store.errors import StoreError
from sweeper.errors import SweepRefusedError
from sweeper.stop import Stop

OF_SWEEP = "the sweep was interrupted"


class Stopping:
    """Collects the reasons to start nothing more: a signal, a failure of the store."""

    def __init__(self, stop: Stop, running: Sized, tell: Callable[[str], object]) -> None:
        self.stop = stop
        self.starts_no_more = False  # with sweep.on_failure=stop, or when GPUs stay in use
        self.failure: StoreError | SweepRefusedError | None = None  # results cannot be written
        self._running, self._tell = running, tell

    @property
    def was_interrupted(self) -> bool:
        return self.stop.times_asked > 0

    @property
    def is_stopping(self) -> bool:
        return self.was_interrupted or self.starts_no_more or self.failure is not None

    def give_up(self, error: StoreError | SweepRefusedError) -> None:
        """Start nothing more; what runs may end, and the next command reads its run folder. Where
        nothing runs, the end says the error at once.
        """
        if self.failure is None:
            self.failure = error
            if self._running:
                self._tell(f"{error}; waiting for what still runs")
