"""Keeps the repeats that wait to be run, and what is known of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scalemark.records.trial import TrialSpec
from store.ledger import OpenRepeat
from sweeper.devices.slots import Blocks
from sweeper.planning.plan import PlannedTrial
from sweeper.running.schedule import Queue, Task


@dataclass(slots=True)
class Repeat:
    """A repeat of the sweep, and the attempts made of it here."""

    open: OpenRepeat
    trial: PlannedTrial
    task: Task
    # attempts, by what sweeper.running.judgement calls their ends
    num_ended: Counter[str] = field(default_factory=Counter)


class Backlog:
    """All repeats by their keys. One that waits is in the `queue`, or `put_off` while another sweep
    runs a repeat that would do as well.
    """

    def __init__(
        self, repeats: Iterable[Repeat], blocks: Blocks, *, seed: int, packs: bool
    ) -> None:
        self._repeats: dict[int, Repeat] = {}
        self._of_trial: dict[str, list[int]] = {}
        for repeat in repeats:
            self._repeats[repeat.task.key] = repeat
            self._of_trial.setdefault(repeat.open.trial_id, []).append(repeat.task.key)
        tasks = (repeat.task for repeat in self._repeats.values())
        self.queue = Queue(tasks, blocks=blocks, seed=seed, packs=packs)
        self.put_off: list[Task] = []

    def __getitem__(self, key: int) -> Repeat:
        return self._repeats[key]

    def __len__(self) -> int:
        """Repeats that wait."""
        return len(self.queue) + len(self.put_off)

    @property
    def num_known(self) -> int:
        """Count all repeats, also those that wait no more."""
        return len(self._repeats)

    def waits(self, key: int) -> bool:
        return key in self.queue or any(task.key == key for task in self.put_off)

    def waiting(self) -> list[Task]:
        return [*self.queue.tasks(), *self.put_off]

    def of_trial(self, trial_id: str) -> Sequence[int]:
        """Keys, in the order of the plan."""
        return self._of_trial.get(trial_id, ())

    def trial_ids(self) -> Iterable[str]:
        return self._of_trial

    def remove(self, key: int) -> Task:
        """Have a repeat wait no more. Raises KeyError when it does not wait."""
        for task in self.put_off:
            if task.key == key:
                self.put_off.remove(task)
                return task
        return self.queue.remove(key)

    def ask_for_put_off(self) -> None:
        for task in self.put_off:
            self.queue.put_back(task)
        self.put_off.clear()

    def expect(self, trial_id: str, duration_s: float) -> None:
        """Expect other repeats of a trial to take as long as one took."""
        keys = self._of_trial[trial_id]
        for key in keys:
            repeat = self._repeats[key]
            repeat.task = replace(repeat.task, expected_s=duration_s)
        self.queue.expect(keys, duration_s)


def planned_repeats(
    waiting: Sequence[OpenRepeat],
    trials: Collection[PlannedTrial],
    expected_s: Callable[[TrialSpec], float | None],
    num_completed: Mapping[str, int],
    width: Callable[[TrialSpec], int] = lambda spec: spec.num_gpus,
) -> Iterable[Repeat]:
    """Yield the repeats that wait. The round of each is its place among those of its trial, after
    `num_completed` that count as run.
    """
    by_id = {trial.spec.trial_id: trial for trial in trials}
    expected = {trial_id: expected_s(trial.spec) for trial_id, trial in by_id.items()}
    rounds: Counter[str] = Counter(num_completed)
    for repeat in waiting:
        trial = by_id[repeat.trial_id]
        task = Task(
            key=repeat.repeat_id,
            num_gpus=width(trial.spec),
            expected_s=expected[repeat.trial_id],
            round=rounds[repeat.trial_id],
        )
        rounds[repeat.trial_id] += 1
        yield Repeat(open=repeat, trial=trial, task=task)
