"""What readers ask of a database, as plain rows. Every query keeps trials whole: none averages over an axis."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from store.database import reading
from store.errors import StoreError

Row = dict[str, Any]

_ATTEMPTS = """
SELECT attempts.id AS attempt, substr(trials.id, 1, 8) AS trial, trials.model, trials.strategy, trials.num_gpus,
       trials.batch_size, trials.precision, trials.data,
       trials.device_kind, attempts.repeat, attempts.outcome, measurements.images_per_second, measurements.jitter_s,
       measurements.verdict,
       attempts.duration_s, sweeps.name AS sweep, attempts.started_at
FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN sweeps ON sweeps.id = attempts.sweep_id
LEFT JOIN measurements ON measurements.attempt_id = attempts.id
"""

_ATTEMPT_WITH_ITS_MACHINE = """
attempts.id AS attempt_id, attempts.repeat, attempts.outcome, attempts.started_at, attempts.shares_host,
       measurements.images_per_second, measurements.median_step_s, measurements.jitter_s, measurements.steady,
       measurements.verdict,
       measurements.num_parameters,
       machines.key AS machine, machines.host, machines.cpu, machines.num_cores, machines.gpu,
       machines.num_gpus AS machine_num_gpus,
       machines.driver, environments.tensorflow, environments.scalemark, environments.software_key
FROM attempts
JOIN trials ON trials.id = attempts.trial_id
JOIN machines ON machines.id = attempts.machine_id
LEFT JOIN environments ON environments.id = attempts.environment_id
LEFT JOIN measurements ON measurements.attempt_id = attempts.id
"""

_MEASURED = f"SELECT trials.*, {_ATTEMPT_WITH_ITS_MACHINE}"


def list_attempts(engine: sa.Engine, *, sweep: str | None = None) -> list[Row]:
    """All attempts, oldest first; or those of one sweep. Raises StoreError when there is no such sweep."""
    if sweep is None:
        return rows(engine, f"{_ATTEMPTS} ORDER BY attempts.id")
    check_sweep(engine, sweep)
    return rows(engine, f"{_ATTEMPTS} WHERE sweeps.name = :sweep ORDER BY attempts.id", sweep=sweep)


def measured(engine: sa.Engine, *, sweep: str | None = None) -> list[Row]:
    """All attempts with all axes, measurement and machine; or those of the trials that one sweep asked for.

    Trials which that sweep found finished already are among them. Raises StoreError when there is no such sweep.
    """
    if sweep is None:
        return rows(engine, f"{_MEASURED} ORDER BY attempts.id")
    check_sweep(engine, sweep)
    in_its_order = "JOIN sweep_trials ON sweep_trials.trial_id = trials.id JOIN sweeps ON sweeps.id = sweep_trials.sweep_id"
    of_sweep = f"{_MEASURED} {in_its_order} WHERE sweeps.name = :sweep"
    return rows(engine, f"{of_sweep} ORDER BY sweep_trials.position, attempts.id", sweep=sweep)


def num_completed(engine: sa.Engine, machine_key: str, software_key: str, *, shares_host: bool = False) -> dict[str, int]:
    """How many completed attempts each trial has on this machine with this software: trial id -> count.

    Those that ran side by side with others count only for a sweep that `shares_host` itself.
    """
    statement = """
    SELECT attempts.trial_id, count(*) AS num
    FROM attempts
    JOIN machines ON machines.id = attempts.machine_id
    JOIN environments ON environments.id = attempts.environment_id
    WHERE attempts.outcome = 'completed' AND machines.key = :machine AND environments.software_key = :software
          AND attempts.shares_host <= :shares_host
    GROUP BY attempts.trial_id
    """
    found = rows(engine, statement, machine=machine_key, software=software_key, shares_host=shares_host)
    return {row["trial_id"]: row["num"] for row in found}


def show(engine: sa.Engine, which: str) -> Row:
    """Everything about one attempt (its number) or one trial (the beginning of its id). Raises StoreError when there is none."""
    if not which:
        raise StoreError("which attempt or trial? give its number, or the beginning of its id; see `python -m store list`")
    trial = _one_trial(engine, which)
    of_trial = f"SELECT {_ATTEMPT_WITH_ITS_MACHINE} WHERE trials.id = :id ORDER BY attempts.id"
    attempts = rows(engine, of_trial, id=trial["id"])
    if which.isdecimal() and (chosen := [row for row in attempts if row["attempt_id"] == int(which)]):
        attempts = chosen
    for attempt in attempts:
        attempt.update(_details(engine, attempt["attempt_id"]))
        # JSON columns, which plain SQL gives as text
        for column in ("op_placement", "environment", "verdict_reasons", "gpu_telemetry", "profile"):
            attempt[column] = json.loads(attempt[column]) if attempt[column] else None
    return {"trial": trial, "attempts": attempts}


def check_sweep(engine: sa.Engine, sweep: str) -> None:
    """Raises StoreError when there is no sweep of this name."""
    names = [row["name"] for row in rows(engine, "SELECT name FROM sweeps ORDER BY id DESC")]
    if sweep not in names:
        raise StoreError(f"{sweep}: no such sweep; the newest are {', '.join(names[:5]) or 'none'}")


def query(engine: sa.Engine, sql: str) -> tuple[list[str], list[Sequence[Any]]]:
    """Column names and rows of any statement that reads. Raises StoreError when it is wrong or writes."""
    try:
        with engine.connect() as connection:
            result = connection.exec_driver_sql(sql)
            if not result.returns_rows:
                raise StoreError("the statement returns no rows; query only reads")
            return list(result.keys()), [tuple(row) for row in result.all()]
    except (sa.exc.DBAPIError, sqlite3.Error) as error:
        cause = getattr(error, "orig", error)
        hint = f"; tables and views: {', '.join(_names(engine))}" if "no such table" in str(cause) else ""
        raise StoreError(f"{cause}{hint}") from error


def rows(engine: sa.Engine, sql: str, **parameters: Any) -> list[Row]:
    """Rows of one of our own statements."""
    with reading(engine) as connection:
        return [dict(row) for row in connection.execute(sa.text(sql), parameters).mappings()]


def _details(engine: sa.Engine, attempt_id: int) -> Row:
    statement = """
    SELECT attempts.message, attempts.exit_code, attempts.visible_devices, attempts.start, attempts.cores, attempts.shares_host,
           attempts.run_dir, attempts.duration_s, measurements.*, environments.description AS environment
    FROM attempts
    LEFT JOIN measurements ON measurements.attempt_id = attempts.id
    LEFT JOIN environments ON environments.id = attempts.environment_id
    WHERE attempts.id = :id
    """
    (details,) = rows(engine, statement, id=attempt_id)
    return details | {"attempt_id": attempt_id, "shares_host": bool(details["shares_host"])}


def _one_trial(engine: sa.Engine, which: str) -> Row:
    by_attempt = "SELECT trials.* FROM trials JOIN attempts ON attempts.trial_id = trials.id WHERE attempts.id = :id"
    found = rows(engine, by_attempt, id=int(which)) if which.isdecimal() and len(which) < 10 else []
    found = found or rows(engine, "SELECT * FROM trials WHERE substr(id, 1, length(:id)) = :id", id=which)
    if len(found) != 1:
        hint = "see `python -m store list`" if not found else f"it could be {', '.join(row['id'] for row in found[:3])}"
        raise StoreError(f"{which}: {'no' if not found else 'not just one'} attempt or trial; {hint}")
    return found[0]


def _names(engine: sa.Engine) -> list[str]:
    return [row["name"] for row in rows(engine, "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")]
