"""Keeps what the contenders of a sweep's races have shown so far, judges the races by it, and
counts what that saves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import sqlalchemy as sa

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
    """Those of a database that count for a sweep on this machine and software, with `rerun` from
    now on. No `engine`: none.
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
        """For people; `device` is the name of one."""
        total_s = self.spent_s + self.spared_s
        digits = 0 if total_s >= 100 else 1
        share = f" ({self.spared_s / total_s:.0%})" if total_s else ""
        repeats = f"{self.num_spared} of {self.num_run + self.num_spared} repeats"
        return (
            f"saved {repeats}, {self.spared_s:,.{digits}f} of {total_s:,.{digits}f} "
            f"{device}-seconds{share}"
        ).replace("%", " %")


class Tally:
    """Of all races of a sweep. A race is told by its place among them."""

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
        """Trial id -> repeats that count."""
        return {trial_id: len(completed) for trial_id, completed in self._completed.items()}

    def learn(self, place: int) -> None:
        """Read anew what the contenders of a race have shown. Raises StoreError."""
        self._learn(self.races[place].trial_ids)

    def failed(self, trial_id: str, outcome: Outcome, duration_s: float) -> None:
        """A repeat of it ended so for good."""
        self._failures[trial_id] = outcome.value
        self._failed_s.setdefault(trial_id, []).append(duration_s)

    def judge(self, place: int, num_left: Mapping[str, int]) -> Ruling:
        """`num_left`: trial id -> repeats that wait or run."""
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
        """Of a race; `num_spared`: trial id -> repeats that were not run."""
        race = self.races[place]
        contenders = zip(race.trial_ids, race.specs, strict=True)
        return sum(
            (self._saved(trial_id, spec.num_gpus, num_spared) for trial_id, spec in contenders),
            Saved(),
        )

    def result(self, place: int, ruling: Ruling) -> str:
        """Who won, for people."""
        race = self.races[place]
        names = dict(zip(race.trial_ids, race.names, strict=True))
        if ruling.leader is None:
            return "nothing of it completed"
        speeds = {
            trial_id: median(self._speeds(trial_id))
            for trial_id in names
            if self._completed[trial_id]
        }
        leads = f"{names[ruling.leader]} leads with {speeds[ruling.leader]:.1f} images/s"
        if len(speeds) == 1:
            return f"{leads}, and nothing else completed"
        others = sorted(speeds.keys() - {ruling.leader}, key=lambda trial_id: -speeds[trial_id])
        if ruling.tied:
            leads += f", in a tie with {', '.join(names[trial_id] for trial_id in ruling.tied)}"
        else:
            leads += (
                f", {speeds[ruling.leader] / speeds[others[0]] - 1:.1%} more than "
                f"{names[others[0]]}"
            )
        out = [trial_id for trial_id in others if trial_id in ruling.out]
        told = ", ".join(
            f"{names[one]} {1 - speeds[one] / speeds[ruling.leader]:.1%} behind{self._after(one)}"
            for one in out
        )
        return f"{leads}{'; out early: ' if out else ''}{told}".replace("%", " %")

    def _after(self, trial_id: str) -> str:
        num = len(self._completed[trial_id])
        return f" after {num} repeat{'' if num == 1 else 's'}"

    def _learn(self, trial_ids: Sequence[str]) -> None:
        found = self._read(trial_ids)
        for trial_id in trial_ids:
            self._completed[trial_id] = found.get(trial_id, ())
            self._spreads[trial_id] = Spread.of(self._speeds(trial_id))

    def _speeds(self, trial_id: str) -> tuple[float, ...]:
        return tuple(repeat.throughput for repeat in self._completed[trial_id])

    def _saved(self, trial_id: str, num_gpus: int, num_spared: Mapping[str, int]) -> Saved:
        completed_s = [
            repeat.duration_s
            for repeat in self._completed[trial_id]
            if repeat.duration_s is not None
        ]
        failed_s = self._failed_s.get(trial_id, [])
        usual_s = fmean(completed_s or failed_s or [0.0])
        spared = num_spared.get(trial_id, 0)
        return Saved(
            num_run=len(self._completed[trial_id]),
            num_spared=spared,
            spent_s=num_gpus * (sum(completed_s) + sum(failed_s)),
            spared_s=num_gpus * usual_s * spared,
        )
