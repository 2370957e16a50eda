"""Turns Ctrl-C, SIGTERM (Slurm, `timeout`) and SIGHUP (a closed terminal) into one interruption."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN_S = 1.0  # after which a second Ctrl-C is another; `timeout` sends two signals at once


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at the first of these signals.

    Those that follow change nothing, so that programs are ended and the report is written; but a
    Ctrl-C a second later raises again. SIGHUP is not heard where `nohup` ignores it; SIGINT also
    where a shell has it ignored in the background, as the programs that it shall end would.
    """
    received_s: list[float] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        received_s.append(time.monotonic())
        # else a stage could run out of time while it ends its programs, and the next would begin
        signal.setitimer(signal.ITIMER_REAL, 0)
        is_again = number == signal.SIGINT and received_s[-1] - received_s[0] > AGAIN_S
        if len(received_s) == 1 or is_again:
            raise KeyboardInterrupt

    heard = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        heard.append(signal.SIGHUP)
    before = {number: signal.signal(number, receive) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
