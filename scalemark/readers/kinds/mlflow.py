"""Reads the newest run of `mlflow.db`, MLflow's default store, that the program left."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from scalemark.readers.fields import ObjectReader
from scalemark.readers.log_text import named_below
from scalemark.readers.opening import settings
from scalemark.readers.reading import Reading

ABOUT = (
    "mlflow[:key=NAME] reads the newest run of mlflow.db below the run folder "
    "(MLFLOW_TRACKING_URI=sqlite:///{run_dir}/mlflow.db); NAME is the metric that is items/s "
    "(default: the one that looks like it)"
)
_NEWEST_RUN = """
    SELECT step, timestamp / 1e3, key, CASE WHEN is_nan THEN 'nan' ELSE value END FROM metrics
    WHERE run_uuid = (SELECT run_uuid FROM metrics ORDER BY timestamp DESC LIMIT 1)
    ORDER BY step, timestamp LIMIT 1000000
"""


def create(argument: str) -> MlflowReader:
    """Raises ReadError for a setting that there is not."""
    first, given = settings("mlflow", argument, ("key",))
    return MlflowReader(given.get("key", first))


class MlflowReader:
    """Reads the metrics of the run that logged last; its output says nothing."""

    def __init__(self, key: str) -> None:
        self.wanted_item = ""
        self._given = {"step": "step", "time_s": "time_s"}
        if key:
            self._given["throughput"] = key

    def read_line(self, line: str) -> Reading | None:
        return None

    def read_files(self, folder: Path) -> Iterator[Reading]:
        reader = ObjectReader(self._given)
        for path in named_below(folder, ("mlflow.db",))[:1]:
            for step, rows in groupby(_rows(path), itemgetter(0)):
                values = {"step": str(step)}
                for _, time_s, key, value in rows:
                    values |= {"time_s": str(time_s), str(key): str(value)}
                reading = reader.reading(values, self.wanted_item)
                if reading and reading.has_rate:
                    yield reading


def _rows(path: Path) -> list[tuple[object, ...]]:
    """Return rows of step, time, name and value; none of a database that is not MLflow's."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            return database.execute(_NEWEST_RUN).fetchall()
    except sqlite3.Error:
        return []
