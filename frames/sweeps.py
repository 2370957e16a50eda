"""The frame of sweeps: one row per sweep of a database, newest first."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from frames.empty import frame
from store.reading.every_sweep import ListedSweep

DTYPES = {
    "sweep": "str",
    "started_at": "datetime64[us, UTC]",
    "finished_at": "datetime64[us, UTC]",
    "models": "str",
    "engines": "str",
    "num_trials": "int64",
    "num_attempts": "int64",
    "num_completed": "int64",
    "reason": "str",
    "command": "str",
}


def sweeps_frame(found: Sequence[ListedSweep]) -> pd.DataFrame:
    rows = []
    for one in found:
        row = {name: getattr(one, name) for name in DTYPES}
        for name in ("models", "engines"):
            row[name] = ",".join(row[name])  # as a filter takes them
        rows.append(row)
    return frame(rows, DTYPES)
