"""Keeps what the contenders of a sweep's races have shown so far, judges the races by it, and
counts what that saves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import sqlalchemy as sa

from scalemark.records.measurement import unit_of
from scalemark.records.outcomes import Outcome
from scalemark.stats.spread import Spread
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
    """What was spent and what was not. Device-seconds are those of attempts, times their
    devices.
    """

    num_run: int = 0  # completed repeats
    num_spared: int = 0
    spent_s: float = 0.0
    spared_s: float = 0.0  # as long as the trial's other attempts took

    def __add__(self, other: Saved) -> Saved:
        return Saved(
            num_run=self.num_run + other.num_run,
            num_spared=self.num_spared + other.num_spared,
            spent_s=self.spent_s + other.spent_s,
            spared_s=self.spared_s + other.spared_s,
        )

    def told(self, device: str) -> str:
        """Say it to people; `device` is the name of one."""
        total_s = self.spent_s + self.spared_s
        share = f" ({100 * self.spared_s / total_s:.0f} %)" if total_s else ""
        return (
            f"saved {self.num_spared} of {self.num_run + self.num_spared} repeats, "
            f"{self.spared_s:,.1f} of {total_s:,.1f} {device}-seconds{share}"
        )


class Tally:
    """What contenders have shown in all races of a sweep. A race is known by its index."""

    def __init__(self, races: Sequence[Race], most_repeats: int, read: ReadResults) -> None:
        self.races = races
        self.race_of = {
            trial_id: place for place, race in enumerate(races) for trial_id in race.trial_ids
        }
        self._most_repeats, self._read = most_repeats, read
        self._completed: dict[str, tuple[CompletedRepeat, ...]] = {}
        self._spreads: dict[str, Spread] = {}
        self._failures: dict[str, str] = {}
        self._failed_s: dict[str, list[float]] = {}
        self._learn(list(self.race_of))

    @property
    def num_completed(self) -> dict[str, int]:
        """Return trial id -> repeats that count."""
        return {trial_id: len(completed) for trial_id, completed in self._completed.items()}

    def learn(self, place: int) -> None:
        """Read again what the contenders of a race have shown. Raises StoreError."""
        self._learn(self.races[place].trial_ids)

    def failed(self, trial_id: str, outcome: Outcome, duration_s: float) -> None:
        """Note that a repeat ended so for good."""
        self._failures[trial_id] = outcome.value
        self._failed_s.setdefault(trial_id, []).append(duration_s)

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

    def saved(self, place: int, num_spared: Mapping[str, int]) -> Saved:
        """Add up a race; `num_spared` has trial id -> repeats that were not run."""
        race, total = self.races[place], Saved()
        for trial_id, spec in zip(race.trial_ids, race.specs, strict=True):
            total += self._saved(trial_id, spec.num_gpus, num_spared.get(trial_id, 0))
        return total

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
        leads = f"{names[ruling.leader]} leads with {best:.1f} {unit}"
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

    def _saved(self, trial_id: str, num_gpus: int, num_spared: int) -> Saved:
        completed = self._completed[trial_id]
        completed_s = [one.duration_s for one in completed if one.duration_s is not None]
        failed_s = self._failed_s.get(trial_id, [])
        usual_s = fmean(completed_s or failed_s or [0.0])
        return Saved(
            num_run=len(completed),
            num_spared=num_spared,
            spent_s=num_gpus * (sum(completed_s) + sum(failed_s)),
            spared_s=num_gpus * usual_s * num_spared,
        )
