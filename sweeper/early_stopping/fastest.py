"""Finds the fastest trial of a model within a budget, by branch and bound over scaling curves.

Trials that differ in their number of GPUs and of hosts alone are a curve. More GPUs are hardly more
than as many times faster, so that few of them bound the others:

```
         x1     x2     x4     x8
  A     100    190      .    740   leads
  B      95    150  (300)  (600)   bounds of what was not run: B can no longer lead, and is left out
  C      95    170  (340)  (680)
  D       .      .      .      .   not known: runs before the others, on the fewest GPUs
```

Once no trial that was not run can lead, repeats are spent on those that the rule of races does not
tell apart.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from scalemark.records.measurement import Outcome, unit_of
from scalemark.records.trial import TrialSpec, width_name, work_axes
from scalemark.stats.welch import Spread
from scalemark.text.wording import counted, fixed, shortened
from sweeper.early_stopping.budget import Budget
from sweeper.early_stopping.contests import Race, RaceResults, ReadResults, names_of
from sweeper.early_stopping.rule import Contender, Ruling, rule_race

MARGIN = 0.08
"""By how much a curve may scale better than linearly, as one run of each of its trials shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoint:
    """One trial, on its curve."""

    contender: Contender
    curve: str
    num_gpus: int

    @property
    def trial_id(self) -> str:
        return self.contender.trial_id

    @property
    def speed(self) -> float | None:
        """Return the geometric mean of its repeats; None where none completed."""
        if not self.contender.speeds:
            return None
        return math.exp(fmean(map(math.log, self.contender.speeds)))

    @property
    def may_run(self) -> bool:
        return self.speed is None and not self.contender.failure and self.contender.num_left > 0


class CurveSearch:
    """Ranks trials by their results so far, and by bounds on those that have none."""

    def __init__(self, points: Sequence[CurvePoint], spread: Spread, most_repeats: int) -> None:
        self.points = points
        self._curves: dict[str, list[CurvePoint]] = defaultdict(list)
        for point in sorted(points, key=lambda point: point.num_gpus):
            self._curves[point.curve].append(point)
        self.measured = [point for point in points if point.speed is not None]
        self.leader = max(self.measured, key=_speed, default=None)
        contenders = [point.contender for point in self.measured]
        # with one repeat at most nothing is repeated, and yet single runs may be far behind
        self.race: Ruling = rule_race(contenders, spread, max(2, most_repeats))

    @property
    def open_points(self) -> list[CurvePoint]:
        """Return the trials without a number that may be the fastest."""
        least = 0.0 if self.leader is None else _speed(self.leader)
        return [point for point in self.points if point.may_run and self.bound(point) > least]

    @property
    def unknown_curves(self) -> list[CurvePoint]:
        """Return the first trial of each curve of which nothing has completed."""
        curves = self._curves.values()
        return [curve[0] for curve in curves if not any(map(_is_measured, curve))]

    def bound(self, point: CurvePoint) -> float:
        """Return the most that a trial may show, by fewer GPUs of its curve; inf if not known."""
        known = [
            other
            for other in self._curves[point.curve]
            if other.speed is not None and other.num_gpus < point.num_gpus
        ]
        if not known:
            return math.inf
        return _speed(known[-1]) * point.num_gpus / known[-1].num_gpus * (1 + MARGIN)

    def in_order(self) -> Iterator[CurvePoint]:
        """Yield what is worth running, best first: a trial of each curve that may have the fastest,
        then repeats, in rounds.
        """
        curves: dict[str, list[CurvePoint]] = defaultdict(list)
        for point in sorted(self.open_points, key=lambda point: point.num_gpus):
            curves[point.curve].append(point)
        tops = [max(points, key=self.bound) for points in curves.values()]
        tops.sort(key=lambda top: (self._only_fails(top), -self.bound(top), top.num_gpus))
        for place, top in enumerate(tops):
            yield self._step_to(top, leads=place == 0)
        wanted = [point for point in self.measured if self.race.wanted[point.trial_id]]
        yield from sorted(wanted, key=lambda point: (len(point.contender.speeds), -_speed(point)))

    def _step_to(self, top: CurvePoint, *, leads: bool) -> CurvePoint:
        """Return the trial of a curve that settles most: the next larger one, which costs little
        and lowers the bounds of all others, or of the leading curve the one that others must beat.
        """
        if leads and all(point.num_gpus < top.num_gpus for point in self.measured):
            return top
        smaller = [point for point in self._curves[top.curve] if point.num_gpus < top.num_gpus]
        least = max((point.num_gpus for point in smaller if _is_measured(point)), default=0)
        steps = [point for point in smaller if point.may_run and point.num_gpus > least]
        return [*steps, top][0]

    def _only_fails(self, point: CurvePoint) -> bool:
        curve = self._curves[point.curve]
        is_measured = any(map(_is_measured, curve))
        return not is_measured and any(other.contender.failure for other in curve)


class BudgetedRace(Race):
    """A contest of all trials of one model, of which the fastest shall be found within a budget:
    one attempt at a time, as each says which is worth running next.
    """

    may_use_all = True
    kept = 0.0  # share of the budget that is not for it

    def __init__(
        self,
        specs: Sequence[TrialSpec],
        results: RaceResults,
        budget: Budget,
        expected_s: Callable[[TrialSpec], float | None],
    ) -> None:
        names = names_of(specs)
        trial_ids = tuple(spec.trial_id for spec in specs)
        widths = [width_name(spec.num_gpus, spec.hosts) for spec in specs]
        of_trials = tuple(map(" ".join, zip(names, widths, strict=True)))
        super().__init__(trial_ids, of_trials, results)
        self.model = specs[0].model
        self._specs = dict(zip(trial_ids, specs, strict=True))
        self._curves = {trial_id: spec.curve for trial_id, spec in self._specs.items()}
        self._curve_names = dict(zip(self._curves.values(), names, strict=True))
        self._budget, self._expected_s = budget, expected_s
        self._running: str | None = None
        self._took_s: dict[str, float] = {}

    def begun(self, trial_id: str) -> None:
        self._running = trial_id
        num_gpus = self._specs[trial_id].num_gpus
        self._budget.begun(trial_id, self._attempt_s(trial_id), num_gpus)

    def ended(self, trial_id: str, final: Outcome | None) -> None:
        self._running = None
        took_s = self._budget.ended(trial_id)
        if final is Outcome.COMPLETED:
            self._took_s[trial_id] = took_s
        if final is not Outcome.INTERRUPTED:
            super().ended(trial_id, final)

    def rule(self, num_left: Mapping[str, int]) -> Ruling:
        wanted = dict.fromkeys(self.trial_ids, 0)
        if self._running:
            wanted[self._running] = 1
            return Ruling(wanted=wanted, out={})
        search = self.search(num_left)
        for point in self._in_order(search):
            if self._budget.has_room(self._attempt_s(point.trial_id), point.num_gpus, self.kept):
                wanted[point.trial_id] = 1
                return Ruling(wanted=wanted, out={})
        return Ruling(wanted=wanted, out=dict(self._why_left_out(search)))

    def is_over(self, num_left: Mapping[str, int]) -> bool:
        return not any(self._in_order(self.search(num_left)))

    def search(self, num_left: Mapping[str, int]) -> CurveSearch:
        """Return what is known so far."""
        points = []
        for contender in self.contenders(num_left):
            trial_id = contender.trial_id
            curve, num_gpus = self._curves[trial_id], self._specs[trial_id].num_gpus
            points.append(CurvePoint(contender=contender, curve=curve, num_gpus=num_gpus))
        return CurveSearch(points, self._results.spread, self._results.most_repeats)

    def found(self) -> Iterator[str]:
        """Say what is the fastest so far, how sure that is, and what was not tried."""
        search = self.search(dict.fromkeys(self.trial_ids, 1))
        leader = search.leader
        if leader is None:
            yield f"{self.model}: no trial has completed"
            return
        unit = unit_of(self._results.item(leader.trial_id))
        repeats = counted(len(leader.contender.speeds), "repeat")
        shown = f"{fixed(_speed(leader), 1)} {unit} in {repeats}"
        yield f"{self.model}: fastest so far {leader.contender.name}, {shown}; {_surety(search)}"
        untried = [point for point in search.points if point.may_run]
        if untried:
            unknown = [self._curve_names[point.curve] for point in search.unknown_curves]
            names = ", ".join(shortened(unknown, _MOST_NAMED)) or "none"
            trials = f"{len(untried)} of {counted(len(search.points), 'trial')}"
            yield f"{self.model}: not tried: {trials}; curves never measured: {names}"

    def _in_order(self, search: CurveSearch) -> Iterator[CurvePoint]:
        return search.in_order()

    def _attempt_s(self, trial_id: str) -> float | None:
        """Return how long an attempt will take: as the last of its trial, as recorded, or else at
        most as long as any of the sweep so far; None if nothing is known.
        """
        if trial_id in self._took_s:
            return self._took_s[trial_id]
        recorded_s = self._expected_s(self._specs[trial_id])
        if recorded_s is not None:
            return recorded_s
        return max(self._took_s.values(), default=None)

    def _why_left_out(self, search: CurveSearch) -> Iterator[tuple[str, str]]:
        may_lead = {point.trial_id for point in search.open_points}
        for point in search.points:
            why = "spent before its turn"
            if point.trial_id in search.race.out:
                why = search.race.out[point.trial_id].partition(": ")[2]
            elif _is_measured(point) and not search.race.wanted[point.trial_id]:
                why = "decided, enough repeats of it are completed"
            elif point.contender.failure:
                why = f"it ended as {point.contender.failure}"
            elif point.may_run and point.trial_id not in may_lead:
                why = "it could hardly be the fastest, by fewer GPUs of its curve"
            yield point.trial_id, f"budget: {why}"


_MOST_NAMED = 6


class BudgetedRound(BudgetedRace):
    """A round of a search for the largest values: all of it runs, as far as the budget lasts."""

    kept = 0.5  # for what is measured in the end

    def found(self) -> Iterator[str]:
        return iter(())

    def _in_order(self, search: CurveSearch) -> Iterator[CurvePoint]:
        return (point for point in search.points if point.contender.num_left)

    def _why_left_out(self, search: CurveSearch) -> Iterator[tuple[str, str]]:
        return ((trial_id, "budget: spent before its turn") for trial_id in self.trial_ids)


def make_searches(
    specs: Sequence[TrialSpec],
    most_repeats: int,
    read: ReadResults,
    budget: Budget,
    expected_s: Callable[[TrialSpec], float | None],
    kind: type[BudgetedRace] = BudgetedRace,
) -> list[BudgetedRace]:
    """Sort trials by what they work on, in the order of the plan: only throughputs of the same work
    are compared. Raises StoreError.
    """
    groups: dict[tuple[object, ...], list[TrialSpec]] = defaultdict(list)
    for spec in specs:
        axes = spec.axes
        groups[tuple((name, axes.get(name)) for name in work_axes(axes))].append(spec)
    results = RaceResults(most_repeats, read)
    results.learn([spec.trial_id for spec in specs])
    return [kind(group, results, budget, expected_s) for group in groups.values()]


def plan_line(races: Sequence[Race], num_attempts: int) -> str:
    """Say what a budget surely runs, and what it may drop."""
    num_unknown, num_sure = 0, int(num_attempts > 0)
    for race in races:
        assert isinstance(race, BudgetedRace)
        num_unknown += len(race.search({}).unknown_curves)
    return (
        f"sweep.budget: surely runs {counted(num_sure, 'attempt')}; then, as far as it lasts, the "
        f"fewest GPUs of {counted(num_unknown, 'curve')} without a number, and what may still be "
        f"the fastest; may drop {num_attempts - num_sure} of {counted(num_attempts, 'attempt')}"
    )


def conclusions(races: Sequence[Race], budget: Budget | None) -> list[str]:
    """Return what was found within a budget, a line each; nothing where there was no limit."""
    if budget is None or budget.is_endless:
        return []
    lines = [
        f"budget: {line}"
        for race in races
        if isinstance(race, BudgetedRace)
        for line in race.found()
    ]
    lines.append(f"budget: spent {budget}")
    if budget.num_begun == 1 and budget.spent_s >= budget.most_s:
        lines[-1] += "; it is shorter than one trial, which ran alone"
    return lines


def _surety(search: CurveSearch) -> str:
    num_open = len(search.open_points)
    if num_open:
        return f"not sure, for {counted(num_open, 'trial')} not tried may be faster"
    others = [point for point in search.measured if point is not search.leader]
    left = [point.contender.name for point in others if point.trial_id not in search.race.out]
    if left:
        return f"not ruled out: {', '.join(shortened(left, _MOST_NAMED))}"
    return "no other is likely to be faster"


def _speed(point: CurvePoint) -> float:
    assert point.speed is not None
    return point.speed


def _is_measured(point: CurvePoint) -> bool:
    return point.speed is not None
