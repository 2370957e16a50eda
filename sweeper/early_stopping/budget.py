"""Reads what a sweep may spend, as 2h or 8gpu_h, and keeps the account of what it spent."""

import math
import re
import time
from collections.abc import Callable

from scalemark.text.wording import duration_text
from sweeper import SweepRefusedError

_HOUR_S, _MINUTE_S = 3600.0, 60.0
_NUMBER = r"(\d{1,6}(?:\.\d{1,6})?)"
_OF_CLOCK = re.compile(rf"(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?", re.ASCII)
_OF_DEVICES = re.compile(rf"{_NUMBER}gpu_h", re.ASCII)
_ENDLESS = "inf"


class Budget:
    """Seconds of the clock from the first attempt on, or seconds of attempts times their devices.

    `clock` counts seconds.
    """

    def __init__(
        self,
        most_s: float,
        *,
        of_devices: bool = False,
        clock: Callable[[], float],
    ) -> None:
        self.most_s, self.of_devices = most_s, of_devices
        self.num_begun = 0  # attempts
        self._clock = clock
        self._begin_s = 0.0  # of the first attempt
        self._ended_s = 0.0  # seconds of devices, of attempts that ended
        self._running: dict[str, tuple[float, float, int]] = {}  # trial -> begin, expected, devices

    @property
    def is_endless(self) -> bool:
        return math.isinf(self.most_s)

    @property
    def spent_s(self) -> float:
        """Return what was spent; device time of what runs counts to its expected end."""
        now_s = self._clock()
        if not self.of_devices:
            return now_s - self._begin_s if self.num_begun else 0.0
        spent_s = self._ended_s
        for begin_s, expected_s, num_devices in self._running.values():
            spent_s += num_devices * max(expected_s, now_s - begin_s)
        return spent_s

    def left(self) -> float:
        """Return the most seconds that may pass until it is spent, with one device at work."""
        return max(0.0, self.most_s - self.spent_s)

    def has_room(self, expected_s: float | None, num_devices: int, kept: float = 0.0) -> bool:
        """Return whether one more attempt would end before a share `kept` is all that is left; the
        first one always runs. One of unknown duration may begin as long as more is left.
        """
        cost_s = (expected_s or 0.0) * (num_devices if self.of_devices else 1)
        return not self.num_begun or self.left() - kept * self.most_s > cost_s

    def begun(self, trial_id: str, expected_s: float | None, num_devices: int) -> None:
        now_s = self._clock()
        if not self.num_begun:
            self._begin_s = now_s
        self.num_begun += 1
        self._running[trial_id] = (now_s, expected_s or 0.0, num_devices)

    def ended(self, trial_id: str) -> float:
        """Return the seconds that the attempt took."""
        begin_s, _, num_devices = self._running.pop(trial_id)
        took_s = self._clock() - begin_s
        self._ended_s += num_devices * took_s
        return took_s

    def __str__(self) -> str:
        """Say how much of it was spent."""
        return f"{_text(self.spent_s, self.of_devices)} of {_text(self.most_s, self.of_devices)}"


def read_budget(text: str, clock: Callable[[], float] = time.monotonic) -> Budget | None:
    """Return what may be spent; None for no text. Raises SweepRefusedError."""
    if not text:
        return None
    if text == _ENDLESS:
        return Budget(math.inf, clock=clock)
    of_devices = _OF_DEVICES.fullmatch(text)
    of_clock = _OF_CLOCK.fullmatch(text)
    most_s = 0.0
    if of_devices:
        most_s = float(of_devices[1]) * _HOUR_S
    elif of_clock:
        hours, minutes, seconds = map(float, of_clock.groups("0"))
        most_s = hours * _HOUR_S + minutes * _MINUTE_S + seconds
    if not most_s:
        raise SweepRefusedError(
            f"sweep.budget={text[:40]}: wanted a time as 2h, 90m or 2h30m, GPU-hours as 8gpu_h, or "
            f"{_ENDLESS} for races without a limit; leave it out to run everything in full"
        )
    return Budget(most_s, of_devices=bool(of_devices), clock=clock)


def _text(seconds: float, of_devices: bool) -> str:
    return f"{seconds / _HOUR_S:.3g} device-hours" if of_devices else duration_text(seconds)
