"""Reads `batch_size=max` and `+axes.mbs=max(8,512,8)`, and chooses the value that is tried next."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from conf.schema import Config, PlanFormat, SweepConfig
from scalemark.records.axes import PREFIX
from scalemark.records.trial import TrialSpec
from scalemark.text.wording import counted
from sweeper import SweepRefusedError
from sweeper.devices.machine import Inventory
from sweeper.grid.arguments import SEARCH
from sweeper.grid.compose import Cell, choice_of, text_of
from sweeper.grid.exclude import reason_of
from sweeper.grid.plan import PlannedTrial, resolve_grid

MOST_ATTEMPTS = 8  # short ones, of one cell
MOST_VALUES = 2**MOST_ATTEMPTS - 1  # that bisection tells apart with them
_FIRST_OF_USUAL = 16  # without bounds the search starts there
# four values between one power of two and the next
_USUAL = (*range(1, 8), *(part << bits for bits in range(1, 11) for part in range(4, 8)), 8192)
_BOUNDS = re.compile(r"\((\d{1,9}),\s*(\d{1,9})(?:,\s*(\d{1,9}))?\)", re.ASCII)


class SearchGoal(StrEnum):
    """What is looked for."""

    MAX = "max"  # the largest value that runs
    BEST = "best"  # the value of the highest throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSearch:
    """One cell of the grid whose value of one axis is looked for."""

    axis: str  # batch_size, or a free axis by its full name
    goal: SearchGoal
    specs: Mapping[int, TrialSpec]  # value -> the trial, ascending
    first: int | None  # the value that is tried first; None: the middle

    def __str__(self) -> str:
        """Say in a plan what the search will do."""
        values = list(self.specs)
        cell = PlannedTrial(spec=self.without_axis(self.specs[values[0]]), num_repeats=0).label
        within = f"{self.axis} between {values[0]} and {values[-1]}"
        if self.goal is SearchGoal.BEST:
            return f"{cell}: measures {within}, doubled while that gains more than the noise"
        most = min(MOST_ATTEMPTS, len(values).bit_length() + 2 * bool(self.first))
        attempts = counted(most, "short attempt")
        return f"{cell}: searches {within} with at most {attempts}, then measures the largest"

    def without_axis(self, spec: TrialSpec) -> TrialSpec:
        """Return a trial whose name says nothing of the value, which is a result."""
        return replace(spec, free=tuple(pair for pair in spec.free if pair[0] != self.axis))


def split(cells: Sequence[Cell], sweep: SweepConfig) -> tuple[list[Cell], list[Cell]]:
    """Return the cells whose values are all known, and those with one that is looked for.

    Raises SweepRefusedError for a search that cannot be.
    """
    known, searched = [], []
    for cell in cells:
        asked = _asked(cell)
        if not asked:
            known.append(cell)
            continue
        searched.append(cell)
        if len(asked) > 1:
            raise SweepRefusedError(
                f"{text_of(cell)}: {len(asked)} axes are looked for; wanted one, give the others "
                "as values"
            )
    if searched and sweep.plan_format is PlanFormat.json:
        raise SweepRefusedError(
            "sweep.plan_format=json: what a search will measure is not known yet; leave it out"
        )
    return known, searched


def resolve_searches(
    cells: Sequence[Cell],
    compose: Callable[[Cell], Config],
    inventory: Inventory,
    sweep: SweepConfig,
) -> tuple[list[ValueSearch], list[tuple[str, str]]]:
    """Return the searches, and the cells left out because no value of theirs makes a trial, with
    the reason. Raises SweepRefusedError as `resolve_grid`.
    """
    searches, left_out = [], []
    rules = set(map(reason_of, sweep.exclude))
    for cell in cells:
        (place,) = _asked(cell)
        choice = cell[place]
        axis = choice.override.key_or_group
        goal, values = _read(axis, str(choice.override.value()))
        made = []
        for value in values:
            made.append((*cell[:place], choice_of(choice.override, value), *cell[place + 1 :]))
        try:
            specs, refused = resolve_grid(made, compose, inventory, sweep)
        except SweepRefusedError as error:
            if len(cells) == 1:
                raise
            left_out.append((text_of(cell), str(error)))
            continue
        # a rule that left out some values is no useless rule
        by_rules = {reason: (text, reason) for text, reason in refused if reason in rules}
        left_out += by_rules.values()
        by_value = {int(str(spec.axes[axis])): spec for spec in specs}
        first = _FIRST_OF_USUAL if values == _USUAL else None
        search = ValueSearch(
            axis=axis, goal=goal, specs=dict(sorted(by_value.items())), first=first
        )
        searches.append(search)
    if cells and not searches:
        raise SweepRefusedError(left_out[0][1])
    asked = {f"{search.axis}={search.goal}" for search in searches}
    if len(asked) > 1:
        raise SweepRefusedError(f"{' and '.join(sorted(asked))} in one sweep; wanted one of them")
    return searches, left_out


def next_value(search: ValueSearch, ran: Mapping[int, bool], num_left: int) -> int | None:
    """Return the value that a search for the largest tries next; None when it is known, or no
    attempt is left. `ran` says of the values that were tried whether they run.

    It doubles while the attempts that are left can then still tell the others apart, and bisects.
    """
    low, high = largest(ran), _smallest_without(ran)
    left = [v for v in search.specs if (low is None or v > low) and (high is None or v < high)]
    if not left or num_left <= 0:
        return None
    rest = 1 << (num_left - 1)  # values on either side that fewer attempts tell apart, and one
    place = len(left) // 2
    wanted = search.first if low is None else 2 * low
    if high is None and wanted:
        place = sum(value < wanted for value in left)
    return left[max(min(place, rest - 1, len(left) - 1), len(left) - rest, 0)]


def next_doubled(search: ValueSearch, ran: Mapping[int, bool], gains: bool) -> int | None:
    """Return what a search for the best tries next: about twice the last, while that gains."""
    if ran and (not gains or not all(ran.values())):
        return None
    least = 2 * max(ran, default=0)
    return next((value for value in search.specs if value >= least and value not in ran), None)


def largest(ran: Mapping[int, bool]) -> int | None:
    """Return the largest value that ran, below all that did not: memory use may vary."""
    high = _smallest_without(ran)
    below = [value for value, does in ran.items() if does and (high is None or value < high)]
    return max(below, default=None)


def _smallest_without(ran: Mapping[int, bool]) -> int | None:
    return min((value for value, does in ran.items() if not does), default=None)


def _asked(cell: Cell) -> list[int]:
    """Return the places of the choices of a cell that name a search."""
    places = []
    for place, choice in enumerate(cell):
        value = choice.override.value()
        key, text = choice.override.key_or_group, str(value)
        is_bare = key == "batch_size" and text in tuple(SearchGoal)
        is_bounded = isinstance(value, str) and SEARCH.fullmatch(text)
        if is_bare or (is_bounded and (key == "batch_size" or key.startswith(PREFIX))):
            places.append(place)
    return places


def _read(axis: str, text: str) -> tuple[SearchGoal, Sequence[int]]:
    """Read max, best, max(LEAST,MOST) or max(LEAST,MOST,STEP). Raises SweepRefusedError."""
    word, bracket, _ = text.partition("(")
    goal = SearchGoal(word)
    if not bracket:
        return goal, _USUAL
    match = _BOUNDS.fullmatch(text.removeprefix(word))
    wanted = f"wanted {goal}(LEAST,MOST) or {goal}(LEAST,MOST,STEP), as {goal}(8,512,8)"
    if match is None:
        raise SweepRefusedError(f"{axis}={text}: {wanted}")
    least, most, step = (int(part or 1) for part in match.groups())
    if not 0 < least <= most or not step:
        raise SweepRefusedError(f"{axis}={text}: {wanted}, with 1 <= LEAST <= MOST, STEP >= 1")
    values = range(least, most + 1, step)
    if len(values) > MOST_VALUES:
        coarser = -(-(most - least) // (MOST_VALUES - 1))
        raise SweepRefusedError(
            f"{axis}={text}: {len(values)} values, and {MOST_ATTEMPTS} short attempts tell "
            f"{MOST_VALUES} apart; take a coarser step, as {goal}({least},{most},{coarser})"
        )
    return goal, values
