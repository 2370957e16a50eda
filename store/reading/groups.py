"""Attempts of one trial on one machine, with one software, alone or beside others: what may be put
into one number.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from scalemark.records.outcomes import Outcome, Verdict
from store.reading.columns import Array

ONE_KIND = ("trial", "machine_id", "software", "shares_host")
"""Columns of numbers by which they are grouped; `software` is -1 where it is not known."""


def grouped(kinds: Mapping[str, Array], attempts: Mapping[str, Any]) -> pd.DataFrame:
    """`kinds` are the columns of ONE_KIND. Returns these and, for each group: num_attempts,
    num_completed, images_per_second, lowest, highest and median_step_s of the completed,
    num_doubtful (completed, and not valid), and `first`, the place of its first attempt, by which
    they are ordered.
    """
    group, first = _groups(kinds)
    completed = np.asarray(attempts["outcome"] == Outcome.COMPLETED) & ~np.isnan(
        attempts["images_per_second"]
    )
    doubtful = completed & ~np.asarray(attempts["verdict"] == Verdict.VALID)
    num = len(first)
    of_completed = group[completed]
    speeds = attempts["images_per_second"][completed]
    lowest, median, highest = _spread(of_completed, speeds, num)
    _, step_s, _ = _spread(of_completed, attempts["median_step_s"][completed], num)
    return pd.DataFrame(
        {name: column[first] for name, column in kinds.items()}
        | {
            "num_attempts": np.bincount(group, minlength=num),
            "num_completed": np.bincount(of_completed, minlength=num),
            "images_per_second": median,
            "lowest": lowest,
            "highest": highest,
            "median_step_s": step_s,
            "num_doubtful": np.bincount(group[doubtful], minlength=num),
            "first": first,
        },
        copy=False,
    )


def kinds_of(
    trial_places: Array, attempts: Mapping[str, Any], others: Mapping[str, Any]
) -> dict[str, Array]:
    """The columns of ONE_KIND."""
    return {
        "trial": trial_places,
        "machine_id": attempts["machine_id"],
        "software": np.asarray(others["software_key"].codes),
        "shares_host": attempts["shares_host"],
    }


def _groups(kinds: Mapping[str, Array]) -> tuple[Array, Array]:
    """Of each attempt the number of its group, of each group the place of its first attempt."""
    key = np.zeros(len(kinds["trial"]), np.int64)
    for name in ONE_KIND:
        column = np.asarray(kinds[name], np.int64)
        least, most = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        key = key * (most - least + 1) + (column - least)
        # small again, so that no product grows beyond 64 bits
        _, key = np.unique(key, return_inverse=True)
    _, first = np.unique(key, return_index=True)
    order = np.argsort(first)
    number = np.empty_like(order)
    number[order] = np.arange(len(order))
    return number[key], first[order]


def _spread(group: Array, values: Array, num: int) -> tuple[Array, Array, Array]:
    """Lowest, median and highest of each group; NaN of an empty one."""
    order = np.lexsort((values, group))
    ordered = values[order]
    counts = np.bincount(group, minlength=num)
    begins = np.cumsum(counts) - counts
    some = counts > 0
    lowest, median, highest = (np.full(num, np.nan) for _ in range(3))
    begin, count = begins[some], counts[some]
    lowest[some], highest[some] = ordered[begin], ordered[begin + count - 1]
    median[some] = (ordered[begin + (count - 1) // 2] + ordered[begin + count // 2]) / 2
    return lowest, median, highest
