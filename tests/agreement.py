"""Compares what a database has with what the run folders have, and with a database that is rebuilt from them."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.store.command import store

_RUN_DIR = "CASE WHEN attempts.run_dir LIKE '/%' THEN attempts.run_dir ELSE sweeps.run_dir || '/' || attempts.run_dir END"
FOLDERS = f"SELECT {_RUN_DIR} FROM attempts JOIN sweeps ON sweeps.id = attempts.sweep_id"
ATTEMPTS = """
    SELECT sweeps.uid, attempts.trial_id, attempts.repeat, attempts.attempt, attempts.outcome, measurements.throughput
    FROM attempts JOIN sweeps ON sweeps.id = attempts.sweep_id LEFT JOIN measurements ON measurements.attempt_id = attempts.id
    ORDER BY 1, 2, 3, 4"""
STEPS = """
    SELECT sweeps.uid, attempts.trial_id, attempts.repeat, attempts.attempt, step_samples.*
    FROM step_samples JOIN attempts ON attempts.id = step_samples.attempt_id JOIN sweeps ON sweeps.id = attempts.sweep_id
    WHERE attempts.outcome = 'completed' ORDER BY 1, 2, 3, 4, step_samples.step"""
_KEPT = 0.5e-4  # of the shortest step, or the smallest loss, of an attempt: five digits are kept


def problems(database: Path, runs: Path) -> list[str]:
    """Return what differs between the database and its run folders."""
    found = check_problems(database)
    found += value_problems(database)
    found += rebuild_problems(database, runs)
    return found


def rows(database: Path, query: str, values: tuple[object, ...] = ()) -> list[tuple]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return connection.execute(query, values).fetchall()


def check_problems(database: Path) -> list[str]:
    checked = store("db", "check", "--db", str(database))
    return (
        []
        if checked.returncode == 0
        else [f"store check ended with {checked.returncode}: {checked.stdout}{checked.stderr}"]
    )


def value_problems(database: Path) -> list[str]:
    """Throughput and each value of each step of completed attempts, against their run folders."""
    found = []
    of_completed = f"""
        SELECT attempts.id, {_RUN_DIR}, measurements.throughput FROM attempts JOIN sweeps ON sweeps.id = attempts.sweep_id
        JOIN measurements ON measurements.attempt_id = attempts.id WHERE attempts.outcome = 'completed'"""
    for attempt_id, run_dir, throughput in rows(database, of_completed):
        wanted = json.loads((Path(run_dir) / "result.json").read_text())["measurement"][
            "throughput"
        ]
        if throughput != wanted:
            found.append(
                f"attempt {attempt_id}: {throughput} images/s, in its folder {wanted}: {run_dir}"
            )
        steps = [
            json.loads(line) for line in (Path(run_dir) / "steps.jsonl").read_text().splitlines()
        ]
        found += [
            f"attempt {attempt_id}: {problem}: {run_dir}"
            for problem in _step_problems(database, attempt_id, steps)
        ]
    return found


def rebuild_problems(database: Path, runs: Path) -> list[str]:
    """Makes it anew from the run folders, next to it, and compares the attempts, their throughputs and steps."""
    anew = database.with_name("rebuilt.db")
    anew.unlink(missing_ok=True)
    rebuilt = store("db", "rebuild", str(runs), "--db", str(anew), "--json")
    if rebuilt.returncode not in (0, 1) or "Traceback" in rebuilt.stderr:
        return [f"store rebuild ended with {rebuilt.returncode}: {rebuilt.stderr}"]
    found = []
    recorded = {run_dir for (run_dir,) in rows(database, FOLDERS)}
    for rejected in json.loads(rebuilt.stdout)["rejected"]:
        if rejected["where"] in recorded:
            found.append(f"store rebuild rejects {rejected['where']}: {rejected['reason']}")
    kept = rows(database, ATTEMPTS)
    again = {row[:4]: row[4:] for row in rows(anew, ATTEMPTS)}
    for *identity, outcome, throughput in kept:
        if (reported := again.get(tuple(identity))) != (outcome, throughput):
            found.append(
                f"attempt {identity}: {outcome}, {throughput} images/s, after store rebuild {reported}"
            )
    completed_anew = {
        identity for identity, (outcome, _) in again.items() if outcome == "completed"
    }
    if more := completed_anew - {row[:4] for row in kept if row[4] == "completed"}:
        found.append(f"store rebuild completed attempts that the database has not: {sorted(more)}")
    if not found and _steps(database) != _steps(anew):
        found.append("the steps of the database are not those of the rebuilt one")
    return found


def _steps(database: Path) -> list[tuple]:
    """But for the number of the attempt, which is each database's own."""
    return [row[:4] + row[5:] for row in rows(database, STEPS)]


def _step_problems(database: Path, attempt_id: int, wanted: list[dict[str, Any]]) -> list[str]:
    query = "SELECT step, phase, start_s, duration_s, data_wait_s, loss FROM step_samples WHERE attempt_id = ? ORDER BY step"
    names = ("step", "phase", "start_s", "duration_s", "data_wait_s", "loss")
    stored = [dict(zip(names, row, strict=True)) for row in rows(database, query, (attempt_id,))]
    if len(stored) != len(wanted):
        return [f"{len(stored)} samples of {len(wanted)}"]
    time_error = (
        max(0.5e-6, _KEPT * min((step["duration_s"] for step in wanted), default=0.0)) * 1.001
    )
    losses = [abs(step["loss"]) for step in wanted if step["loss"]]
    errors = {"start_s": time_error, "duration_s": time_error, "data_wait_s": time_error}
    errors["loss"] = _KEPT * min(losses, default=0.0) * 1.001
    return [
        f"step {reported['step']}: {name} is {has[name]}, in its folder {reported[name]}"
        for has, reported in zip(stored, wanted, strict=True)
        for name in names
        if not _equal(has, reported, name, errors)
    ]


def _equal(
    has: Mapping[str, Any], reported: Mapping[str, Any], name: str, errors: Mapping[str, float]
) -> bool:
    wanted = reported[name]
    if name not in errors or wanted is None or not math.isfinite(wanted):
        return bool(has[name] == (None if isinstance(wanted, float) else wanted))
    return has[name] is not None and abs(has[name] - wanted) <= errors[name]
