"""Reads an MLflow run that the program left below its run folder, in either of MLflow's stores.

```
mlflow.db                    SQLite, MLflow's default: table metrics (run_uuid, key, value, ...)
RUN/metrics/NAME             a file store: lines `time_ms value step`; NAME may have slashes
```
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from scalemark.readers.fields import usable
from scalemark.readers.log_text import files_below, named_below, read_text
from scalemark.readers.numbers import number
from scalemark.readers.opening import settings
from scalemark.readers.reading import Reading
from scalemark.readers.steps import StepCounter
from scalemark.readers.words import Role, chosen, role_of, seconds_per_step

ABOUT = (
    "mlflow[:key=NAME] reads the newest run of mlflow.db or of a file store below the run folder "
    "(MLFLOW_TRACKING_URI=sqlite:///{run_dir}/mlflow.db); NAME is the metric that is items/s "
    "(default: the one that looks like it)"
)
_FOLDER = "metrics"
_DATABASE = "mlflow.db"
_MOST_ROWS = 1_000_000
_NEWEST_RUN = """
    SELECT key, value, timestamp, step, is_nan FROM metrics
    WHERE run_uuid = (SELECT run_uuid FROM metrics ORDER BY timestamp DESC LIMIT 1)
    ORDER BY step, timestamp LIMIT ?
"""

_Run = dict[str, list["_Point"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    time_s: float
    value: str
    step: int


def create(argument: str) -> MlflowReader:
    """Raises ReadError for a setting that there is not."""
    first, given = settings("mlflow", argument, ("key",))
    return MlflowReader(given.get("key", first))


class MlflowReader:
    """Reads the metrics of the run that logged last; its output says nothing."""

    def __init__(self, key: str) -> None:
        self.wanted_item = ""
        self._key = key

    def read_line(self, line: str) -> Reading | None:
        return None

    def read_files(self, folder: Path) -> Iterator[Reading]:
        metrics = _newest_run(folder)
        key, rate = self._chosen(metrics)
        others = {name: points for name, points in metrics.items() if name != key}
        if not rate:
            return
        at_step: dict[int, dict[str, float]] = {}
        for name, points in others.items():
            for point in points:
                value = number(point.value)
                if value is not None:
                    at_step.setdefault(point.step, {})[name] = value
        yield from _readings(metrics[key], rate, at_step)

    def _chosen(self, metrics: _Run) -> tuple[str, Role | None]:
        if self._key:
            default = Role(name="throughput")
            return self._key, (role_of(self._key) or default) if self._key in metrics else None
        rates = {name: role_of(name) for name in sorted(metrics)}
        return chosen(rates, self.wanted_item) or ("", None)


def _readings(
    points: list[_Point], rate: Role, at_step: dict[int, dict[str, float]]
) -> Iterator[Reading]:
    steps = StepCounter()
    for point in points:
        amount, doubt = usable(point.value)
        step = steps.count(point.step)
        step_s = None
        if amount is not None and rate.name != "throughput":
            step_s = seconds_per_step(rate.name, amount)
            amount = None
        if step is None and len(points) > 1:
            continue
        yield Reading(
            throughput=amount,
            step=step,
            step_s=step_s,
            time_s=point.time_s,
            is_mean=rate.is_mean,
            is_total=rate.is_total and len(points) == 1,
            item=rate.item,
            per_gpu=rate.per_gpu,
            unusable=doubt,
            metrics=at_step.get(point.step, {}),
        )


def _newest_run(folder: Path) -> _Run:
    """Return the metrics of the run with the last time, by name."""
    runs = [*_runs_of_files(folder), *map(_run_of_database, named_below(folder, (_DATABASE,)))]
    return max((run for run in runs if run), key=_last_time, default={})


def _runs_of_files(folder: Path) -> Iterator[_Run]:
    runs: dict[Path, _Run] = {}
    for path in files_below(folder):
        parts = path.relative_to(folder).parts
        if _FOLDER not in parts[:-1]:
            continue
        place = parts.index(_FOLDER)
        points = _points(read_text(path) or "")
        if points:
            run = runs.setdefault(folder.joinpath(*parts[:place]), {})
            run["/".join(parts[place + 1 :])] = points
    yield from runs.values()


def _run_of_database(path: Path) -> _Run:
    """Return the newest run; nothing of a database that is none of MLflow's."""
    run: _Run = {}
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            for key, value, time_ms, step, is_nan in database.execute(_NEWEST_RUN, (_MOST_ROWS,)):
                shown = "nan" if is_nan else str(value)
                point = _Point(time_s=int(time_ms) / 1e3, value=shown, step=int(step))
                run.setdefault(str(key), []).append(point)
    except (sqlite3.Error, TypeError, ValueError):
        return {}
    return run


def _last_time(run: _Run) -> float:
    return max(points[-1].time_s for points in run.values())


def _points(text: str) -> list[_Point]:
    """Return the points of a metric's file, or none where it is no such file."""
    found: list[_Point] = []
    for line in text.splitlines():
        pieces = line.split()
        if len(pieces) not in (2, 3) or not pieces[0].isdigit():
            return []
        step = pieces[2] if len(pieces) == 3 else "0"
        if not step.lstrip("-").isdigit():
            return []
        found.append(_Point(time_s=int(pieces[0]) / 1e3, value=pieces[1], step=int(step)))
    return sorted(found, key=lambda point: (point.step, point.time_s))
