"""Walks through the nights of one machine, and finds each change of level as soon as it is sure.

Night by night the mean of the newest nights is held against the nights before them, for each cell
and for each group of cells that one cause may hit: a window-limited generalized likelihood ratio
(Lai 1995) over known subsets, apart from what all cells do together. What a night decides rests on
the nights up to it alone, so a longer history never takes an alarm back.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.guard import noise
from scalemark.stats.distributions import upper_quantile

WINDOWS = (2, 3, 5, 8, 13, 21)  # newest nights; one bad night is no change
LEAST = 0.02  # change of throughput that is worth an alarm, as a share
NIGHTS_A_YEAR = 365
FALSE_ALARMS_A_YEAR = 0.6  # that are accepted, in four parts alike: for better or for worse, of
# groups of several cells or of cells alone
FEWEST_BEFORE = 3  # nights that a level needs
FEWEST_NIGHTS = 14  # before anything can be found
_MOST_BEFORE = 30
_WINDOWS_ALIKE = 1.5  # windows overlap: together they count as so many tests
_NIGHTS_UNTIL_FOUND = 4  # before a step counts as noise
_NIGHTS_UNTIL_SURE = 8  # before a score does
_MOST_OF_A_GROUP = 2 / 3  # of the measured cells of a group must have a level, to speak for it
_ROUNDS = 10  # of fitting means of cells and of nights in turn
STEEPEST = 0.0005  # typical drift of all cells in a night, as a share
_LIKELY = -math.log(1 - math.sqrt(0.95))  # of log likelihood: 95 % (Siegmund 1988)
_LEFT = 0.5  # of a change without its largest night, or that night is all there is


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A change of the level of a group."""

    group: int
    cells: noise.Places  # of the group, that had a level to change
    found: int  # the night after which it was sure
    first: int  # the most likely first night of the new level
    earliest: int  # 95 % interval of it
    latest: int
    log_ratio: float  # of the levels, as far as it was known then

    @property
    def is_slower(self) -> bool:
        return self.log_ratio < 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRule:
    """The thresholds of a change."""

    num_groups: int  # of several cells, that are looked at each night, of all machines together
    num_cells: int
    least: float = LEAST

    @property
    def of_groups(self) -> float:
        """Return how many standard deviations away is sure, of groups of several cells: half of
        the false alarms are theirs, however many cells there are.
        """
        return _threshold(self.num_groups)

    @property
    def of_cells(self) -> float:
        """Return the same of cells alone."""
        return _threshold(self.num_cells)

    @property
    def farthest(self) -> float:
        """Return for how many standard deviations from its level a night of a cell counts at most:
        two of them in a row are not sure.
        """
        return self.of_cells / math.sqrt(2)


def _threshold(num: int) -> float:
    num_tests = NIGHTS_A_YEAR * max(num, 1) * _WINDOWS_ALIKE
    return upper_quantile(FALSE_ALARMS_A_YEAR / 4 / num_tests, math.inf)


def scan(logs: noise.Floats, groups: Sequence[noise.Group], rule: ScanRule) -> list[Shift]:
    """Return the changes in the order in which they were found.

    `logs` (cells, nights) is the log throughput, NaN where a cell was not measured.
    """
    return _Scan(logs, groups, rule).run()


@dataclass(frozen=True, slots=True, kw_only=True)
class _SeenNights:
    """How far the newest nights are from those before them; 0 where nothing can be told."""

    scores: noise.Floats  # (windows, groups), in standard deviations
    of_all: noise.Floats  # (windows,): of all cells, before what they share was taken off
    slopes: noise.Floats  # (windows,): drift of all cells in a night


class _Scan:
    def __init__(self, logs: noise.Floats, groups: Sequence[noise.Group], rule: ScanRule) -> None:
        num_cells, num_nights = logs.shape
        self._raw, self._logs = logs, logs.copy()
        self._groups, self._rule = groups, rule
        is_single = np.array([len(group.cells) == 1 for group in groups])
        self._thresholds = np.where(is_single, rule.of_cells, rule.of_groups)
        self._membership = noise.Membership(groups, num_cells)
        self._sums = noise.Sums(num_cells, num_nights)
        self._begins = np.zeros(num_cells, dtype=np.intp)  # first night of each cell's level
        self._noise = noise.CellNoise(num_cells)
        self._of_groups = noise.GroupNoise(self._membership, WINDOWS)
        self._slope = 0.0  # of all cells in a night, as it was known the night before
        self._waiting: deque[_SeenNights] = deque()  # of the last nights

    def run(self) -> list[Shift]:
        found: list[Shift] = []
        for night in range(self._logs.shape[1]):
            self._take_in(night)
            seen = self._look(night)
            while (shift := self._surest(seen, night)) is not None:
                found.append(shift)
                self._begin_anew(shift.cells, shift.first, night)
                seen = self._look(night)
            self._slope = float(seen.slopes[0])
            self._learn(seen, night)
        return found

    def _take_in(self, night: int) -> None:
        """Let no cell be far from its level: two bad nights of it alone are no change."""
        level = self._sums.between(np.maximum(self._begins, night - _MOST_BEFORE), night)
        reach = self._rule.farthest * np.sqrt(self._noise.variance)
        has_level = self._noise.is_known & (level.num >= FEWEST_BEFORE)
        reach[~has_level] = np.inf
        middle = level.mean + self._slope * (night - level.time)
        self._logs[:, night] = np.clip(self._raw[:, night], middle - reach, middle + reach)
        self._sums.append(night, self._logs[:, night])

    def _begin_anew(self, cells: noise.Places, first: int, night: int) -> None:
        """Begin a new level of these cells, with what was measured since."""
        self._begins[cells] = first
        self._logs[cells, first : night + 1] = self._raw[cells, first : night + 1]
        for since in range(first, night + 1):
            self._sums.append(since, self._logs[:, since])
        num_new = min(night - first, _NIGHTS_UNTIL_FOUND, len(self._waiting))
        for age in range(1, num_new + 1):
            self._waiting[-age].scores.fill(0.0)
            self._waiting[-age].of_all.fill(0.0)

    def _look(self, night: int) -> _SeenNights:
        shape = (len(WINDOWS), len(self._groups))
        of_all, slopes = np.zeros(len(WINDOWS)), np.zeros(len(WINDOWS))
        seen = _SeenNights(scores=np.zeros(shape), of_all=of_all, slopes=slopes)
        freedom, shared = self._of_groups.freedom, self._of_groups.shared
        for window, width in enumerate(WINDOWS):
            since = night - width + 1
            if since < FEWEST_BEFORE:
                break
            new = self._sums.between(np.full_like(self._begins, since), night + 1)
            old = self._sums.between(np.maximum(self._begins, since - _MOST_BEFORE), since)
            # 1 / the squared error of each cell's change; 0 where too little is known
            usable = self._noise.is_known & (new.num >= 2) & (old.num >= FEWEST_BEFORE)
            nums = 1 / np.maximum(new.num, 1) + 1 / np.maximum(old.num, 1)
            weight = np.where(usable, 1 / (self._noise.variance * nums), 0.0)
            # the drift of all cells in a night, drawn towards none where little is known of it
            sureness = np.where(weight > 0, 1 / self._noise.variance, 0.0)
            precision = float(np.sum(sureness * old.about_time)) + 1 / STEEPEST**2
            slope = float(np.sum(sureness * old.with_time)) / precision
            away = new.mean - old.mean - slope * (new.time - old.time)
            scores = self._membership.scores(weight, away, shared[window])
            free = self._membership.sums(np.where(weight > 0, self._noise.freedom, 0.0))
            measured = self._membership.sums((new.num > 0).astype(float))
            weighed = self._membership.sums((weight > 0).astype(float))
            speaks = (scores != 0) & (weighed >= _MOST_OF_A_GROUP * measured)
            score = _as_normal(scores[speaks], np.minimum(free, freedom)[speaks])
            seen.of_all[window] = noise.score_of_all(weight, away)
            seen.slopes[window] = slope
            seen.scores[window, speaks] = score
        return seen

    def _surest(self, seen: _SeenNights, night: int) -> Shift | None:
        """Return the surest change that is worth an alarm; a group that one bad night moves waits,
        with all that share its cells.
        """
        sure = np.abs(seen.scores) / self._of_groups.widening / self._thresholds
        places = np.flatnonzero(sure >= 1)
        waits = np.zeros(len(self._raw), dtype=bool)
        for place in places[np.argsort(-sure.flat[places])]:
            window, group = divmod(int(place), len(self._groups))
            cells = self._groups[group].cells
            if waits[cells].any():
                continue
            shift = self._dated(group, window, night, seen)
            if shift is None:
                waits[cells] = True
            elif abs(shift.log_ratio) >= math.log1p(self._rule.least):
                return shift
        return None

    def _dated(self, group: int, window: int, night: int, seen: _SeenNights) -> Shift | None:
        """Return a change; None where one night makes it. Its size is of what was measured: for the
        score nights of a cell that are far from its level have been drawn towards it.
        """
        since = night - WINDOWS[window] + 1
        cells = self._groups[group].cells
        has_level = (self._begins[cells] <= since - FEWEST_BEFORE) & self._noise.is_known[cells]
        cells = cells[has_level]
        begin = max(int(self._begins[cells].max()), since - _MOST_BEFORE)
        is_measured = np.isfinite(self._raw[cells, begin : night + 1]).any(axis=0)
        nights = begin + np.flatnonzero(is_measured)  # others are in no level
        shown = np.ix_(cells, nights)
        drift = seen.slopes[window] * nights
        variances = self._noise.variance[cells]
        date = dated(*mean_series(self._logs[shown] - drift, variances))
        if date is None:
            return None
        series, _ = mean_series(self._raw[shown] - drift, variances)
        return Shift(
            group=group,
            cells=cells,
            found=night,
            first=int(nights[date.first]),
            earliest=int(nights[date.earliest - 1]) + 1,
            latest=int(nights[date.latest]),
            log_ratio=float(series[date.first :].mean() - series[: date.first].mean()),
        )

    def _learn(self, seen: _SeenNights, night: int) -> None:
        """Learn from what was seen some nights ago: by now a change would have been found in it."""
        self._waiting.append(seen)
        if len(self._waiting) > _NIGHTS_UNTIL_SURE:
            old = self._waiting.popleft()
            self._of_groups.learn_spread(old.scores, old.of_all)
        past = night - _NIGHTS_UNTIL_FOUND
        if past < 0:
            return
        steps = self._noise.learn(self._logs[:, past], self._begins == past)
        usable = self._noise.is_known & np.isfinite(steps)
        weight = np.where(usable, 1 / self._noise.variance, 0.0)
        self._of_groups.learn_steps(np.where(usable, steps, 0.0), weight)


def mean_series(logs: noise.Floats, variances: noise.Floats) -> tuple[noise.Floats, noise.Floats]:
    """Return the means of cells (cells, nights) by night, each cell about its own, and their
    variances, for nights in which any was measured; others count for nothing.

    Where cells were measured in other nights, both means are fitted in turn by least squares: else
    a cell that came later would draw the change of the others towards its own mean.
    """
    known = np.isfinite(logs)
    weight = np.where(known, 1 / variances[:, None], 0.0)
    total = np.maximum(weight.sum(axis=0), np.finfo(float).tiny)
    nums = np.maximum(known.sum(axis=1, keepdims=True), 1)
    series = np.zeros(logs.shape[1])
    for _ in range(1 if known.all() else _ROUNDS):
        own = np.where(known, logs - series, 0.0).sum(axis=1, keepdims=True) / nums
        series = (weight * np.where(known, logs - own, 0.0)).sum(axis=0) / total
    return series, 1 / total


def _as_normal(score: noise.Floats, freedom: noise.Floats) -> noise.Floats:
    """Turn t into standard deviations of a normal distribution, by Wallace's formula (1959)."""
    free = np.maximum(freedom, 1.0)
    size = np.sqrt(free * np.log1p(score**2 / free)) * (8 * free + 1) / (8 * free + 3)
    signed: noise.Floats = np.sign(score) * size
    return signed


@dataclass(frozen=True, slots=True, kw_only=True)
class Date:
    """The first night of the new level, counted from the first that was looked at."""

    first: int  # the most likely one
    earliest: int  # 95 % interval
    latest: int


def dated(series: noise.Floats, variances: noise.Floats) -> Date | None:
    """Return when the level of a series (nights,) changed; None where that rests on one night."""
    weight = 1 / variances
    before_weight, before = np.cumsum(weight)[:-1], np.cumsum(weight * series)[:-1]
    after_weight, after = weight.sum() - before_weight, (weight * series).sum() - before
    # of each first night of a new level, from the second night on
    likely = (before**2 / before_weight + after**2 / after_weight) / 2
    first = int(np.argmax(likely)) + 1
    old, new = series[:first], series[first:]
    if len(new) < 2:
        return None
    change = new.mean() - old.mean()
    rest = np.delete(new, np.argmax(np.sign(change) * new))
    if (rest.mean() - old.mean()) / change < _LEFT:
        return None
    inside = np.flatnonzero(likely >= likely.max() - _LIKELY) + 1
    return Date(first=first, earliest=int(inside[0]), latest=int(inside[-1]))
