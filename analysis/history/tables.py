"""Takes the rows of tables, which were measured elsewhere, as values of nights."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date

from analysis.history.record import Night, NoHistoryError
from analysis.history.values import UNKNOWN, Value
from analysis.results import Origin, Result
from scalemark.host.own_code import typed
from scalemark.records.free_axes import PREFIX
from scalemark.records.when import WHEN, day_of
from store.errors import StoreError

_WHEN = f"{PREFIX}{WHEN}"


def of_tables(results: Sequence[Result]) -> list[Value]:
    """Return a value per trial and night. What all rows of a night share, and not all nights, is a
    version, and no part of the trial. Raises NoHistoryError where no row has a date.
    """
    by_machine: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        if _WHEN in result.axes:
            where = result.environment
            by_machine[f"{where.machine}, {where.versions}"].append(result)
    if not by_machine:
        raise NoHistoryError(
            f"--origin {Origin.ELSEWHERE}: no row says when it was measured; import the table with "
            f"its column of dates as an axis, {typed('store')} import TABLE --axis COLUMN={WHEN}"
        )
    return [
        value
        for machine, of_machine in by_machine.items()
        for value in _of_machine(machine, of_machine)
    ]


def version_axes(results: Sequence[Result]) -> frozenset[str]:
    """Return the axes that all rows of a night share, on every machine: they tell no trials apart.
    None where a date cannot be read, as then rows have no nights.
    """
    dated = [one for one in results if _WHEN in one.axes]
    try:
        days = {one.trial_id: day_of(one.axes[_WHEN]) for one in dated}
    except ValueError:
        return frozenset()
    by_machine: dict[str, list[Result]] = defaultdict(list)
    for one in dated:
        by_machine[one.environment.machine].append(one)
    found = [
        name
        for name in _free(dated)
        if all(_is_shared(name, of_machine, days) for of_machine in by_machine.values())
    ]
    return frozenset(found)


def _of_machine(machine: str, results: Sequence[Result]) -> Iterable[Value]:
    days = {one.trial_id: _day(one) for one in results}
    versions = _versions(results, days)
    left_out = {*versions, _WHEN, "strategy"}
    # one that never changed yet may be a version, too: a name is to outlast its first change
    nameless = {name for name in _free(results) if _is_shared(name, results, days)}
    nameless = {name.removeprefix(PREFIX) for name in nameless}
    nights: dict[tuple[date, str], Night] = {}
    values: dict[tuple[str, str, int], Value] = {}
    for result in results:
        software = {name.removeprefix(PREFIX): str(result.axes[name]) for name in versions}
        day = days[result.trial_id]
        night = nights.setdefault((day, repr(software)), Night(day=day, software=software))
        axes = {
            name.removeprefix(PREFIX): value
            for name, value in result.axes.items()
            if name not in left_out and value not in UNKNOWN
        }
        trial_id = _words(axes)
        key = (trial_id, result.item, id(night))
        if key not in values:
            values[key] = Value(
                machine=machine,
                host=result.environment.host,
                trial_id=trial_id,
                label=_words(axes, nameless),
                axes=axes,
                item=result.item,
                night=night,
                throughputs=[],
            )
        values[key].throughputs.extend(result.repeats)
    return values.values()


def _words(axes: Mapping[str, object], without: Collection[str] = ()) -> str:
    return " ".join(f"{name}={value}" for name, value in axes.items() if name not in without)


def _day(result: Result) -> date:
    """Raise StoreError for what older imports took in."""
    try:
        return day_of(result.axes[_WHEN])
    except ValueError as error:
        wrong = shlex.quote(f"{WHEN}!={result.axes[_WHEN]}")
        raise StoreError(
            f"{result.environment.versions}: {error}; import it with such dates into another "
            f"database, or leave these rows out with {wrong}"
        ) from None


def _versions(results: Sequence[Result], days: Mapping[str, date]) -> list[str]:
    found = []
    for name in _free(results):
        every = {result.axes.get(name) for result in results}
        if None not in every and len(every) > 1 and _is_shared(name, results, days):
            found.append(name)
    return found


def _free(results: Sequence[Result]) -> list[str]:
    names = dict.fromkeys(name for result in results for name in result.axes)
    return [name for name in names if name.startswith(PREFIX) and name != _WHEN]


def _is_shared(name: str, results: Sequence[Result], days: Mapping[str, date]) -> bool:
    """Return whether all rows of each night have the same value of this axis."""
    by_day: dict[date, set[object]] = defaultdict(set)
    for result in results:
        by_day[days[result.trial_id]].add(result.axes.get(name))
    return all(len(of_day) == 1 for of_day in by_day.values())
