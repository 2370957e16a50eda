"""Ends or stops a sweep exactly in one phase: it is frozen, looked at once more, and only then struck."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.phases import Phase, Watched, num_dead, state_of

WITHIN_S = 900.0  # whatever is waited for
_LOOK_EVERY_S = 0.002
_MOST_LOOKS = {
    Phase.RECOVERING: 2,
    Phase.RECORDING: 2,
    Phase.ENDING: 8,
}  # while a phase lasts, before the sweep is frozen
_MOST_LOOKS_ELSEWHERE = 60
_GUARD = "scalemark-guard"  # the name of its process

Act = Callable[[Watched], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """`act` is done to a sweep that stands still in the phase, and returns False where it could not be."""

    phase: Phase
    act: Act

    def __call__(self, sweeps: Sequence[Watched], chance: random.Random) -> bool | None:
        """Wait for the phase in any of the sweeps. False: it was over before that one stood still; None: all have ended."""
        if not any(sweep.is_alive for sweep in sweeps):
            return None
        if self.phase is Phase.RECOVERING and not num_dead(sweeps[0].database):
            for sweep in sweeps:  # there must be something to recover, by the next command
                Strike(phase=Phase.RUNNING, act=_signal(signal.SIGKILL))([sweep], chance)
            return False
        most = _MOST_LOOKS.get(self.phase, _MOST_LOOKS_ELSEWHERE)
        looks_left = int(most ** chance.random())
        deadline = time.monotonic() + WITHIN_S
        while alive := [sweep for sweep in sweeps if sweep.is_alive]:
            for sweep in chance.sample(alive, len(alive)):
                if sweep.phase() is self.phase:
                    looks_left -= 1
                    if looks_left <= 0:
                        return self._at(sweep)
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"no sweep was {self.phase} within {WITHIN_S:g} s; they are {[one.phase() for one in alive]}"
                )
            time.sleep(_LOOK_EVERY_S)
        return None

    def _at(self, sweep: Watched) -> bool:
        sweep.freeze()
        try:
            return sweep.phase() is self.phase and self.act(sweep)
        finally:
            sweep.thaw()


def _signal(number: signal.Signals) -> Act:
    def act(sweep: Watched) -> bool:
        sweep.process.send_signal(number)
        return True

    return act


def _interrupt_twice(sweep: Watched) -> bool:
    """As an impatient user does; the second one comes when the first was taken."""
    sweep.process.send_signal(signal.SIGINT)
    sweep.thaw()
    deadline = time.monotonic() + WITHIN_S
    while sweep.is_alive and _has_pending(sweep.process.pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"SIGINT was not taken within {WITHIN_S:g} s")
        time.sleep(_LOOK_EVERY_S)
    sweep.process.send_signal(signal.SIGINT)
    return True


def _has_pending(pid: int) -> bool:
    """Whether it has not taken a signal yet; False for one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
    return any(
        int(line.split()[1], 16)
        for line in status.splitlines()
        if line.startswith(("SigPnd:", "ShdPnd:"))
    )


def _outlast(sweep: Watched) -> bool:
    """The sweep stands still until what it runs, if anything, has ended."""
    if trainer := sweep.trainer():
        _until_ended(trainer[0])
    return True


def _signal_guard(number: signal.Signals) -> Act:
    def act(sweep: Watched) -> bool:
        found = _guards(sweep)
        for process in found:
            process.send_signal(number)
        return bool(found)

    return act


def _kill_guard_and_sweep(sweep: Watched) -> bool:
    """Nobody is left to end what the trainer has started."""
    return _signal_guard(signal.SIGKILL)(sweep) and _signal(signal.SIGKILL)(sweep)


def _guards(sweep: Watched) -> list[psutil.Process]:
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(sweep.process.pid).children():
            with suppress(psutil.NoSuchProcess):
                if child.name() == _GUARD:
                    found.append(child)
    return found


def _until_ended(pid: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while state_of(pid) not in ("Z", ""):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} did not end within {WITHIN_S:g} s")
        time.sleep(_LOOK_EVERY_S)


_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)

STRIKES: dict[str, Strike] = {
    **{
        f"{number.name} sweep, {phase}": Strike(phase=phase, act=_signal(number))
        for phase in Phase
        for number in _ENDING
    },
    **{f"SIGSTOP and SIGCONT sweep, {phase}": Strike(phase=phase, act=_outlast) for phase in Phase},
    **{
        f"{number.name} guard, {phase}": Strike(phase=phase, act=_signal_guard(number))
        for phase in (Phase.RUNNING, Phase.RECORDING)
        for number in (*_ENDING, signal.SIGSTOP)
    },
    "SIGINT twice sweep, running": Strike(phase=Phase.RUNNING, act=_interrupt_twice),
    "SIGKILL guard and sweep, running": Strike(phase=Phase.RUNNING, act=_kill_guard_and_sweep),
}
"""What is done, and when, as it is reported."""
