"""Takes the rows of tables, which were measured elsewhere, as values of nights."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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


def _of_machine(machine: str, results: Sequence[Result]) -> Iterable[Value]:
    days = {one.trial_id: _day(one) for one in results}
    versions = _versions(results, days)
    left_out = {*versions, _WHEN, "strategy"}
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
        trial_id = " ".join(f"{name}={value}" for name, value in axes.items())
        key = (trial_id, result.item, id(night))
        if key not in values:
            values[key] = Value(
                machine=machine,
                host=result.environment.host,
                trial_id=trial_id,
                axes=axes,
                item=result.item,
                night=night,
                throughputs=[],
            )
        values[key].throughputs.extend(result.repeats)
    return values.values()


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
    for name in dict.fromkeys(name for result in results for name in result.axes):
        if not name.startswith(PREFIX) or name == _WHEN:
            continue
        by_day: dict[date, set[object]] = defaultdict(set)
        for result in results:
            by_day[days[result.trial_id]].add(result.axes.get(name))
        every = set().union(*by_day.values())
        is_shared = all(len(of_day) == 1 for of_day in by_day.values())
        if is_shared and None not in every and len(every) > 1:
            found.append(name)
    return found
