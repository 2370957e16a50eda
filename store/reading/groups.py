"""Groups attempts of one trial on one machine, with one software, alone or beside others, which one
number may describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from scalemark.records.outcomes import Outcome, Verdict
from store.reading.columns import Array


def grouped(kinds: Mapping[str, Array], attempts: Mapping[str, Any]) -> pd.DataFrame:
    """`kinds` are the columns of `kinds_of`, or more. Returns these and, for each group:
    num_attempts, num_completed, throughput, lowest, highest and median_step_s of the completed,
    num_doubtful (completed, and not valid), and `first`, the place of its first attempt, by which
    they are ordered.
    """
    speeds = attempts["throughput"]
    completed = np.asarray(attempts["outcome"] == Outcome.COMPLETED) & ~np.isnan(speeds)
    columns = {
        "place": np.arange(len(completed)),
        "completed": completed,
        "doubtful": completed & ~np.asarray(attempts["verdict"] == Verdict.VALID),
        "speed": np.where(completed, speeds, np.nan),
        "step_s": np.where(completed, attempts["median_step_s"], np.nan),
    }
    groups = pd.DataFrame({**kinds, **columns}, copy=False).groupby(list(kinds), sort=False)
    found = {  # one by one, because `agg` of all takes three times as long
        "num_attempts": groups["place"].size(),
        "num_completed": groups["completed"].sum(),
        "throughput": groups["speed"].median(),
        "lowest": groups["speed"].min(),
        "highest": groups["speed"].max(),
        "median_step_s": groups["step_s"].median(),
        "num_doubtful": groups["doubtful"].sum(),
        "first": groups["place"].min(),
    }
    return pd.DataFrame(found).reset_index()


def kinds_of(
    trial_places: Array, attempts: Mapping[str, Any], others: Mapping[str, Any]
) -> dict[str, Array]:
    """Return columns of numbers to group attempts by; `software` is -1 where it is not known."""
    return {
        "trial": trial_places,
        "machine_id": attempts["machine_id"],
        "software": np.asarray(others["software_key"].codes),
        "shares_host": attempts["shares_host"],
    }
