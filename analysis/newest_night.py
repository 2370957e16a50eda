"""Takes the newest night of tables with dates: a date is no choice, and two nights are no repeats.
What changed over nights is the question of `guard`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date

from scalemark.records.free_axes import WHEN, day_of
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
    kept: list[Row] = []
    for of_table in by_table.values():
        dated = [trial for trial in of_table if WHEN in trial["axes"]]
        try:
            days = [day_of(trial["axes"][WHEN]) for trial in dated]
        except ValueError:
            days = []
        if not days:
            kept += of_table
            continue
        newest = max(days)
        of_night = [trial for trial, day in zip(dated, days, strict=True) if day == newest]
        kept += _as_one_night(of_night, newest, names_night=names_night)
    return kept


def _as_one_night(trials: Sequence[Row], night: date, *, names_night: bool) -> list[Row]:
    by_trial: dict[str, Row] = {}
    for trial in trials:
        same = {**trial, "axes": {**trial["axes"]}, "repeats": [], "throughput": None}
        del same["axes"][WHEN]
        if names_night:
            same["axes"][WHEN] = str(night)
        else:
            same["source"] = f"{trial['source']}, newest night {night}"
        by_trial.setdefault(repr(same), same)["repeats"].extend(trial["repeats"])
    for row in by_trial.values():
        row["throughput"] = typical(row["repeats"])
    return list(by_trial.values())
