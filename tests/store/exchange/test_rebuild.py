"""A lost database is made anew out of the run folders: equal, but for what they do not tell."""

import json
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from conf.schema import SweepConfig
from scalemark.records.attempt import sweep_uid
from scalemark.records.measurement import Outcome, State
from scalemark.run_folder import RunFolder
from store.checks import check
from store.errors import StoreError
from store.merge import merge
from store.rebuild import BEING_RUN, rebuild
from store.sqlite import copy_whole
from sweeper.grid.plan import make_plan
from sweeper.loop.run_folders import recover
from tests.filled import NOON, PLACEMENT, fill
from tests.ran import ran
from tests.specs import small
from tests.store.test_damaged_files import COMMANDS, run_app
from tests.sweeper.loop.test_orchestrator import World
from tests.tables import changing, contents

pytestmark = pytest.mark.integration

SPECS = [
    small(seed=1),
    small(seed=900),  # crashes at first
    small(seed=901),  # fails
    small(seed=902, batch_size=8),  # out of memory
    small(seed=904),  # hangs, and is killed
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("made")


@pytest.fixture
def lost(made: Path) -> dict[str, list[dict[str, Any]]]:
    """What was in the database of `runs`: a sweep with failures, retries, a killed attempt and left-out cells. Run once."""
    runs = Path("runs").resolve()
    if not (made / "runs").exists():
        with ExitStack() as stack:
            world = World(
                stack,
                SPECS,
                repeats=2,
                left_out=[("xla=on", "later"), ("model=x", "none such")],
                launcher={"step_timeout_s": 0.5},
            )
            assert world.run() == {
                State.COMPLETED: 4,
                State.FAILED: 2,
                State.OUT_OF_MEMORY: 2,
                State.HUNG: 2,
            }
        copy_whole(Path("results.db"), made / "night.db")
        reported = json.dumps(contents("results.db"), default=str)
        (made / "told.json").write_text(reported.replace(str(runs), "RUNS"))
        shutil.copytree("runs", made / "runs")
    else:
        shutil.copytree(made / "runs", "runs")
    found: dict[str, list[dict[str, Any]]] = json.loads(
        (made / "told.json").read_text().replace("RUNS", str(runs))
    )
    return found


def reported(url: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(json.dumps(contents(url), default=str))
    return found


def comparable(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[Any]]:
    """Without what run folders do not tell: when the sweep came to its end."""
    return tables | {"sweeps": [{**row, "finished_at": None} for row in tables["sweeps"]]}


def test_the_rebuilt_database_is_equal_to_the_lost_one(db, lost):
    rebuilt = rebuild(db, ["runs"])
    assert (rebuilt.num_sweeps, rebuilt.num_new, rebuilt.rejected, rebuilt.warnings) == (
        1,
        12,
        [],
        [],
    )
    assert comparable(reported(db)) == comparable(lost)
    assert {row["outcome"] for row in lost["attempts"]} == {
        Outcome.COMPLETED,
        Outcome.FAILED,
        Outcome.OUT_OF_MEMORY,
        Outcome.HUNG,
    }
    assert len(lost["left_out"]) == 2
    (sweep,) = reported(db)["sweeps"]
    folders = [RunFolder(path.parent) for path in Path("runs").glob("*/*/trial.json")]
    assert sweep["finished_at"] == str(max(folder.read_ended().ended_at for folder in folders))


PAGE_BYTES = 4096


def overwritten(begin: int, num_bytes: int, every: int) -> Callable[[Path], None]:
    """Put noise into the file: so many bytes from `begin` on, and again after each `every`."""

    def damage(path: Path) -> None:
        noise, content = random.Random(5), bytearray(path.read_bytes())
        for at in range(begin, len(content) - num_bytes, every):
            content[at : at + num_bytes] = noise.randbytes(num_bytes)
        path.write_bytes(content)

    return damage


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zero_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(5 * PAGE_BYTES)
        file.write(bytes(PAGE_BYTES))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut off": cut_off,
    "cut to nothing": lambda path: os.truncate(path, 0),
    "a page of zeros": zero_page,
    "noise in every page": overwritten(PAGE_BYTES + 200, 64, PAGE_BYTES),
    "noise in the header": overwritten(0, 100, 2**30),
    "all noise": overwritten(0, PAGE_BYTES, PAGE_BYTES),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_is_reported_then_restored_or_rebuilt(
    damage, lost, made, capsys, monkeypatch
):
    path = Path("results.db")
    shutil.copy(made / "night.db", path)
    before = reported("results.db")
    DAMAGES[damage](path)
    Path("in.csv").write_text("num_gpus,throughput\n1,5\n")
    shutil.copy(made / "night.db", "other.db")
    for name, arguments in COMMANDS.items():
        if name in ("import", "merge") and not (path.exists() and path.stat().st_size):
            continue  # it makes a database where there is none
        words = ["s" if word == "first" else word for word in arguments]  # the sweep's name
        ended = run_app(capsys, monkeypatch, *words, "--db", "results.db")
        said = ended.stdout + ended.stderr
        assert "Traceback" not in said
        assert ended.exit_code != 0 or name != "check"
        assert ended.exit_code == 0 or "results.db: " in said, (name, said)
    clear()
    shutil.copy(made / "night.db", path)
    assert list(check("results.db")) == []
    assert reported("results.db") == before
    clear()
    assert rebuild("results.db", ["runs"]).rejected == []
    assert list(check("results.db")) == []
    assert comparable(reported("results.db")) == comparable(lost)


def clear() -> None:
    """Move the database away, as every message about damage says."""
    for path in Path().glob("results.db*"):
        path.unlink()


def test_an_older_copy_takes_in_what_was_measured_since(lost, made):
    """A database that is restored from the backup of the night knows less than the run folders."""
    shutil.copy(made / "night.db", "results.db")
    with closing(sqlite3.connect("results.db")) as connection, connection:
        for table in ("step_arrays", "measurements"):
            connection.execute(f"DELETE FROM {table} WHERE attempt_id > 6")
        connection.execute("DELETE FROM attempts WHERE id > 6")
    rebuild("rebuilt.db", ["runs"])
    added = merge("results.db", ["rebuilt.db"])
    assert (added.num_new, added.num_known, added.rejected) == (6, 6, [])
    assert comparable(reported("results.db"))["measurements"] == lost["measurements"]
    assert list(check("results.db")) == []


def test_rebuilding_again_changes_nothing(db, lost):
    rebuild(db, ["runs"])
    before = contents(db)
    again = rebuild(db, ["runs", "runs/s"])
    assert (again.num_sweeps, again.num_new, again.num_known, again.rejected) == (1, 0, 12, [])
    assert contents(db) == before


def test_an_attempt_that_the_database_says_otherwise_is_named(lost):
    rebuild("r.db", ["runs"])
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute("UPDATE attempts SET outcome = 'failed' WHERE id = 1")
        (name,) = connection.execute("SELECT run_dir FROM attempts WHERE id = 1").fetchone()
    again = rebuild("r.db", ["runs"])
    folder = Path("runs/s").resolve() / name
    assert again.warnings == [
        f"{folder}: began or ended otherwise than the database says; what is in the database stays"
    ]


def test_an_attempt_of_a_repeat_in_flight_is_rejected(lost):
    """A bug: it was neither new, known nor rejected."""
    rebuild("r.db", ["runs"])
    with changing("r.db") as connection:
        for table in ("step_arrays", "measurements", "attempts"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
        connection.exec_driver_sql("UPDATE repeats SET state = 'running'")
    rebuilt = rebuild("r.db", ["runs"])
    assert rebuilt.num_new == 0
    assert {each.reason for each in rebuilt.rejected} == {BEING_RUN}
    assert len(rebuilt.rejected) == len(lost["attempts"])


def test_a_rebuilt_repeat_stands_where_its_last_attempt_left_it(db, lost):
    """What was measured since a backup was made is read into the backup itself."""
    rebuild(db, ["runs"])
    before = contents(db)
    with changing(db) as connection:
        for table in ("step_arrays", "measurements", "attempts"):
            connection.exec_driver_sql(f"DELETE FROM {table}")
        connection.exec_driver_sql("UPDATE repeats SET state = 'pending', num_attempts = 0")
    assert rebuild(db, ["runs"]).num_new == 12
    assert contents(db) == before


def test_a_database_that_is_not_lost_has_nothing_to_gain(lost):
    rebuild("one.db", ["runs"])
    rebuild("two.db", ["runs"])
    added = merge("one.db", ["two.db"])
    assert (added.num_new, added.num_known, added.rejected) == (0, 12, [])


def test_what_a_killed_orchestrator_left_running_is_interrupted_and_waits(stack):
    tools = World(stack, [small(seed=1)]).tools
    (repeat,) = tools.ledger.open_repeats()
    tools.ledger.claim(repeat)
    (trial,) = make_plan([small(seed=1)], [], SweepConfig(), {}).trials
    folder = tools.folders.make(trial, 1, 1, PLACEMENT, NOON)
    tools.ledger.run(repeat, str(folder.path), PLACEMENT, NOON)
    rebuild("before.db", ["runs"])
    with closing(sqlite3.connect("results.db")) as connection, connection:
        connection.execute("UPDATE orchestrators SET pid = 4194305")  # more than Linux gives
    assert recover(tools.ledger.engine).num_interrupted == 1
    rebuild("after.db", ["runs"])
    for name in ("before.db", "after.db"):
        found, wanted = comparable(reported(name)), comparable(reported("results.db"))
        assert [row["state"] for row in found["repeats"]] == ["pending"]
        assert found == wanted


def a_completed_one() -> Path:
    return next(
        path.parent
        for path in sorted(Path("runs").glob("*/*/result.json"))
        if '"completed"' in path.read_text()
    )


def damage(name: str, text: str | None) -> Callable[[], None]:
    def change() -> None:
        path = a_completed_one() / name
        if text is None:
            path.unlink()
        else:
            path.write_text(text)

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (damage("trial.json", "{"), "trial.json is damaged: JSONDecodeError: Expecting property name"),
        (damage("trial.json", "{}"), "trial.json is damaged: not a trial spec: missing all_reduce, batch_size, "),
        (damage("trial.json", small(seed=77).to_json()), "attempt.json is of trial "),
        (damage("machine.json", None), "machine.json is missing: it was made by hand, or is damaged"),
        (damage("machine.json", "[]"), "machine.json is damaged: "),
        (damage("result.json", '{"outcome": "compl'), "result.json is damaged: "),
        (damage("result.json", None), "result.json is missing, and the attempt was completed"),
        (damage("environment.json", "{}"), "environment.json is damaged: "),
        (damage("attempt.json", "[]"), "attempt.json is damaged: "),
        (damage("attempt.json", None), "attempt.json is missing: it was made by hand, or is damaged"),
        (damage("ended.json", "nonsense"), "ended.json is damaged: "),
        (damage("steps.jsonl", "{}\n"), "steps.jsonl is damaged: "),
        (damage("steps.jsonl", '{"step": 5, "phase": "measure", "start_s": 0, "duration_s": -1, "data_wait_s": 0, "loss": 1, "num_steps": 99}\n'), "steps.jsonl is damaged: step 5: duration_s=-1.0: wanted 0 to "),
        (damage("trial.json", "[" * 100_000), "trial.json is damaged: nested too deeply"),
        (damage("steps.jsonl", None), "steps.jsonl is cut off: it holds 0 measured steps, the measurement was made of 2"),
        (damage("trial.json", None), "trial.json: No such file or directory"),
    ],
)  # fmt: skip
def test_a_damaged_folder_is_rejected_and_the_rest_goes_on(db, lost, change, reason):
    folder = a_completed_one().resolve()
    change()
    rebuilt = rebuild(db, ["runs"])
    (rejected,) = rebuilt.rejected
    assert rejected.where == str(folder)
    assert rejected.reason.startswith(reason)
    assert rebuilt.num_new == 11


def hostile(change: Callable[[Path], object]) -> Path:
    folder = a_completed_one().resolve()
    change(folder)
    return folder


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda folder: change_json(folder / "attempt.json", attempt=None), "attempt.json is damaged: attempt=None: wanted a "),
        (lambda folder: change_json(folder / "attempt.json", repeat=-1), "attempt.json is damaged: repeat=-1: wanted 1 or more"),
        (lambda folder: change_json(folder / "attempt.json", started_at="0001-01-01T00:00:00+00:00"), "attempt.json is damaged: started_at=0001-"),
        (lambda folder: change_json(folder / "ended.json", duration_s=[]), "ended.json is damaged: duration_s=[]: wanted a number"),
        (lambda folder: change_json(folder / "placement.json", cores=3) or (folder / "ended.json").unlink(), "placement.json is damaged: cores=3"),
        (lambda folder: change_json(folder / "machine.json", num_cores="many"), "machine.json is damaged: num_cores=many: wanted a whole"),
        (lambda folder: change_json(folder / "result.json", measurement=None), "result.json: outcome=completed, measurement=null: "),
        (lambda folder: instead(folder / "steps.jsonl", os.mkfifo), "steps.jsonl: found a FIFO, wanted a regular file"),
        (lambda folder: instead(folder / "trial.json", os.mkfifo), "trial.json: found a FIFO, wanted a regular file"),
        (lambda folder: instead(folder / "steps.jsonl", lambda path: path.symlink_to("/dev/zero")), "steps.jsonl: found a link, wanted a regular file"),
        (lambda folder: instead(folder / "environment.json", lambda path: path.symlink_to(folder / "log.txt")), "environment.json: found a link, wanted"),
        (lambda folder: os.truncate(folder / "result.json", 2**26 + 1), "result.json: found more than 67108864 bytes, wanted no more"),
        (lambda folder: (folder / "machine.json").write_text('{"a":' * 100_000), "machine.json is damaged: nested too deeply"),
    ],
)  # fmt: skip
def test_a_hostile_folder_is_rejected_and_the_rest_goes_on(lost, change, reason):
    folder = hostile(change)
    rebuilt = rebuild("new.db", ["runs"])
    (rejected,) = rebuilt.rejected
    assert rejected.where == str(folder)
    assert rejected.reason.startswith(reason)
    assert rebuilt.num_new == 11


def change_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def instead(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


@pytest.mark.parametrize("files", [{}, {"trial.json": ""}, {"trial.json": "{}", "machine.json": "{}"}, {"trial.json": "{}", "machine.json": "{}", "placement.json": "{}", "attempt.json": ""}])  # fmt: skip
def test_an_attempt_that_never_began_is_named_and_is_none(lost, files):
    folder = a_completed_one().resolve()
    begun = folder.with_name(f"{folder.name}-2")
    begun.mkdir()
    for name, text in files.items():
        (begun / name).write_text(text)
    rebuilt = rebuild("new.db", ["runs"])
    assert rebuilt.warnings == [
        f"{begun}: never began: whoever made the folder was killed while doing so"
    ]
    assert (rebuilt.num_new, rebuilt.rejected) == (12, [])


def test_a_sweep_that_no_database_takes_is_rejected_and_the_next_goes_on(lost):
    shutil.copytree("runs/s", "runs/t")
    change_json(
        Path("runs/s/sweep.json"), reason="\ud800", trials=[{"position": "first", "spec": []}]
    )
    rebuilt = rebuild("new.db", ["runs"])
    (warning,) = rebuilt.warnings
    assert "runs/s/sweep.json: " in warning
    Path("runs/s").rename(os.fsdecode(b"runs/\xff"))
    rebuilt = rebuild("other.db", ["runs"])
    assert (rebuilt.num_sweeps, rebuilt.num_new) == (1, 12)
    assert "surrogates not allowed" in rebuilt.rejected[0].reason


@pytest.mark.parametrize("text", [None, "{", '{"name": 1}', "[]"])
def test_a_sweep_whose_own_file_is_damaged_is_known_from_its_attempts(db, lost, text):
    path = Path("runs/s/sweep.json")
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    rebuilt = rebuild(db, ["runs"])
    assert rebuilt.num_new == 12
    (warning,) = rebuilt.warnings
    assert warning.endswith("; of the sweep only what its attempts say is known")
    assert [(row["uid"], row["name"]) for row in contents(db)["sweeps"]] == [
        (lost["sweeps"][0]["uid"], "s")
    ]
    assert [finding for finding in check(db) if finding.table == "sweeps"] == []


def test_a_folder_that_was_begun_and_never_recorded_is_no_attempt(db, lost):
    folder = a_completed_one()
    twin = folder.with_name(f"{folder.name}-2")
    shutil.copytree(folder, twin)
    (twin / "ended.json").unlink()
    rebuilt = rebuild(db, ["runs"])
    assert rebuilt.warnings == [
        f"{twin.resolve()}: begun, and never recorded; {folder.name} is its attempt"
    ]
    assert comparable(reported(db)) == comparable(lost)


def test_a_trial_that_was_asked_for_and_never_begun_is_known(db, lost):
    for path in Path("runs/s").glob("*/"):
        shutil.rmtree(path)
    rebuild(db, ["runs/s"])
    found = reported(db)
    assert found["trials"] == lost["trials"]
    assert found["sweep_trials"] == lost["sweep_trials"]
    assert found["left_out"] == lost["left_out"]


def test_a_sweep_that_is_renamed_when_it_is_rebuilt_is_sound(lost):
    fill("new.db", [(small(seed=50), 50.0)], name="s")
    with changing("new.db") as connection:
        connection.execute(sa.text("UPDATE sweeps SET uid = 'aaaaaaaaaaaaaaaa', command = ''"))
    rebuild("new.db", ["runs"])
    renamed = contents("new.db")["sweeps"][1]
    assert (renamed["name"], renamed["uid"]) == ("s (2)", lost["sweeps"][0]["uid"])
    assert list(check("new.db")) == []
    assert merge("other.db", ["new.db"]).num_new == 13


def test_the_sweep_that_began_last_is_the_newest(lost):
    """A bug: it was the last by the name of its folder, and advice was of that."""
    Path("runs/a").mkdir()
    shutil.copy("runs/s/sweep.json", "runs/a")
    later = datetime(2099, 1, 1, tzinfo=UTC)
    head = {"name": "a", "command": "", "uid": sweep_uid("a", later, "")}
    change_json(Path("runs/a/sweep.json"), started_at=later.isoformat(), **head)
    assert rebuild("new.db", ["runs"]).warnings == []
    with closing(sqlite3.connect("new.db")) as connection:
        names = connection.execute("SELECT name FROM sweeps ORDER BY id").fetchall()
    assert names == [("s",), ("a",)]


def test_folders_without_sweeps_are_refused():
    Path("empty").mkdir()
    with pytest.raises(
        StoreError, match=r"^empty: no run folder in it; wanted one that holds sweeps"
    ):
        rebuild("r.db", ["empty"])
    with pytest.raises(StoreError, match=r"^missing: no such folder$"):
        rebuild("r.db", ["missing"])


def test_the_command_tells_what_it_found(lost):
    damage("result.json", "{")()
    ended = ran([sys.executable, "-m", "scalemark", "db", "rebuild", "runs", "--db", "new.db"])
    assert ended.returncode == 1
    assert ended.stdout == "1 sweep found\n11 attempts imported, 0 were there already\n"
    assert "result.json is damaged: " in ended.stderr
    assert "Traceback" not in ended.stderr
