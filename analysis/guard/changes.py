"""Finds the changes in histories, one for each cause, and says what became of them."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter

import numpy as np

from analysis import badges
from analysis.guard.histories import HistoryCell, Night, Record
from analysis.guard.noise import LEAST_NOISE, Floats, Group, groups_of
from analysis.guard.scan import FEWEST_NIGHTS, STEEPEST, ScanRule, Shift, mean_series, scan
from scalemark.records.machine import DeviceKind
from scalemark.stats.distributions import upper_quantile
from scalemark.stats.welch import LEVEL
from scalemark.text.wording import counted, listed, shortened

_NIGHTS_OF_A_LEVEL = 30  # on each side of a change, from which its size is estimated
_LIKE_THIS = 0.5  # of the cells, which a later change shares


class ChangeState(StrEnum):
    """The state of a change, as it is reported."""

    REGRESSION = "regression"  # it is slower, and nobody accepted that
    ACCEPTED = "accepted"  # slower, and a sweep of that night or later has the tag
    RECOVERED = "recovered"  # slower, and faster again later
    IMPROVEMENT = "improvement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of throughput by one cause."""

    machines: tuple[str, ...]
    is_simulated: bool
    groups: tuple[str, ...]  # as `model=vgg16`, of those that were found together
    cells: tuple[HistoryCell, ...]
    after: date  # the night before the earliest one
    earliest: date  # 95 % interval of the first night of the new level
    first: date  # the most likely one
    latest: date
    found: date  # the night that made it sure, of the part that was found first
    log_ratio: float  # of throughput, after over before
    reach: float  # half of the 95 % interval of it; infinite where it is not known
    causes: tuple[str, ...]  # what else changed meanwhile, as `driver 550.1 -> 560.2`
    sweeps: tuple[str, ...] = ()  # that began in the most likely first night
    sides: tuple[Night, Night]  # surely before and surely after it, to compare
    accepted: str = ""  # the sweep that has the tag
    recovered: date | None = None

    @property
    def is_slower(self) -> bool:
        return self.log_ratio < 0

    @property
    def state(self) -> ChangeState:
        if not self.is_slower:
            return ChangeState.IMPROVEMENT
        if self.accepted:
            return ChangeState.ACCEPTED
        if self.recovered is None:
            return ChangeState.REGRESSION
        return ChangeState.RECOVERED

    @property
    def share(self) -> float:
        """Return the change as a share, below 0 where it is slower."""
        return math.expm1(self.log_ratio)

    @property
    def low(self) -> float:
        return math.expm1(self.log_ratio - self.reach)

    @property
    def high(self) -> float:
        return math.expm1(self.log_ratio + self.reach)


def changes(records: Sequence[Record], least: float) -> list[Change]:
    """Return the changes of at least this share, in the order of their first nights."""
    groups, num_cells, num_groups = [], 0, 0
    for record in records:
        groups.append(groups_of([cell.axes for cell in record.cells]))
        num_cells += len(record.cells)
        num_groups += len(groups[-1])
    rule = ScanRule(num_groups=num_groups - num_cells, num_cells=num_cells, least=least)
    every: list[Change] = []
    for record, of_record in zip(records, groups, strict=True):
        shifts = scan(record.logs, of_record, rule)
        for cause in _by_cause(shifts):
            change = _change(record, of_record, shifts, cause)
            # a part of one with the same cause: on the same machine at the same time, or on
            # another one with the same recorded change
            for place, other in enumerate(every):
                is_there = other.machines == change.machines
                is_there |= bool(other.causes and other.causes == change.causes)
                is_then = other.after <= change.latest and change.after <= other.latest
                if is_there and is_then and other.is_slower == change.is_slower:
                    every[place] = _as_one(other, change)
                    break
            else:
                every.append(change)
    every.sort(key=lambda change: (change.first, change.machines))
    return [_with_recovery(change, every, least) for change in every]


@dataclass(slots=True)
class _Cause:
    """Shifts of a record that have one cause."""

    shifts: list[Shift]
    after: int  # in nights, as in Change
    latest: int

    def takes(self, shift: Shift) -> bool:
        return (
            shift.earliest - 1 <= self.latest
            and shift.latest >= self.after
            and shift.is_slower == self.shifts[0].is_slower
        )


def _by_cause(shifts: Sequence[Shift]) -> list[_Cause]:
    causes: list[_Cause] = []
    for shift in shifts:
        for known in causes:
            if known.takes(shift):
                known.shifts.append(shift)
                break
        else:
            causes.append(_Cause(shifts=[shift], after=shift.earliest - 1, latest=shift.latest))
    return causes


def _change(
    record: Record, groups: Sequence[Group], shifts: Sequence[Shift], cause: _Cause
) -> Change:
    first = cause.shifts[0]
    hit = [groups[shift.group] for shift in cause.shifts]
    places = np.unique(np.concatenate([shift.cells for shift in cause.shifts]))
    before, after = _levels(record.logs, shifts, first)
    log_ratio, reach = _size(before, after)
    if not log_ratio * first.log_ratio > 0:
        log_ratio, reach = first.log_ratio, math.inf
    nights = record.nights
    since, accepted = nights[cause.after :], ""
    for night in since[1:]:
        accepted = accepted or night.accepted
    return Change(
        machines=(record.machine,),
        is_simulated=record.is_simulated,
        groups=_names(hit, groups, record),
        cells=tuple(record.cells[place] for place in places),
        after=since[0].day,
        earliest=nights[cause.after + 1].day,
        first=nights[first.first].day,
        latest=nights[cause.latest].day,
        found=nights[first.found].day,
        log_ratio=log_ratio,
        reach=reach,
        causes=tuple(_differences(nights[cause.after : cause.latest + 1])),
        sweeps=tuple(nights[first.first].trials),
        sides=(since[0], nights[cause.latest]),
        accepted=accepted,
    )


def _names(hit: Sequence[Group], groups: Sequence[Group], record: Record) -> tuple[str, ...]:
    """Name a group that has all cells that were hit and no other, else each part of it."""
    names: dict[str, None] = {}
    cells: set[int] = set()
    in_groups: set[int] = set()
    for group in hit:
        cells.update(group.cells.tolist())
        if group.name:
            names[group.name] = None
            in_groups.update(group.cells.tolist())
    for group in groups:
        is_as_large = bool(group.name) and len(group.cells) == len(cells)
        if is_as_large and cells.issuperset(group.cells.tolist()):
            return (group.name,)
    for cell in sorted(cells - in_groups):
        names[record.cells[cell].name] = None
    return tuple(names)


def _levels(logs: Floats, shifts: Sequence[Shift], shift: Shift) -> tuple[Floats, Floats]:
    """Return nightly means before and after a shift, each up to the next change of any cell."""
    cells = shift.cells
    begin, end = shift.first - _NIGHTS_OF_A_LEVEL, shift.first + _NIGHTS_OF_A_LEVEL
    for other in shifts:
        if np.intersect1d(other.cells, cells).size:
            if other.first < shift.first and other.found < shift.found:
                begin = max(begin, other.first)
            elif other.first > shift.found:
                end = min(end, other.first)
    begin = max(begin, 0)
    shown = logs[cells, begin:end]
    variances = np.ones(len(cells))
    series, _ = mean_series(shown, variances)
    known = np.isfinite(shown).any(axis=0)
    is_before = np.arange(begin, begin + shown.shape[1]) < shift.first
    return series[known & is_before], series[known & ~is_before]


def _size(before: Floats, after: Floats) -> tuple[float, float]:
    """Return the log ratio of two levels and half of its 95 % interval, by least squares with a
    drift that both have; little is believed of a steep one. Too few nights give no number.
    """
    series = np.concatenate([before, after])
    num = len(series)
    is_after = np.arange(num) >= len(before)
    free = num - 3
    if not 0 < is_after.sum() < num or free < 1:
        return math.nan, math.inf
    spread = np.sqrt((before.var() * len(before) + after.var() * len(after)) / free)
    nights = np.arange(num) - num / 2
    terms = np.stack([np.ones(num), nights, is_after], axis=1)
    of_drift = np.array([[0.0, max(spread, LEAST_NOISE) / STEEPEST, 0.0]])
    design = np.concatenate([terms, of_drift])
    inverse = np.linalg.pinv(design.T @ design)
    fitted = inverse @ (terms.T @ series)
    left = series - terms @ fitted
    error = math.sqrt(float(left @ left) / free * inverse[2, 2])
    return float(fitted[2]), upper_quantile(LEVEL / 2, free) * error


def _differences(nights: Sequence[Night]) -> Iterator[str]:
    """Yield what changed from one of these nights to the next, each once."""
    seen: dict[str, None] = {}
    for old, new in pairwise(nights):
        for name in sorted({*old.software, *new.software}):
            was, is_now = old.software.get(name, "none"), new.software.get(name, "none")
            if was != is_now and old.software and new.software:
                seen[f"{name} {was} -> {is_now}"] = None
    yield from seen


def _as_one(known: Change, other: Change) -> Change:
    """Return the change that was found first, which raised the alarm, with the cells of both: its
    nights stay as they are, and the size is the mean over all cells.
    """
    parts = (known, other)
    larger, smaller = sorted(parts, key=lambda part: len(part.cells), reverse=True)
    nums = np.array([len(part.cells) for part in parts])
    reaches = np.array([part.reach for part in parts])
    return replace(
        min(larger, smaller, key=lambda part: part.found),
        machines=tuple(dict.fromkeys((*known.machines, *other.machines))),
        groups=tuple(dict.fromkeys((*larger.groups, *smaller.groups))),
        cells=tuple({id(cell): cell for cell in (*larger.cells, *smaller.cells)}.values()),
        log_ratio=float(np.average([part.log_ratio for part in parts], weights=nums)),
        reach=float(np.sqrt(np.sum((nums * reaches) ** 2)) / nums.sum()),
        accepted=known.accepted or other.accepted,
    )


def _with_recovery(change: Change, every: Sequence[Change], least: float) -> Change:
    """Say when later changes of most of its cells made it good again."""
    if not change.is_slower:
        return change
    own = {id(cell) for cell in change.cells}
    level = change.log_ratio
    for later in every:
        shared = len(own & {id(cell) for cell in later.cells})
        if later.first > change.first and shared >= _LIKE_THIS * len(own):
            level += later.log_ratio
            if level > -math.log1p(least):
                return replace(change, recovered=later.first)
    return change


COLUMNS = ("since", "change [95 % CI]", "trials", "of", "what changed then", "state")
_MOST_NAMED = 3


def headline(changes: Sequence[Change], records: Sequence[Record]) -> str:
    """Return the answer in one sentence."""
    numbers = Counter(map(attrgetter("state"), changes))
    parts = [counted(numbers[ChangeState.REGRESSION], "regression")]
    if not changes and all(len(record.nights) < FEWEST_NIGHTS for record in records):
        parts = ["Too early to find regressions"]
    for state in (ChangeState.ACCEPTED, ChangeState.RECOVERED):
        if numbers[state]:
            parts.append(f"{numbers[state]} {state}")
    if numbers[ChangeState.IMPROVEMENT]:
        parts.append(counted(numbers[ChangeState.IMPROVEMENT], "improvement"))
    days: set[date] = set()
    num_trials = 0
    for record in records:
        days.update(map(attrgetter("day"), record.nights))
        num_trials += len(record.cells)
    when = " .. ".join(map(str, sorted({min(days), max(days)})))
    nights, trials = counted(len(days), "night"), counted(num_trials, "trial")
    return f"{', '.join(parts)}, in {nights} of {trials} ({when})."


def cells_of(change: Change, *, names_machines: bool) -> list[str]:
    """Return the row of a change."""
    trials = listed(shortened(change.groups, _MOST_NAMED))
    if names_machines:
        trials = f"{trials} on {listed(change.machines)}"
    causes = "nothing recorded"
    if change.causes:
        causes = listed(shortened(change.causes, _MOST_NAMED))
    state = str(change.state)
    if change.state is ChangeState.RECOVERED:
        state = f"recovered {change.recovered}"
    return [first_night(change), size(change), str(len(change.cells)), trials, causes, state]


def first_night(change: Change) -> str:
    """Return `2026-03-12`, or where it is not sure `2026-03-12 [03-10, 03-13]`."""
    if change.earliest == change.latest:
        return str(change.first)
    return f"{change.first} [{change.earliest:%m-%d}, {change.latest:%m-%d}]"


def size(change: Change) -> str:
    """Return `-4.8 % [-5.6, -4.0]`; without an interval where there are too few nights."""
    if math.isinf(change.reach):
        return f"{100 * change.share:+.1f} %"
    return f"{100 * change.share:+.1f} % [{100 * change.low:.1f}, {100 * change.high:.1f}]"


def sentence(change: Change) -> str:
    """Return `model=vgg16 -4.8 % [-5.6, -4.0] since 2026-03-12 (driver 550.1 -> 560.2)`."""
    groups = listed(shortened(change.groups, _MOST_NAMED))
    causes = ""
    if change.causes:
        causes = f" ({listed(shortened(change.causes, _MOST_NAMED))})"
    return f"{groups} {size(change)} since {first_night(change)}{causes}"


def notes(records: Sequence[Record]) -> Iterator[str]:
    """Yield the machines, what is too young to be sure of, and the badges."""
    machines: dict[str, None] = {}
    used, num_young = set(), 0
    for record in records:
        machines[record.machine] = None
        if len(record.nights) < FEWEST_NIGHTS:
            num_young += len(record.cells)
        if record.is_simulated:
            used.add("simulated")
        for cell in record.cells:
            if cell.axes.get("device_kind") == DeviceKind.CPU_DEVICE:
                used.add("CPU devices")
    if len(machines) > 1:
        yield f"{len(machines)} machines, each with a history of its own: {'; '.join(machines)}"
    else:
        yield from machines
    if num_young:
        yield f"{counted(num_young, 'trial')} with fewer than {FEWEST_NIGHTS} nights: measure more"
    if meanings := badges.foot(used):
        yield meanings
