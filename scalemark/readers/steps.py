"""Counts steps over all epochs, where a program begins each anew, and several ranks print each."""

from __future__ import annotations

_FEW = 5  # steps by which a rank may be behind when training begins


class StepCounter:
    """Turns the step numbers that a program prints into steps done so far."""

    def __init__(self) -> None:
        self._first_epoch: int | None = None
        self._epoch: int | None = None
        self._before = 0  # steps of the epochs before, where no line says how many one has
        self._last = -1  # as printed
        self._highest = -1

    def count(self, step: int, epoch: int | None = None, epoch_steps: int = 0) -> int | None:
        """Return the steps done so far; None for a step that was counted, as by another rank.

        `epoch_steps` is how many an epoch has; 0: the last step printed stands for it.
        """
        if self._first_epoch is None:
            self._first_epoch = epoch
        if epoch is not None and self._epoch is not None and epoch < self._epoch:
            return None  # of a rank that is behind
        if epoch is not None and self._first_epoch is not None and epoch_steps:
            done = (epoch - self._first_epoch) * epoch_steps + step
        else:
            if self._begins_anew(step, epoch):
                self._before += self._last
                self._last = -1
            self._last = max(self._last, step)
            done = self._before + step
        self._epoch = epoch
        if done <= self._highest:
            return None
        self._highest = done
        return done

    def _begins_anew(self, step: int, epoch: int | None) -> bool:
        """Return whether an epoch begins; another rank is behind by little."""
        if epoch is not None and self._epoch is not None:
            return epoch > self._epoch
        return self._last >= _FEW and step <= self._last / 2
