"""Plans races: which there are, which are decided, and how much is run at least and at most."""

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
    """All races of a plan."""

    race_over: tuple[str, ...]  # sweep.race_over
    races: tuple[PlannedRace, ...]
    alone: tuple[PlannedTrial, ...]  # trials that have nobody to race against

    def describe(self) -> Iterator[str]:
        """Give lines for people."""
        over = f"sweep.race_over=[{','.join(self.race_over)}]"
        if not self.races:
            yield f"sweep.race: nothing races, for no two trials differ in {over} alone"
            return
        num_least = sum(planned.num_least for planned in self.races)
        num_most = sum(planned.num_most for planned in self.races)
        num_decided = sum(planned.is_decided for planned in self.races)
        yield (
            f"sweep.race: races: {len(self.races)} ({over}), decided earlier: {num_decided}; "
            f"attempts: {num_least} at least, {num_most} at most"
        )
        if self.alone:
            labels = ", ".join(trial.label for trial in self.alone[:MOST_NAMED])
            dots = ", ..." if len(self.alone) > MOST_NAMED else ""
            yield f"            without a rival, and run in full: {len(self.alone)}: {labels}{dots}"


def with_races(plan: Plan, tally: Tally, race_over: Sequence[str]) -> tuple[Plan, PlannedRaces]:
    """Leave out the repeats that what was completed earlier makes worthless, and describe the
    races.
    """
    trials = {trial.spec.trial_id: trial for trial in plan.trials}
    left = {trial_id: trial.num_repeats for trial_id, trial in trials.items()}
    planned = []
    for place, race in enumerate(tally.races):
        is_decided = tally.judge(place, left).is_over
        planned.append(_planned(race, left, tally, is_decided))
        for trial_id in race.trial_ids:
            if is_decided and left[trial_id]:
                trials[trial_id] = replace(trials[trial_id], num_repeats=0, is_decided=True)
    alone = tuple(trial for trial in plan.trials if trial.spec.trial_id not in tally.race_of)
    races = PlannedRaces(race_over=tuple(race_over), races=tuple(planned), alone=alone)
    return replace(plan, trials=tuple(trials.values())), races


def _planned(race: Race, left: dict[str, int], tally: Tally, is_decided: bool) -> PlannedRace:
    if is_decided:
        return PlannedRace(race=race, is_decided=True, num_least=0, num_most=0)
    completed = [tally.num_completed[trial_id] for trial_id in race.trial_ids]
    # each runs once; who leads, twice
    least = completed.count(0) + (max(completed) < 2)
    most = sum(left[trial_id] for trial_id in race.trial_ids)
    return PlannedRace(race=race, is_decided=False, num_least=least, num_most=most)
