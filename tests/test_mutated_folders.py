"""Whatever value stands in a run folder or a database: it is taken or refused, and nothing else is lost for it."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

import pytest

from scalemark.records.attempt import sweep_uid
from store.checks import check
from store.writer import Writer
from sweeper.loop.run_folders import recover
from tests.agreement import rows
from tests.conftest import PROJECT
from tests.mutations import as_json, sampled
from tests.phases import Phase, Watched, state_of
from tests.store.command import store

pytestmark = pytest.mark.integration

SWEEP = [sys.executable, str(PROJECT / "tests" / "tiny_sweep.py"), "hardware=cpu", "model=trivial"]
FILES = (
    "trial.json",
    "attempt.json",
    "machine.json",
    "placement.json",
    "environment.json",
    "result.json",
    "ended.json",
    "steps.jsonl",
)
READ_BY_RECOVERY = ("environment.json", "result.json", "steps.jsonl", "placement.json")
SHORT_AND_LONG = pytest.mark.parametrize(
    ("num_mutations", "seed"), [(2, 1), pytest.param(60, 2, marks=pytest.mark.slow)]
)


@SHORT_AND_LONG
def test_rebuild_loses_no_more_than_the_attempt_of_a_mutated_folder(tmp_path, num_mutations, seed):
    subprocess.run([*SWEEP, "seed=1,2"], check=True, capture_output=True)
    (swept,) = tmp_path.glob("runs/*")
    what, untouched = {}, set()
    for name in FILES:
        original = sorted(swept.glob("trivial-*"))[0] / name
        for text, reported in _mutated(original, num_mutations, seed):
            victim, other = _copied(swept, tmp_path / "mutated" / f"mutated{len(what)}")
            (victim / name).write_text(text)
            what[victim] = f"{name}: {reported}"
            untouched.add(str(other))
    rebuilt = store("db", "rebuild", "mutated", "--db", "rebuilt.db", "--json")
    assert "Traceback" not in rebuilt.stderr, f"seed {seed}: {rebuilt.stderr}"
    assert rebuilt.returncode in (0, 1), f"seed {seed}: {rebuilt.stderr}"
    run_dirs = (
        "SELECT sweeps.run_dir || '/' || attempts.run_dir FROM attempts "
        "JOIN sweeps ON sweeps.id = sweep_id WHERE outcome = 'completed'"
    )
    lost = untouched - {run_dir for (run_dir,) in rows(Path("rebuilt.db"), run_dirs)}
    assert not lost, (
        f"seed {seed}: {[what[victim] for victim in what if victim.parent in {Path(path).parent for path in lost}]}"
    )
    rejected = json.loads(rebuilt.stdout)["rejected"]
    assert {Path(one["where"]) for one in rejected} <= what.keys()
    assert list(check("rebuilt.db")) == []


@SHORT_AND_LONG
def test_a_mutated_run_folder_stops_no_recovery(num_mutations, seed):
    run_dir = _left_unrecorded()
    with (
        closing(sqlite3.connect("results.db")) as killed,
        closing(sqlite3.connect("left.db")) as left,
    ):
        killed.backup(left)  # with what is in its write-ahead log
    for name in READ_BY_RECOVERY:
        right = (run_dir / name).read_text()
        for text, reported in _mutated(run_dir / name, num_mutations, seed):
            reported = f"{name}: {reported}, seed {seed}"
            shutil.copyfile("left.db", "again.db")
            (run_dir / name).write_text(text)
            writer = Writer("again.db")
            try:
                recovered = recover(writer.engine)
            except Exception as error:
                raise AssertionError(reported) from error
            finally:
                writer.close()
                (run_dir / "ended.json").unlink(missing_ok=True)  # of the recovery
                (run_dir / name).write_text(right)
            assert recovered is not None, reported
            assert rows(
                Path("again.db"),
                "SELECT count(*) FROM repeats WHERE state IN ('claimed', 'running')",
            ) == [(0,)], reported
            assert list(check("again.db")) == [], reported


@SHORT_AND_LONG
def test_a_mutated_database_is_merged_or_refused(num_mutations, seed):
    subprocess.run([*SWEEP, "seed=1"], check=True, capture_output=True)
    chance = random.Random(seed)
    with closing(sqlite3.connect("results.db")) as connection:
        columns = connection.execute(
            "SELECT m.name, c.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'"
        ).fetchall()
    for number in range(num_mutations):
        table, column = chance.choice(columns)
        value = chance.choice(["", "x", 7, -1, 1e300, b"\xff", None, "[1", "2026-01-01", 2**62])
        said = f"{table}.{column}={value!r}, seed {seed}"
        shutil.copyfile("results.db", "other.db")
        with (
            closing(sqlite3.connect("other.db")) as connection,
            suppress(sqlite3.Error),
            connection,
        ):
            connection.execute(f'UPDATE {table} SET "{column}" = ? WHERE rowid = 1', [value])
        merged = store("db", "merge", "other.db", "--db", f"{number}.db")
        assert "Traceback" not in merged.stderr, f"{said}: {merged.stderr}"
        assert merged.returncode in (0, 1, 2), said
        assert merged.returncode or list(check(f"{number}.db")) == [], said


def _mutated(path: Path, num: int, seed: int) -> list[tuple[str, str]]:
    """Texts of the file, and what is wrong with each; of lines the last one."""
    *before, last = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    found = sampled(json.loads(last), num, seed)
    return [
        ("".join(f"{line}\n" for line in [*before, as_json(mutation.value)]), str(mutation))
        for mutation in found
    ]


def _copied(swept: Path, path: Path) -> list[Path]:
    """Another sweep of the same attempts, with the folder's name: their folders."""
    shutil.copytree(swept, path)
    reported = json.loads((swept / "sweep.json").read_text())
    uid = sweep_uid(path.name, datetime.fromisoformat(reported["started_at"]), reported["command"])
    for file in [path / "sweep.json", *path.glob("*/attempt.json")]:
        file.write_text(
            file.read_text()
            .replace(reported["uid"], uid)
            .replace(json.dumps(reported["name"]), json.dumps(path.name))
        )
    return sorted(path.glob("trivial-*"))


def _left_unrecorded() -> Path:
    """The run folder of an attempt that completed after its sweep was killed."""
    with (
        Path("sweep.log").open("wb") as log,
        subprocess.Popen([*SWEEP, "seed=907"], stdout=log, stderr=log) as process,
    ):
        sweep = Watched(process, Path("results.db").resolve())
        while sweep.phase() is not Phase.RUNNING:
            assert sweep.is_alive, Path("sweep.log").read_text()
            time.sleep(0.01)
        sweep.freeze()
        found = sweep.trainer()
        assert found, Path("sweep.log").read_text()
        pid, run_dir = found
        Path("go").touch()
        while state_of(pid) not in ("Z", ""):
            time.sleep(0.01)
        process.kill()
    assert (run_dir / "result.json").exists()
    return run_dir
