"""The view `scaling` as a pandas frame: the same numbers, computed much faster where there are
many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import sqlalchemy as sa

from scalemark.records.outcomes import Outcome
from store.filters.selection import is_of_trials, parsed
from store.reading.attempt_columns import NEEDED_FOR_GROUPS, chosen_by, read_attempts, read_others
from store.reading.columns import take
from store.reading.groups import grouped, kinds_of
from store.reading.trial_columns import among, read_trials
from store.schema import AttemptRow, TrialRow

_MACHINE = ("machine_id", "host", "gpu", "software_key", "shares_host", "item")
_NUMBERS = ("num_repeats", "lowest", "highest", "num_doubtful", "throughput", "throughput_on_1")
_SAME = ["curve", "machine_id", "software_key", "shares_host", "item"]
"""What a trial and its baseline on 1 GPU have in common."""


def scaling_frame(
    connection: sa.Connection, filters: Sequence[str], *, simulated: bool = False
) -> pd.DataFrame:
    """Return the frame. Filters of axes choose rows; all others choose the attempts that rows and
    their baselines are made of.
    """
    rows = _medians(connection, chosen_by(filters, simulated=simulated))
    of_attempts = [
        text for text, one in zip(filters, parsed(filters), strict=True) if not is_of_trials(one)
    ]
    baselines = rows
    if len(of_attempts) < len(filters):
        on_1_gpu = sa.select(TrialRow.id).where(
            among(TrialRow.curve, rows["curve"].unique()), TrialRow.num_gpus == 1
        )
        ids = connection.scalars(on_1_gpu).all()
        baselines = _medians(
            connection,
            sa.and_(chosen_by(of_attempts, simulated=simulated), among(AttemptRow.trial_id, ids)),
        )
    baselines = baselines[baselines["num_gpus"] == 1]
    on_1 = baselines[[*_SAME, "throughput"]].drop_duplicates(_SAME)
    found = rows.merge(on_1, how="left", on=_SAME, suffixes=("", "_on_1"))
    names = list(rows)
    # all, free ones, too; the item is that of the measurement
    axes = [
        name
        for name in names[names.index("trial_id") + 1 : names.index("host")]
        if name not in _MACHINE
    ]
    # as SQLite has it: what is divided by 0 is not known
    baseline = found["throughput_on_1"].replace(0.0, np.nan)
    found["speed_up"] = found["throughput"] / baseline
    found["efficiency"] = found["speed_up"] / found["num_gpus"]
    ratios = ("speed_up", "efficiency")
    return found[["trial_id", "curve", *_MACHINE, *_NUMBERS, *ratios, *axes]]


def _medians(connection: sa.Connection, which: sa.ColumnElement[bool]) -> pd.DataFrame:
    """Return a row per trial and kind of completed attempts whose software is known, that of the
    oldest attempt first.
    """
    counted = sa.and_(
        which, AttemptRow.outcome == Outcome.COMPLETED, AttemptRow.environment_id.is_not(None)
    )
    attempts = read_attempts(connection, (*NEEDED_FOR_GROUPS, "item"), counted)
    trials = read_trials(connection, attempts["trial_id"])
    others = read_others(connection, attempts)
    kinds = kinds_of(trials.places_of(attempts["trial_id"]), attempts, others)
    kinds["item"] = np.asarray(attempts["item"].codes)
    groups = grouped(kinds, attempts)
    groups = groups[groups["num_completed"] > 0]
    first, places = groups["first"].to_numpy(), groups["trial"].to_numpy()
    reported = {"curve": take(trials.curves, places)} | trials.of(places)
    reported |= {name: take(others[name], first) for name in ("host", "gpu", "software_key")}
    reported["item"] = take(attempts["item"], first)
    numbers = groups.rename(columns={"num_completed": "num_repeats"}).drop(
        columns=["trial", "software", "item", "num_attempts", "first"]
    )
    return pd.DataFrame(reported | {name: numbers[name].to_numpy() for name in numbers}, copy=False)
