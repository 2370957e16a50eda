"""Hears Ctrl-C, SIGTERM and SIGHUP, and decides when the loop starts nothing more."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from types import FrameType

from store.errors import StoreError
from sweeper.errors import SweepRefusedError


class Stop:
    """Counts requests to stop: once is to start nothing more, twice is to end everything now.

    Only Ctrl-C can be the second time: a terminal that is closed sends SIGHUP twice, a system that
    goes down SIGTERM and SIGHUP. Looked at between actions, so that no attempt is lost while it is
    being recorded.
    """

    def __init__(self) -> None:
        self.times_asked = 0
        self.last_signal: int | None = None  # none: nobody asked, or by another way

    @property
    def hint(self) -> str:
        """Return the end of a sentence: what else may be done, where there is a keyboard."""
        return "; Ctrl-C once more kills" if self.last_signal == signal.SIGINT else ""

    def ask(self, times: int) -> None:
        """Ask by another way than a signal; what is less than before changes nothing."""
        self.times_asked = max(times, self.times_asked)

    def _ask(self, number: int, _frame: FrameType | None) -> None:
        self.last_signal = number
        self.times_asked = (
            self.times_asked + 1 if number == signal.SIGINT else max(1, self.times_asked)
        )

    @contextmanager
    def listening(self) -> Iterator[socket.socket]:
        """Gives a socket that becomes readable with every signal.

        SIGINT is heard also where a shell had it ignored for a background job; SIGHUP not where
        `nohup` did.
        """
        heard = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            heard.append(signal.SIGHUP)
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)
        before = [signal.signal(number, self._ask) for number in heard]
        woken_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(woken_before)
            for number, handler in zip(heard, before, strict=True):
                signal.signal(number, handler)
            reader.close()
            writer.close()


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
