"""Databases of earlier versions go on being used: their sweeps have states, and can be continued."""

import json
import multiprocessing
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path

import filelock
import pytest

from scalemark.records.outcomes import Outcome
from scalemark.records.placement import Placement
from scalemark.records.sweep import sweep_uid
from scalemark.records.trial import TrialSpec
from store import engine
from store.checks.every import check
from store.database import locate, open_for_reading
from store.errors import StoreError
from store.reading import queries
from store.reading.show import show
from store.sweeps.ledger import Claim
from store.upgrade import head_revision
from store.writer import Writer
from tests.filled import MACHINE, NOON, PLACEMENT, SOFTWARE_KEY, attempt, begin, fill
from tests.specs import small

DATABASES = Path(__file__).parent / "databases"
REVISIONS = ("0001", "0002", "0003", "0004", "0005")
PACKED = Placement(
    start="fork",
    devices=(0, 1),
    visible_devices="",
    cores=(0, 1),
    shares_host=True,
    host_memory_bytes=2**31,
)
ONE, TWO = small().trial_id, small(num_gpus=2).trial_id  # what is in these databases


def of_version(revision: str) -> None:
    shutil.copy(DATABASES / f"{revision}.db", "r.db")


def repeats() -> list[tuple[object, ...]]:
    sql = "SELECT trial_id, repeat, state, num_attempts, orchestrator_id, pid, run_dir FROM repeats ORDER BY id"
    return [tuple(row.values()) for row in queries.rows(open_for_reading("r.db"), sql)]


@pytest.mark.parametrize(
    ("revision", "found"),
    [
        ("0001", [(ONE, 1, "completed", 1), (TWO, 1, "failed", 1)]),
        ("0002", [(ONE, 1, "completed", 1), (ONE, 2, "completed", 1), (TWO, 1, "failed", 1)]),
    ],
)
def test_repeats_of_earlier_versions_have_the_state_of_their_last_attempt(revision, found):
    of_version(revision)
    Writer("r.db").close()
    assert repeats() == [(*row, None, None, None) for row in found]
    started = queries.rows(
        open_for_reading("r.db"), "SELECT start, cores, shares_host FROM placements"
    )
    assert started == [{"start": "spawn", "cores": "", "shares_host": 0}]


def test_a_repeat_that_was_tried_again_counts_its_attempts_and_has_the_last_outcome():
    of_version("0002")
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute(
            "INSERT INTO attempts (sweep_id, trial_id, machine_id, repeat, attempt, outcome, message, exit_code, visible_devices, run_dir, started_at, duration_s)"
            " SELECT sweep_id, trial_id, machine_id, repeat, 2, 'interrupted', '', -2, '', '/runs/y', started_at, 1.0 FROM attempts WHERE outcome = 'failed'"
        )
    Writer("r.db").close()
    assert repeats()[-1][:4] == (TWO, 1, "interrupted", 2)


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_a_sweep_of_an_earlier_version_is_continued_under_its_name(revision):
    of_version(revision)
    writer = Writer("r.db")
    done = queries.num_completed(writer.engine, MACHINE.key, SOFTWARE_KEY)
    ledger = begin(writer, {small(): 2 - done[ONE], small(num_gpus=2): 2}, wanted_repeats=2)
    opened = [
        (repeat.trial_id, repeat.repeat, repeat.num_attempts) for repeat in ledger.open_repeats()
    ]
    of_one = [(ONE, 2, 0)] if revision == "0001" else []
    assert opened == [*of_one, (TWO, 1, 1), (TWO, 2, 0)]
    failed = ledger.open_repeats()[-2]
    assert ledger.claim(failed, NOON) is Claim.TAKEN
    number = ledger.run(failed, "/runs/z", PLACEMENT, NOON)
    ledger.finish(failed.repeat_id, attempt(small(num_gpus=2), 70.0, number=number), NOON)
    writer.close()
    outcomes = [row["outcome"] for row in show(open_for_reading("r.db"), TWO)["attempts"]]
    assert outcomes == [Outcome.FAILED, Outcome.COMPLETED]


@pytest.mark.integration
@pytest.mark.parametrize(
    "make",
    [lambda: None, *(lambda revision=revision: of_version(revision) for revision in REVISIONS)],
    ids=["new", *REVISIONS],
)
def test_processes_that_open_a_database_at_once_make_or_upgrade_it_once(make: Callable[[], None]):
    make()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.test_orchestrators_at_once"])
    barrier = context.Barrier(6)
    processes = [context.Process(target=_open, args=(barrier,)) for _ in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 6
    with closing(sqlite3.connect("r.db")) as connection:
        assert connection.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert list(check("r.db")) == []
    assert len(list(Path().glob("r.db.schema-*"))) <= 1


def _open(barrier: Barrier) -> None:
    barrier.wait()
    Writer("r.db").close()


def test_a_database_that_an_older_version_is_writing_to_is_left_alone(monkeypatch):
    """Before schema 0003 the one writer held this lock as long as its sweep ran."""
    of_version("0002")
    monkeypatch.setattr(engine, "BUSY_TIMEOUT_S", 0.01)
    with (
        filelock.FileLock("r.db.lock"),
        pytest.raises(
            StoreError,
            match=r"^r\.db: another process is upgrading it, or an older scalemark is writing to it; wait",
        ),
    ):
        Writer("r.db")
    with pytest.raises(StoreError, match="its schema is 0002"):
        open_for_reading("r.db")


Rows = list[dict[str, object]]


def old(sql: str, path: str = "r.db") -> Rows:
    """As the file itself has it, without anything of ours between."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(sql)]


def everything(path: str) -> dict[str, Rows]:
    tables = old("SELECT name FROM sqlite_master WHERE type = 'table'", path)
    return {str(table["name"]): old(f"SELECT * FROM {table['name']}", path) for table in tables}


@pytest.mark.integration
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_upgrade_keeps_the_old_file_beside_it_and_every_table_that_stayed_as_it_was(
    revision, capfd
):
    of_version(revision)
    before = everything("r.db")
    Writer("r.db").close()
    assert (
        capfd.readouterr().err
        == f"store: r.db was upgraded from schema {revision} to {head_revision()}; as it was: r.db.schema-{revision}.backup\n"
    )
    assert everything(f"r.db.schema-{revision}.backup") == before
    after = everything("r.db")
    moved = {"alembic_version", "step_samples", "events"}  # looked at below
    for table, rows in before.items():
        if table in moved:
            continue
        assert len(after[table]) >= len(rows)
        kept = (rows[0].keys() & after[table][0].keys()) if rows else set()
        for row, now in zip(rows, after[table], strict=False):
            ended = table == "repeats" and now["state"] not in ("claimed", "running")
            in_flight_only = (
                {"started_at", "run_dir", "placement", "pid", "start_ticks"} if ended else set()
            )
            assert {name: row[name] for name in kept - in_flight_only} == {
                name: now[name] for name in kept - in_flight_only
            }
    assert list(check("r.db")) == []


@pytest.mark.parametrize("revision", REVISIONS[:3])
def test_what_an_upgrade_moves_elsewhere_is_still_told(revision):
    of_version(revision)
    steps = old("SELECT * FROM step_samples ORDER BY attempt_id, step")
    placements = old(
        "SELECT attempts.id, measurements.op_placement FROM attempts JOIN measurements ON attempt_id = attempts.id ORDER BY 1"
    )
    attempts = old("SELECT * FROM attempts ORDER BY id")
    machines = old("SELECT id, gpus FROM machines ORDER BY id")
    Writer("r.db").close()
    found = old("SELECT * FROM step_samples ORDER BY attempt_id, step")
    assert len(found) == len(steps) > 0
    for now, was in zip(found, steps, strict=True):
        assert {name: now[name] for name in ("attempt_id", "step", "phase")} == {
            name: was[name] for name in ("attempt_id", "step", "phase")
        }
        assert now["num_steps"] == was.get("num_steps", 1)
        for name in ("start_s", "duration_s", "data_wait_s"):
            assert now[name] == pytest.approx(was[name], abs=0.6e-6)
        assert now["loss"] == pytest.approx(was["loss"], rel=1e-4)
    described = "SELECT attempt_id AS id, description AS op_placement FROM measurements JOIN op_placements ON op_placements.id = op_placement_id ORDER BY 1"
    told = [(row["id"], json.loads(str(row["op_placement"]))) for row in old(described)]
    assert told == [(row["id"], json.loads(str(row["op_placement"]))) for row in placements]
    joined = "SELECT attempts.*, start, visible_devices, cores, placements.shares_host AS placed_beside FROM attempts JOIN placements ON placements.id = placement_id ORDER BY attempts.id"
    for now, was in zip(old(joined), attempts, strict=True):
        assert (now["start"], now["visible_devices"], now["cores"]) == (
            was.get("start", "spawn"),
            was["visible_devices"],
            was.get("cores", ""),
        )
        assert now["shares_host"] == now["placed_beside"] == was.get("shares_host", 0)
        assert now["deleted_at"] is None
    for machine in machines:
        gpus = old(f"SELECT * FROM gpus WHERE machine_id = {machine['id']} ORDER BY position")
        wanted = json.loads(str(machine["gpus"]))
        assert len(gpus) == len(wanted)
        for now, was in zip(gpus, wanted, strict=True):
            told_of_gpu = {
                **now,
                "cores": [int(core) for core in str(now["cores"]).split(",") if core],
            }
            assert (
                told_of_gpu.items()
                >= {
                    name: value
                    for name, value in was.items()
                    if name not in ("mig_devices", "cores")
                }.items()
            )
            assert told_of_gpu["cores"] == list(was.get("cores", ()))


def test_what_was_measured_by_earlier_versions_is_no_simulation_and_nothing_was_planted():
    of_version("0004")
    Writer("r.db").close()
    assert {row["planted"] for row in old("SELECT planted FROM trials")} == {""}
    assert {row["hardware_profile"] for row in old("SELECT hardware_profile FROM machines")} == {""}
    assert {row["truth"] for row in old("SELECT truth FROM measurements")} == {None}
    assert len(old("SELECT * FROM throughput")) == 5
    assert len(old("SELECT * FROM scaling")) == 3
    assert old("SELECT * FROM simulated_throughput") == old("SELECT * FROM simulated_scaling") == []


def test_what_ran_before_sweeps_were_shared_ran_on_one_host_and_is_known_by_its_old_keys():
    of_version("0005")
    before = {table: old(f"SELECT id, key FROM {table}") for table in ("placements", "machines")}
    views = {
        view: old(f"SELECT * FROM {view}")
        for view in ("throughput", "scaling", "simulated_throughput", "simulated_scaling")
    }
    Writer("r.db").close()
    assert {table: old(f"SELECT id, key FROM {table}") for table in before} == before
    assert {view: old(f"SELECT * FROM {view}") for view in views} == views
    assert all(views.values())
    assert {tuple(row.values()) for row in old("SELECT hosts, rank_start FROM placements")} == {
        ("", "")
    }
    for column, table, value in (
        ("settings", "sweeps", None),
        ("note", "orchestrators", ""),
        ("turn", "repeats", None),
        ("pool", "machines", ""),
        ("link_bytes_per_s", "measurements", None),
    ):
        assert {row[column] for row in old(f"SELECT {column} FROM {table}")} == {value}
    fill("r.db", [(small(), 62.0)], name="again", details=[{"placement": PACKED}])
    assert (
        old("SELECT id, key FROM placements") == before["placements"]
    )  # the same one is still found
    assert list(check("r.db")) == []


def test_events_of_schema_0003_keep_their_order_and_their_times():
    of_version("0003")
    before = old("SELECT * FROM events ORDER BY repeat_id, id")
    Writer("r.db").close()
    after = old("SELECT * FROM state_changes ORDER BY repeat_id, number")
    assert len(after) == len(before) > 10
    same = ("repeat_id", "attempt", "state", "detail", "at")
    assert [{name: row[name] for name in same} for row in after] == [
        {name: row[name] for name in same} for row in before
    ]
    numbers = [row["number"] for row in after if row["repeat_id"] == after[0]["repeat_id"]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_fixture_of_schema_0003_has_what_these_tests_are_about():
    of_version("0003")
    assert {row["name"] for row in old("SELECT name FROM sweeps")} == {"first", "strong", "killed"}
    assert max(len(json.loads(str(row["gpus"]))) for row in old("SELECT gpus FROM machines")) == 2
    (running,) = old("SELECT * FROM repeats WHERE state = 'running'")
    assert running["placement"] is not None
    Writer("r.db").close()
    (now,) = old("SELECT * FROM repeats WHERE state = 'running'")
    assert now == running | {"turn": None}


@pytest.mark.parametrize("revision", REVISIONS)
def test_identities_made_by_an_upgrade_are_those_that_the_records_give(revision):
    of_version(revision)
    Writer("r.db").close()
    trials = old("SELECT id, spec, curve FROM trials")
    assert trials
    for row in trials:
        spec = TrialSpec.from_json(str(row["spec"]))
        assert (spec.trial_id, spec.curve) == (row["id"], row["curve"])
    sweeps = queries.rows(
        open_for_reading("r.db"), "SELECT uid, name, started_at, command FROM sweeps"
    )
    assert sweeps
    for row in sweeps:
        at = datetime.fromisoformat(row["started_at"]).replace(tzinfo=UTC)
        assert row["uid"] == sweep_uid(row["name"], at, row["command"])


def test_curves_of_schema_0003_hold_trials_of_weak_and_of_strong_scaling_together():
    of_version("0003")
    Writer("r.db").close()
    found = {
        tuple(str(row["num"]).split(","))
        for row in old(
            "SELECT group_concat(num_gpus) AS num FROM (SELECT * FROM trials ORDER BY num_gpus) GROUP BY curve"
        )
    }
    assert ("1", "2", "4") in found


def test_attempts_that_were_started_differently_keep_how():
    of_version("0003")
    told = [
        ("fork", "GPU-1", "0,1", 0),
        ("fork", "GPU-1", "2,3", 0),
        ("fork", "GPU-2", "2,3", 0),
        ("spawn", "GPU-2", "2,3", 0),
        ("spawn", "GPU-2", "2,3", 1),
    ]
    with closing(sqlite3.connect("r.db")) as connection, connection:
        for attempt_id, values in enumerate(told, 1):
            connection.execute(
                "UPDATE attempts SET start = ?, visible_devices = ?, cores = ?, shares_host = ? WHERE id = ?",
                (*values, attempt_id),
            )
    Writer("r.db").close()
    found = old(
        "SELECT start, visible_devices, cores, placements.shares_host FROM attempts JOIN placements ON placements.id = placement_id ORDER BY attempts.id"
    )
    assert [tuple(row.values()) for row in found] == told
    assert list(check("r.db")) == []


@pytest.mark.integration
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            "DELETE FROM step_samples WHERE attempt_id = 1 AND step = 1",
            r"attempt 1: its steps cannot be kept: step 2 is not the one after",
        ),
        (
            "UPDATE measurements SET images_per_second = 9e999 WHERE attempt_id = 2",
            "images/s of attempt 2 is not a finite number",
        ),
    ],
)
def test_what_an_upgrade_cannot_keep_is_told_and_nothing_is_changed(damage, message):
    of_version("0003")
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute(damage)
    with pytest.raises(StoreError, match=message) as caught:
        Writer("r.db")
    assert locate("r.db").revision() == "0003"
    assert not list(Path().glob("*.backup"))
    mend = str(caught.value).split("`")[1]
    with closing(sqlite3.connect("r.db")) as connection, connection:
        connection.execute(mend)
    Writer("r.db").close()
