"""The groups of cells that one cause may hit, and how much cells and groups differ by chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.intp]
Truths: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Cells that one cause may hit."""

    name: str  # as `all`, `model=vgg16`; empty of a cell alone
    cells: Places


def groups_of(axes: Sequence[Mapping[str, object]]) -> list[Group]:
    """Return all groups of cells with these axes; of groups with the same cells, the first."""
    num_cells = len(axes)
    groups: dict[bytes, Group] = {}

    def add(name: str, cells: Sequence[int]) -> None:
        places = np.array(cells, dtype=np.intp)
        groups.setdefault(places.tobytes(), Group(name=name, cells=places))

    if num_cells >= 2:
        add("all", range(num_cells))
    for axis in dict.fromkeys(name for of_cell in axes for name in of_cell):
        by_value: dict[str, list[int]] = {}
        for cell, of_cell in enumerate(axes):
            if axis in of_cell:
                by_value.setdefault(str(of_cell[axis]), []).append(cell)
        for value, cells in by_value.items():
            if len(cells) >= 2:
                add(f"{axis}={value}", cells)
    for cell in range(num_cells):
        add("", [cell])
    return list(groups.values())


class Membership:
    """Which cells are in which group, for sums over all groups at once."""

    def __init__(self, groups: Sequence[Group], num_cells: int) -> None:
        sizes = [len(group.cells) for group in groups]
        self._cells = np.concatenate([group.cells for group in groups])
        self._begins = np.cumsum([0, *sizes[:-1]])
        self.is_single: Truths = np.array(sizes) == 1
        self.others: Floats = 1 - np.array(sizes) / num_cells  # share of the cells

    def sums(self, of_cells: Floats) -> Floats:
        """Return the sum (groups,) of values (cells,)."""
        summed: Floats = np.add.reduceat(of_cells[self._cells], self._begins)
        return summed

    def scores(self, weight: Floats, away: Floats, shared: float) -> Floats:
        """Return how many standard deviations each group (groups,) is away, of cells (cells,) with
        weight 1 / variance, 0 where it is not known; 0 of a group without any.

        `shared` is the share of the variance of the mean of all cells that they have in common: by
        so much a group is compared with all others, too (generalized least squares).
        """
        own = self.sums(weight)
        part = shared * own / max(float(weight.sum()), np.finfo(float).tiny)
        left = self.sums(weight * away) - part * float(weight @ away)
        variance = own * (1 - part)
        scores: Floats = np.where(own > 0, left, 0.0) / np.sqrt(np.where(own > 0, variance, 1.0))
        return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The state of cells in some nights, each an array (cells,)."""

    num: Floats  # nights in which it was measured
    mean: Floats  # 0 where it never was
    time: Floats  # mean number of these nights
    about_time: Floats  # sum of squares of their numbers about that mean
    with_time: Floats  # sum of products of number and value, both about their means


class Sums:
    """Running sums of values of cells, of nights and of products: each (nights + 1, cells)."""

    def __init__(self, num_cells: int, num_nights: int) -> None:
        shape = (num_nights + 1, num_cells)
        self._num, self._value, self._time = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._squared_time, self._product = np.zeros(shape), np.zeros(shape)

    def append(self, night: int, values: Floats) -> None:
        """Add a night after those before it: values (cells,), NaN where it was not measured."""
        known = np.isfinite(values)
        filled = np.where(known, values, 0.0)
        for sums, terms in (
            (self._num, known),
            (self._value, filled),
            (self._time, known * night),
            (self._squared_time, known * night**2),
            (self._product, filled * night),
        ):
            sums[night + 1] = sums[night] + terms

    def between(self, begins: Places, end: int) -> Span:
        """Return what each cell was from its first night in `begins` up to before `end`."""
        cells = np.arange(len(begins))
        start = np.minimum(begins, end)
        num, value, time, squared_time, product = (
            sums[end] - sums[start, cells]
            for sums in (self._num, self._value, self._time, self._squared_time, self._product)
        )
        counted = np.maximum(num, 1.0)
        mean, mean_time = value / counted, time / counted
        return Span(
            num=num,
            mean=mean,
            time=mean_time,
            about_time=squared_time - time * mean_time,
            with_time=product - value * mean_time,
        )


LEAST_NOISE = 0.001  # of a logarithm: no machine is steadier than 0.1 %
_FEWEST_STEPS = 8  # from one night to the next, before anything is known
_MEMORY = 90  # nights, of the noise of a cell
_MEMORY_OF_GROUPS = 180  # nights
_MEMORY_OF_SPREAD = 120  # nights
_FIRST_SPREAD = 10  # nights, for which nights count as independent
_CLIP = 3.0  # standard deviations: a night counts as no more
_FEWEST_VARIANCES = 3  # before their differences tell anything
_ROUNDS = 6  # of Newton's method, which converges from below
_FREE_PER_STEP = 2 / 3  # degrees of freedom of a step, which shares a night with the next


class CellNoise:
    """The variance of each cell over nights, from its steps from one night to the next: drift and
    changes of level hardly count in them.
    """

    def __init__(self, num_cells: int) -> None:
        self._variance = np.zeros(num_cells)  # of its own steps
        self._num = np.zeros(num_cells)
        self._last = np.full(num_cells, np.nan)
        self.variance = np.full(num_cells, LEAST_NOISE**2)  # moderated by the other cells
        self.freedom = np.zeros(num_cells)

    @property
    def is_known(self) -> Truths:
        return self._num >= _FEWEST_STEPS

    def learn(self, logs: Floats, is_new_level: Truths) -> Floats:
        """Take in a night, and return the steps to it, each from the last night in which the cell
        was measured; NaN where there is none, for a step to a new level is no noise.
        """
        self._last[is_new_level] = np.nan
        steps: Floats = logs - self._last
        stepped = np.isfinite(steps)
        squared = np.where(stepped, steps**2 / 2, 0.0)
        most = np.where(self.is_known, _CLIP**2 * self.variance, np.inf)
        self._num += stepped
        share = stepped / np.clip(self._num, 1, _MEMORY)
        self._variance += share * (np.minimum(squared, most) - self._variance)
        self._last = np.where(np.isfinite(logs), logs, self._last)
        self._moderate()
        return steps

    def _moderate(self) -> None:
        known = self.is_known
        own = np.minimum(self._num[known], _MEMORY) * _FREE_PER_STEP
        least = np.maximum(self._variance[known], LEAST_NOISE**2)
        self.variance[known], added = moderated(least, own)
        self.freedom[known] = own + added


class GroupNoise:
    """How much farther groups go than independent cells and nights would, and how much of that all
    cells do together: a machine has bad nights, and some nights resemble those before them.
    """

    def __init__(self, membership: Membership, widths: Sequence[int]) -> None:
        self._membership, self._widths = membership, np.array(widths)[:, None]
        num_groups = len(membership.is_single)
        self._steps = np.ones(num_groups)  # variance of steps of the mean, over the expected one
        self._num_steps = np.zeros(num_groups)
        self._spread = np.ones((len(widths), num_groups))  # mean square of scores
        self._num_nights = 0
        self._steps_of_all = np.ones(1)  # as above, before what all cells share was taken off
        self._spread_of_all = np.ones(len(widths))
        self.widening = np.ones((len(widths), num_groups))  # times the standard deviation
        self.freedom = np.full(num_groups, np.inf)  # single cells have that of their noise

    @property
    def shared(self) -> Floats:
        """Return by window the share of the variance of the mean that all cells have in common."""
        return _excess(np.maximum(self._spread_of_all, self._steps_of_all))

    def learn_spread(self, scores: Floats, of_all: Floats) -> None:
        """Take in the scores (windows, groups) of a night and those of all cells (windows,), before
        what they share was taken off; 0 where nothing can be told.
        """
        if scores.any():
            self._num_nights += 1
            share = 1 / min(_FIRST_SPREAD + self._num_nights, _MEMORY_OF_SPREAD)
            self._spread = _mixed(self._spread, scores, share * (scores != 0))
            self._spread_of_all = _mixed(self._spread_of_all, of_all, share * (of_all != 0))

    def learn_steps(self, steps: Floats, weight: Floats) -> None:
        """Take in the steps of cells to a night, with 1 / variance, 0 where it is not known."""
        if not weight.any():
            return
        shared = float(_excess(self._steps_of_all)[0])
        scores = self._membership.scores(weight / 2, steps, shared)
        seen = self._membership.sums(weight) > 0
        self._num_steps += seen
        share = seen / np.minimum(self._num_steps + 1, _MEMORY_OF_GROUPS)
        self._steps = _mixed(self._steps, scores, share)
        of_all = np.array([score_of_all(weight / 2, steps)])
        self._steps_of_all = _mixed(self._steps_of_all, of_all, share[seen].min())
        self._moderate()

    def _moderate(self) -> None:
        """Let groups borrow from groups, and single cells from single cells: the noise of the steps
        of these is that of the cells. What all cells share only the group of all can tell.
        """
        single = self._membership.is_single
        nights = min(self._num_nights, _MEMORY_OF_SPREAD) + _FIRST_SPREAD
        of_spread = np.maximum(nights / self._widths, 1.0)  # windows overlap
        spread, steps = self._spread.copy(), np.ones(len(single))
        for alike in (single, ~single):
            spread[:, alike], _ = moderated(spread[:, alike], of_spread)
        free = np.maximum(self._num_steps[~single], 2) * _FREE_PER_STEP
        steps[~single], added = moderated(self._steps[~single], free)
        self.freedom[~single] = free + added * self._membership.others[~single]
        self.widening = np.sqrt(np.maximum(np.maximum(spread, steps), 1.0))


def score_of_all(weight: Floats, away: Floats) -> float:
    """Return how many standard deviations all cells together are away; 0 where none has weight."""
    return float(weight @ away / np.sqrt(max(float(weight.sum()), np.finfo(float).tiny)))


def _excess(variance: Floats) -> Floats:
    """Return the share of a variance that is above 1."""
    return 1 - 1 / np.maximum(variance, 1.0)


def _mixed(variance: Floats, scores: Floats, share: Floats | float) -> Floats:
    """Return a variance with the scores of a night taken in by this share."""
    far = np.minimum(scores**2, _CLIP**2 * np.maximum(variance, 1.0))
    return variance + share * (far - variance)


def moderated(variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Draw variances (..., num) towards what each row has in common, and return with them the
    degrees of freedom (..., 1) that this adds to those (..., num) that each has of its own: those
    of all together where they differ no more than by chance, 0 where there are too few to tell
    (empirical Bayes: Smyth 2004, as limma does).

    Variances and freedom are above 0; freedom may have one column that is that of all.
    """
    if variances.shape[-1] < _FEWEST_VARIANCES:
        return variances, np.zeros((*variances.shape[:-1], 1))
    half = freedom / 2
    logs = np.log(variances) - _digamma(half) + np.log(half)
    excess = logs.var(axis=-1, ddof=1, keepdims=True)
    excess -= _trigamma(half).mean(axis=-1, keepdims=True)
    most = np.broadcast_to(freedom, variances.shape).sum(axis=-1, keepdims=True)
    is_more = excess > _trigamma(most / 2)
    added = np.where(is_more, 2 * _inverse_trigamma(np.where(is_more, excess, 1.0)), most)
    common = np.exp(logs.mean(axis=-1, keepdims=True) + _digamma(added / 2) - np.log(added / 2))
    drawn: Floats = (added * common + freedom * variances) / (added + freedom)
    return drawn, added


# Of digamma and of Hurwitz' zeta the first terms are summed, and the series of Euler and Maclaurin
# (DLMF 5.11.2, 25.11.43) has the others, to 9 digits from there on.
_SUMMED = np.arange(10.0)


def _digamma(at: Floats) -> Floats:
    far = at + len(_SUMMED)
    series = (
        np.log(far) - 1 / (2 * far) - 1 / (12 * far**2) + 1 / (120 * far**4) - 1 / (252 * far**6)
    )
    found: Floats = series - (1 / (at[..., None] + _SUMMED)).sum(axis=-1)
    return found


def _trigamma(at: Floats) -> Floats:
    return _zeta(2, at)


def _zeta(power: int, at: Floats) -> Floats:
    """Return the sum of (at + k)^-power over all k from 0 on."""
    far = at + len(_SUMMED)
    series = far / (power - 1) + 1 / 2 + power / (12 * far)
    series -= power * (power + 1) * (power + 2) / (720 * far**3)
    series += power * (power + 1) * (power + 2) * (power + 3) * (power + 4) / (30240 * far**5)
    found: Floats = series * far**-power + ((at[..., None] + _SUMMED) ** -power).sum(axis=-1)
    return found


def _inverse_trigamma(values: Floats) -> Floats:
    """Solve trigamma(x) = value for x above 0, by Newton's method on 1 / trigamma."""
    solved = 0.5 + 1 / values
    for _ in range(_ROUNDS):
        now = _trigamma(solved)
        solved = solved - now * (1 - now / values) / (2 * _zeta(3, solved))
    return solved
