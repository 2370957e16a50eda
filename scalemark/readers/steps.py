"""Counts the steps that a program prints over all of its epochs."""

from __future__ import annotations

from dataclasses import dataclass

_FEW = 5  # steps by which a rank may be behind when training begins


@dataclass(slots=True)
class _Lines:
    """Lines whose numbers grow, of an epoch or of an evaluation."""

    before: int = 0  # steps of the epochs before, by their lines
    unsure: int = 0  # steps by which that may be wrong, where no line says how many an epoch has
    last: int = -1  # as printed
    gap: int = 0  # the largest between two of them
    last_gap: int = 0
    epoch_steps: int = 0  # 0: no line says how many an epoch has

    def take(self, step: int, epoch_steps: int) -> None:
        if step > self.last:
            if self.last >= 0:
                self.last_gap = step - self.last
                self.gap = max(self.gap, self.last_gap)
            self.last = step
        self.epoch_steps = epoch_steps

    def followed_by(self, step: int) -> _Lines:
        """Return the lines of the next epoch, which begin with a step.

        It is due a gap after the last line. But a shorter last gap tells that the last step of an
        epoch is printed, and a first step beside the row, as 1 before 10 and 20, is no due one.
        """
        if self.epoch_steps:
            return _Lines(before=self.before + max(self.last, self.epoch_steps), unsure=self.unsure)
        before = self.before + self.last
        if not self.gap:
            return _Lines(before=before, unsure=self.unsure + self.last)
        if self.last_gap < self.gap:
            return _Lines(before=before + (step == 0), unsure=self.unsure)
        is_due = (self.last - step) % self.gap == 0
        more = max(0, self.gap - step) if is_due else int(step == 0)
        return _Lines(before=before + more, unsure=self.unsure + self.gap - 1)

    def goes_on_with(self, step: int) -> bool:
        return 0 < step - self.last <= self.gap


class StepCounter:
    """Turns the step numbers that a program prints into steps done so far.

    A number that is not above the one before takes back what was counted from there on: of what
    begins anew, nothing is counted before as many steps as training has between two lines.
    """

    def __init__(self) -> None:
        self._first_epoch: int | None = None
        self._epoch: int | None = None
        self._epoch_steps = 0
        self._lines = _Lines()
        self._left: _Lines | None = None  # the lines before these
        self._evaluated = 0  # steps of the longest evaluation that began anew
        self._highest = -1

    def count(self, step: int, epoch: int | None = None, epoch_steps: int = 0) -> int | None:
        """Return the steps done so far; None for a step that was counted, as by another rank, and
        for one of an evaluation.

        `epoch_steps` is how many an epoch has; 0: it is taken from the lines.
        """
        if self._first_epoch is None:
            self._first_epoch = epoch
        if epoch is not None and self._epoch is not None and epoch < self._epoch:
            return None  # of a rank that is behind
        if epoch is not None and self._first_epoch is not None and epoch_steps:
            if epoch == self._epoch and epoch_steps != self._epoch_steps:
                return None  # an evaluation within the epoch has a length of its own
            self._epoch_steps = epoch_steps
            done: int | None = (epoch - self._first_epoch) * epoch_steps + step
        else:
            done = self._done(step, epoch, epoch_steps)
        self._epoch = epoch
        if done is None or done <= self._highest:
            return None
        self._highest = done
        return done

    @property
    def before(self) -> int:
        """Return the steps before their numbers began anew; 0 where those of epochs are printed."""
        return self._lines.before if self._epoch is None else 0

    @property
    def unsure(self) -> int:
        """Return by how many steps the count may be wrong, as the length of epochs is not known."""
        return self._lines.unsure

    def _done(self, step: int, epoch: int | None, epoch_steps: int) -> int | None:
        if self._was_evaluation(step):
            self._go_back()
        elif self._begins_anew(step, epoch):
            self._leave(epoch)
            self._lines = self._lines.followed_by(step)
        elif self._is_behind(step):
            return None
        self._lines.take(step, epoch_steps)
        if self._left and self._lines.last <= max(self._evaluated, self._left.gap - 1):
            return None  # as long as it may be the evaluation again, or a short one
        return self._lines.before + step

    def _leave(self, epoch: int | None) -> None:
        """Keep the lines before these; of two evaluations in a row, those before the first."""
        if epoch is not None:
            self._left = None
        elif self._left is None or self._lines.last >= self._left.last:
            self._left = self._lines

    def _was_evaluation(self, step: int) -> bool:
        """Return whether training goes on from where it was before numbers began anew."""
        return bool(
            self._left and self._left.goes_on_with(step) and not self._lines.goes_on_with(step)
        )

    def _go_back(self) -> None:
        if self._left:
            self._evaluated = max(self._evaluated, self._lines.last)
            self._lines, self._left = self._left, None
            self._highest = self._lines.before + self._lines.last

    def _is_behind(self, step: int) -> bool:
        """Return whether another rank still prints the numbers before these began anew."""
        if self._left is None or step > self._left.last:
            return False
        return step - self._lines.last > max(self._lines.gap, self._left.gap)

    def _begins_anew(self, step: int, epoch: int | None) -> bool:
        """Return whether an epoch begins, whose first line comes within a gap; another rank may be
        behind by little, or by any number of steps where it began later.
        """
        if epoch is not None and self._epoch is not None:
            return epoch > self._epoch
        is_first = step <= min(max(1, self._lines.gap), self._lines.last / 2)
        return self._lines.last >= _FEW and is_first
