"""Takes the newest night of tables with dates: a date is no choice, and two nights are no repeats.
What changed over nights is what `guard` tells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date

from scalemark.records.when import WHEN, day_of
from scalemark.stats.welch import typical
from store.reading.queries import Row


def of_newest_night(trials: Sequence[Row], *, names_night: bool) -> list[Row]:
    """Return the trials of each table's newest night, whose rows are repeats at whatever time.

    The night stays an axis where a filter `names_night`, and is else a part of the source's name.
    Rows without a date beside others with one are left out; a table whose `when` holds anything but
    dates is left as it is. `trials` are as `store.reading.elsewhere.measured_elsewhere` has them.
    """
    by_table: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for trial in trials:
        by_table[trial["source"], trial["hardware"]].append(trial)
    found: list[Row] = []
    for of_table in by_table.values():
        dated = [trial for trial in of_table if WHEN in trial["axes"]]
        try:
            days = [day_of(trial["axes"][WHEN]) for trial in dated]
        except ValueError:
            days = []
        if not days:
            found += of_table
            continue
        newest = max(days)
        of_night = [trial for trial, day in zip(dated, days, strict=True) if day == newest]
        found += _as_one_night(of_night, newest, names_night=names_night)
    return found


def _as_one_night(trials: Sequence[Row], night: date, *, names_night: bool) -> list[Row]:
    found: dict[str, Row] = {}
    for trial in trials:
        axes = {name: value for name, value in trial["axes"].items() if name != WHEN}
        own = {name: value for name, value in trial.items() if name not in _OF_ROWS}
        if names_night:
            axes[WHEN] = str(night)
        else:
            own["source"] = f"{trial['source']}, newest night {night}"
        one = found.setdefault(repr((axes, own)), {**own, "axes": axes, "repeats": []})
        one["repeats"].extend(trial["repeats"])
    for one in found.values():
        one["throughput"] = typical(one["repeats"])
    return list(found.values())


_OF_ROWS = ("axes", "repeats", "throughput")
