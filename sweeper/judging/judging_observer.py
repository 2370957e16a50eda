"""Lets one run after another start as a proposal is judged, and gives up the rest once the verdict
is sure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from scalemark.records.outcomes import Outcome
from sweeper.judging.judging import Judging
from sweeper.judging.rule import Side
from sweeper.loop.backlog import Backlog
from sweeper.race.racing_observer import Observer
from sweeper.running.schedule import Task


class JudgingObserver(Observer):
    """Observes a sweep of two trials: of their repeats one at a time waits, all others are held
    back.
    """

    def __init__(
        self,
        judging: Judging,
        backlog: Backlog,
        skip: Callable[[Sequence[int], str], None],
        tell: Callable[[str], object],
    ) -> None:
        super().__init__()
        self._judging, self._backlog, self._skip, self._tell = judging, backlog, skip, tell
        self._running: set[int] = set()

    def begun(self, key: int) -> None:
        self._running.add(key)
        self._judging.budget.num_begun += 1

    def ended(self, key: int, final: Outcome | None, duration_s: float) -> None:
        self._running.discard(key)
        if final is Outcome.COMPLETED:
            self._judging.budget.completed(self._side_of(key), duration_s)
        elif final not in (None, Outcome.INTERRUPTED):
            self._judging.failed(self._side_of(key), final)

    def expected(self) -> Collection[Task]:
        return self.held_back.values()  # at most: the verdict may be sure before

    def steer(self, key: int) -> None:
        self.steer_all()

    def steer_all(self) -> None:
        if self._running:
            return
        self._judging.learn()
        self._judging.spend()
        side = self._judging.wanted()
        for task in self._backlog.waiting():
            self.held_back[task.key] = self._backlog.remove(task.key)
        keys = [key for key in self.held_back if self._side_of(key) is side]
        if side and not keys:
            self._judging.run_out(side)
        if not keys:
            self._give_up()
            return
        if left := self._judging.budget.left_text(self._side_of(keys[0])):
            self._tell(f"judge: {left}")
        # in the order of their keys: one that is tried again comes before those not begun
        key = min(keys)
        self._backlog.queue.put_back(self.held_back.pop(key))

    def _give_up(self) -> None:
        """Write down that what was held back is not run. Raises StoreError."""
        keys = list(self.held_back)
        self.held_back.clear()
        if keys:
            self._skip(keys, f"judge: {self._judging.verdict}")

    def _side_of(self, key: int) -> Side:
        return self._judging.side_of(self._backlog[key].open.trial_id)
