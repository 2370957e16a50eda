"""Keeps what the contenders of a sweep's races have shown so far, and judges the races by it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import sqlalchemy as sa

from scalemark.records.measurement import unit_of
from scalemark.records.outcomes import Outcome
from scalemark.stats.spread import Spread
from scalemark.text.decimals import fixed
from scalemark.text.wording import counted
from store.reading.completed_repeats import CompletedRepeat, completed_repeats, last_attempt
from sweeper.race.judge import Contender, Ruling, judge
from sweeper.race.races import Race

ReadResults = Callable[[Sequence[str]], Mapping[str, tuple[CompletedRepeat, ...]]]
"""Trial ids -> their completed repeats so far, whichever sweep made them."""


def results_in(
    engine: sa.Engine | None, machine_key: str, software_key: str, *, shares_host: bool, rerun: bool
) -> ReadResults:
    """Return a reader of those that count for a sweep on this machine and software, with `rerun`
    from now on; none without a database.
    """
    after = last_attempt(engine) if engine and rerun else 0

    def read(trial_ids: Sequence[str]) -> Mapping[str, tuple[CompletedRepeat, ...]]:
        if engine is None:
            return {}
        return completed_repeats(
            engine, trial_ids, machine_key, software_key, shares_host=shares_host, after=after
        )

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Repeats of races that were run, and that were not."""

    num_run: int = 0  # and completed
    num_spared: int = 0

    def __add__(self, other: Saved) -> Saved:
        return Saved(
            num_run=self.num_run + other.num_run, num_spared=self.num_spared + other.num_spared
        )

    def __str__(self) -> str:
        return f"saved {self.num_spared} of {counted(self.num_run + self.num_spared, 'repeat')}"


class Tally:
    """The results of contenders in all races of a sweep. A race is known by its index."""

    def __init__(self, races: Sequence[Race], most_repeats: int, read: ReadResults) -> None:
        self.races = races
        self.race_of = {
            trial_id: place for place, race in enumerate(races) for trial_id in race.trial_ids
        }
        self._most_repeats, self._read = most_repeats, read
        self._completed: dict[str, tuple[CompletedRepeat, ...]] = {}
        self._spreads: dict[str, Spread] = {}
        self._failures: dict[str, str] = {}
        self._learn(list(self.race_of))

    @property
    def num_completed(self) -> dict[str, int]:
        """Return trial id -> repeats that count."""
        return {trial_id: len(completed) for trial_id, completed in self._completed.items()}

    def learn(self, place: int) -> None:
        """Read again what the contenders of a race have shown. Raises StoreError."""
        self._learn(self.races[place].trial_ids)

    def failed(self, trial_id: str, outcome: Outcome) -> None:
        """Note that a repeat ended so for good."""
        self._failures[trial_id] = outcome.value

    def judge(self, place: int, num_left: Mapping[str, int]) -> Ruling:
        """Judge a race; `num_left` has trial id -> repeats that wait or run."""
        race = self.races[place]
        contenders = [
            Contender(
                trial_id=trial_id,
                name=name,
                speeds=self._speeds(trial_id),
                num_left=num_left.get(trial_id, 0),
                failure=self._failures.get(trial_id, ""),
            )
            for trial_id, name in zip(race.trial_ids, race.names, strict=True)
        ]
        return judge(contenders, Spread.sum(self._spreads.values()), self._most_repeats)

    def saved(self, place: int, num_spared: int) -> Saved:
        """Count the repeats of a race, `num_spared` of which were not run."""
        num_run = sum(len(self._completed[one]) for one in self.races[place].trial_ids)
        return Saved(num_run=num_run, num_spared=num_spared)

    def result(self, place: int, ruling: Ruling) -> str:
        """Say to people who won."""
        race = self.races[place]
        if ruling.leader is None:
            return "nothing of it completed"
        names = dict(zip(race.trial_ids, race.names, strict=True))
        speeds = {
            trial_id: median(self._speeds(trial_id))
            for trial_id in names
            if self._completed[trial_id]
        }
        best = speeds.pop(ruling.leader)
        unit = unit_of(self._completed[ruling.leader][0].item)
        leads = f"{names[ruling.leader]} leads with {fixed(best, 1)} {unit}"
        if ruling.tied:
            return f"{leads}, in a tie with {', '.join(names[one] for one in ruling.tied)}"
        if not speeds:
            return f"{leads}, and nothing else completed"
        second = max(speeds, key=speeds.__getitem__)
        return f"{leads}, {100 * (best / speeds[second] - 1):.1f} % more than {names[second]}"

    def _learn(self, trial_ids: Sequence[str]) -> None:
        found = self._read(trial_ids)
        for trial_id in trial_ids:
            self._completed[trial_id] = found.get(trial_id, ())
            self._spreads[trial_id] = Spread.of(self._speeds(trial_id))

    def _speeds(self, trial_id: str) -> tuple[float, ...]:
        return tuple(repeat.throughput for repeat in self._completed[trial_id])
