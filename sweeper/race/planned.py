"""What a plan says of its races: which there are, which are decided already, and how much is run at
least and at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sweeper.planning.plan import Plan, PlannedTrial
from sweeper.race.races import Race
from sweeper.race.tally import Tally

MOST_NAMED = 3  # trials without a rival


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRace:
    """One race, before it is run."""

    race: Race
    is_decided: bool  # by what was completed earlier
    num_least: int  # attempts, if each contender is out after its first repeat, and none fails
    num_most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRaces:
    """All of a plan."""

    race_over: tuple[str, ...]  # sweep.race_over
    races: tuple[PlannedRace, ...]
    alone: tuple[PlannedTrial, ...]  # trials that have nobody to race against

    def describe(self) -> Iterator[str]:
        """Lines for people."""
        over = f"sweep.race_over=[{','.join(self.race_over)}]"
        if self.races:
            yield f"sweep.race: {self._races(over)}"
        else:
            yield (
                f"sweep.race: nothing races: no two trials differ in {over} alone, and every "
                "trial runs all its repeats"
            )
        if self.races and self.alone:
            labels = [trial.label for trial in self.alone]
            more = f" and {len(labels) - MOST_NAMED} more" if len(labels) > MOST_NAMED else ""
            run = "1 trial has" if len(labels) == 1 else f"{len(labels)} trials have"
            yield (
                f"            {run} nobody to race against, and all repeats are run: "
                f"{', '.join(labels[:MOST_NAMED])}{more}"
            )

    def _races(self, over: str) -> str:
        sizes = [len(planned.race.specs) for planned in self.races]
        num_decided = sum(planned.is_decided for planned in self.races)
        size = str(sizes[0]) if len(set(sizes)) == 1 else f"{min(sizes)} to {max(sizes)}"
        counted = (
            f"{len(sizes)} races, of {size} trials each"
            if len(sizes) > 1
            else f"1 race of {size} trials"
        )
        counted += f" ({over})"
        if num_decided == len(sizes):
            return f"{counted}: decided earlier"
        left = f", {num_decided} decided earlier" if num_decided else ""
        least, most = (
            sum(getattr(planned, name) for planned in self.races)
            for name in ("num_least", "num_most")
        )
        return f"{counted}{left}: {least} attempts at least, {most} at most"


def with_races(plan: Plan, tally: Tally, race_over: Sequence[str]) -> tuple[Plan, PlannedRaces]:
    """The plan without the repeats that what was completed earlier makes worthless, and what it
    says of its races.
    """
    trials = {trial.spec.trial_id: trial for trial in plan.trials}
    left = {trial_id: trial.num_repeats for trial_id, trial in trials.items()}
    decided = {place for place in range(len(tally.races)) if tally.judge(place, left).is_over}
    planned = tuple(
        _planned(race, left, tally, place in decided) for place, race in enumerate(tally.races)
    )
    for trial_id, place in tally.race_of.items():
        if place in decided and left[trial_id]:
            trials[trial_id] = replace(trials[trial_id], num_repeats=0, is_decided=True)
    alone = tuple(trial for trial in plan.trials if trial.spec.trial_id not in tally.race_of)
    races = PlannedRaces(race_over=tuple(race_over), races=planned, alone=alone)
    return replace(plan, trials=tuple(trials.values())), races


def _planned(race: Race, left: dict[str, int], tally: Tally, is_decided: bool) -> PlannedRace:
    if is_decided:
        return PlannedRace(race=race, is_decided=True, num_least=0, num_most=0)
    completed = [tally.num_completed[trial_id] for trial_id in race.trial_ids]
    least = completed.count(0) + (max(completed) < 2)
    return PlannedRace(
        race=race,
        is_decided=False,
        num_least=least,
        num_most=sum(left[trial_id] for trial_id in race.trial_ids),
    )
