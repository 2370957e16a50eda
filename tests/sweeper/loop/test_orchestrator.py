"""Real processes, a real database: what is planned is run as the policy says, and every state is written down."""

import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from scalemark.host import software
from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from scalemark.records.attempt import SweepRecord
from scalemark.records.measurement import AttemptResult, Doing, Outcome, State
from scalemark.run_folder import RunFolder
from store.database import open_for_reading
from store.ledger import OpenRepeat
from store.reading import queries
from sweeper.devices.host_lock import HostLock
from sweeper.loop.attempt import Judged
from sweeper.loop.run_folders import recover, write_end
from sweeper.loop.supervision import Stop, Tools
from tests import tiny_trainer
from tests.filled import NOON, PLACEMENT, attempt
from tests.slurm import until
from tests.specs import small
from tests.sweeper.processes import PATIENCE_S, has_begun
from tests.sweeper.world import World, rows

pytestmark = pytest.mark.integration

ORCHESTRATOR = 4194305  # more than Linux gives


def test_an_attempt_is_written_down(stack):
    world = World(stack, [small(seed=1)])
    assert world.run() == {State.COMPLETED: 1}
    assert rows("SELECT state, num_attempts FROM repeats") == [("completed", 1)]
    assert rows(
        "SELECT outcome, start, attempts.shares_host, exit_code FROM attempts JOIN placements ON placements.id = placement_id"
    ) == [("completed", "fork", 0, 0)]
    assert rows("SELECT finished_at IS NULL FROM sweeps") == [(0,)]
    assert rows("SELECT ended_at IS NULL FROM orchestrators") == [(0,)]
    assert rows("SELECT count(*) FROM step_samples") == [(3,)]


def test_side_by_side_no_slot_is_given_twice(stack):
    specs = [small(seed=seed, num_gpus=num) for seed in range(1, 6) for num in (1, 2, 4, 8)]
    world = World(stack, specs, launcher={"share_host": True})
    assert world.run() == {State.COMPLETED: 20}
    assert rows("SELECT DISTINCT shares_host FROM attempts") == [(1,)]
    folders = [RunFolder(path.parent) for path in Path("runs").glob("*/*/trial.json")]
    assert len(folders) == 20
    for one, other in itertools.permutations(folders, 2):
        share = set(one.read_ended().placement.devices) & set(other.read_ended().placement.devices)
        if share and one.read_attempt().started_at <= other.read_attempt().started_at:
            assert one.read_ended().ended_at <= other.read_attempt().started_at


def test_what_a_killed_orchestrator_left_is_recorded_or_run_again(stack):
    """As if it had been killed: what runs is closed by the next, from its run folder where it had finished."""
    specs = [small(seed=1), small(seed=2)]
    tools = World(stack, specs).tools
    done, not_done = tools.ledger.open_repeats()
    for repeat in (done, not_done):
        folder = _begin(tools, repeat, str(repeat.repeat_id))
        if repeat is done:
            assert tiny_trainer.main(small(seed=1), folder) == 0
    _kill_orchestrator()
    recovered = recover(tools.ledger.engine)
    assert (recovered.num_orchestrators, recovered.num_completed, recovered.num_interrupted) == (
        1,
        1,
        1,
    )
    assert rows("SELECT outcome, exit_code, duration_s FROM attempts ORDER BY id") == [
        ("completed", None, None),
        ("interrupted", None, None),
    ]
    assert rows("SELECT state FROM repeats ORDER BY id") == [("completed",), ("pending",)]
    assert rows("SELECT count(*) FROM step_samples") == [(3,)]
    assert recover(tools.ledger.engine) is None
    assert World(stack, specs, name="again").run() == {State.COMPLETED: 1}


def test_it_waits_for_a_sweep_of_another_database_that_has_the_host(stack):
    held = HostLock().try_hold(shares_host=False)
    world = World(stack, [small(seed=1)])
    reported = _when_reported(world, "waiting: ", held.close)
    assert world.run() == {State.COMPLETED: 1}
    assert reported[0].startswith(f"waiting: process {os.getpid()} ")


def test_what_ran_side_by_side_is_not_enough_for_a_sweep_of_one_at_a_time(stack):
    shared = {"share_host": True}
    assert World(stack, [small(seed=1)], name="shared", launcher=shared).run() == {
        State.COMPLETED: 1
    }
    assert World(stack, [small(seed=1)], name="alone").run() == {State.COMPLETED: 1}
    assert World(stack, [small(seed=1)], name="shared again", launcher=shared).run() == {}


def test_a_database_that_is_locked_for_a_while_ends_nothing(stack, monkeypatch):
    monkeypatch.setattr("store.sqlite.BUSY_TIMEOUT_S", 0.1)
    monkeypatch.setattr("sweeper.loop.supervision.BEAT_EVERY_S", 0.2)
    world = World(stack, [small(seed=903)])
    other = sqlite3.connect("results.db", isolation_level=None)

    num_tries, beat = 0, world.tools.ledger.beat

    def beat_and_unlock(at: datetime) -> None:
        nonlocal num_tries
        num_tries += 1
        if num_tries == 3:
            other.execute("ROLLBACK")
            world.stop.ask(1)
        beat(at)

    def lock() -> None:
        other.execute("BEGIN IMMEDIATE")
        world.tools.ledger.beat = beat_and_unlock  # type: ignore[method-assign]

    reported = _when_reported(world, "results.db: ", lambda: None)
    _when_started(world, lock)
    assert world.run() == {State.INTERRUPTED: 1}
    assert world.orchestrator.failure is None
    (text,) = reported
    assert "database is locked; another program kept it so" in text
    other.close()


def test_what_could_not_be_recorded_is_recorded_by_the_next_command(stack, monkeypatch):
    monkeypatch.setattr("store.sqlite.BUSY_TIMEOUT_S", 0.1)
    world = World(stack, [small(seed=1)])
    other = sqlite3.connect("results.db", isolation_level=None)
    _when_started(world, lambda: other.execute("BEGIN IMMEDIATE"))
    assert world.run() == {}
    assert "database is locked" in str(world.orchestrator.failure)
    other.close()
    assert rows("SELECT state FROM repeats") == [("running",)]
    _kill_orchestrator()
    recovered = recover(world.tools.ledger.engine)
    assert recovered.num_completed == 1
    assert "; 1 attempt had finished, and is recorded" in str(recovered)
    ((outcome, exit_code, duration_s, run_dir),) = rows(
        "SELECT outcome, exit_code, duration_s, sweeps.run_dir || '/' || attempts.run_dir "
        "FROM attempts JOIN sweeps ON sweeps.id = sweep_id"
    )
    assert (outcome, exit_code) == ("completed", 0)
    assert duration_s == RunFolder(Path(run_dir)).read_ended().duration_s


def test_while_it_waits_for_another_sweep_and_is_asked_to_stop_it_sleeps(stack):
    """What waits is not asked for again and again once nothing is started any more."""
    ticks = []

    def clock() -> float:
        ticks.append(1)
        return time.monotonic()

    other = World(stack, [small(seed=1)], name="other").tools.ledger
    other.claim(other.open_repeats()[0])  # and it never comes to an end
    world = World(
        stack,
        [small(seed=1), small(seed=904)],
        clock=clock,
        launcher={"grace_s": 60.0},
    )
    _when_running(
        lambda: (
            os.kill(os.getpid(), signal.SIGINT),
            time.sleep(2),
            os.kill(os.getpid(), signal.SIGINT),
        ),
    )
    assert world.run() == {State.INTERRUPTED: 1}
    assert world.orchestrator.num_left == 1
    assert len(ticks) < 500


def test_what_a_damaged_folder_holds_is_run_again(stack):
    tools = World(stack, [small(seed=1)]).tools
    (repeat,) = tools.ledger.open_repeats()
    _begin(tools, repeat, "x").result.write_text("")
    _kill_orchestrator()
    assert "; 1 attempt had not finished: its command runs what is missing" in str(
        recover(tools.ledger.engine)
    )
    ((message,),) = rows("SELECT message FROM attempts")
    assert message.startswith("its orchestrator was killed, and what it left cannot be read: ")


def test_what_a_killed_orchestrator_left_running_is_killed(stack):
    tools = World(stack, [small(seed=1)]).tools
    (repeat,) = tools.ledger.open_repeats()
    tools.ledger.claim(repeat)
    tools.ledger.run(repeat, "/nowhere", PLACEMENT, NOON)
    marked = {**os.environ, ORCHESTRATOR_VARIABLE: str(ORCHESTRATOR)}
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with (
        subprocess.Popen(sleep, env=marked, process_group=0) as left,
        subprocess.Popen(sleep, process_group=left.pid) as stranger,
    ):
        until(lambda: has_begun(left.pid) and has_begun(stranger.pid))
        tools.ledger.started(repeat.repeat_id, left.pid, 1)
        _kill_orchestrator()
        recover(tools.ledger.engine)
        assert left.wait(PATIENCE_S) == -signal.SIGKILL
        assert stranger.poll() is None
        stranger.kill()


def test_ranks_that_a_killed_orchestrator_left_are_killed(stack):
    """They lead sessions of their own. Forked ones show the environment of their orchestrator's child, spawned ones their own."""
    tools = World(stack, [small(seed=1)]).tools
    (repeat,) = tools.ledger.open_repeats()
    folder = _begin(tools, repeat, "x").path
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    trainer, of_another = 4194304, 4194303
    with ExitStack() as processes:
        started = []
        for pid in (trainer, ORCHESTRATOR, of_another):
            marked = {**os.environ, ORCHESTRATOR_VARIABLE: str(pid)}
            process = subprocess.Popen(sleep, env=marked, cwd=folder, start_new_session=True)
            started.append(processes.enter_context(process))
            processes.callback(process.kill)
        *left, left_alone = started
        until(lambda: all(has_begun(process.pid) for process in started))
        tools.ledger.started(repeat.repeat_id, trainer, 1)
        _kill_orchestrator()
        recover(tools.ledger.engine)
        assert [process.wait(PATIENCE_S) for process in left] == [-signal.SIGKILL] * 2
        assert left_alone.poll() is None


@pytest.mark.parametrize(
    ("signals", "times"),
    [("INT", 1), ("HUP HUP", 1), ("TERM HUP", 1), ("TERM INT", 2), ("INT INT", 2)],
)
def test_only_ctrl_c_is_a_second_request_to_stop(signals, times):
    stop = Stop()
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup, which would let it be ignored
    try:
        with stop.listening():
            for name in signals.split():
                os.kill(os.getpid(), signal.Signals[f"SIG{name}"])
    finally:
        signal.signal(signal.SIGHUP, before)
    assert stop.times_asked == times


def _kill_orchestrator() -> None:
    """Have it look killed."""
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE orchestrators SET pid = ?", [ORCHESTRATOR])


def _begin(tools: Tools, repeat: OpenRepeat, name: str) -> RunFolder:
    """Write down that an attempt runs in this folder, as if it had been started."""
    tools.ledger.claim(repeat)
    folder = RunFolder(Path("runs").resolve() / name)
    folder.path.mkdir()
    tools.ledger.run(repeat, str(folder.path), PLACEMENT, NOON)
    return folder


def _when_running(then) -> None:
    """Call it from another thread once an attempt says that it takes steps."""

    def wait() -> None:
        while not any(
            Doing.STEPPING in path.read_text() for path in Path("runs").glob("*/*/doing.txt")
        ):
            time.sleep(0.01)
        then()

    threading.Thread(target=wait, daemon=True).start()


def _when_started(world: World, then: Callable[[], object]) -> None:
    """Call it as soon as an attempt has been started, before anything else is done."""
    started = world.tools.ledger.started

    def started_then(*reported: int) -> None:
        started(*reported)
        then()

    world.tools.ledger.started = started_then  # type: ignore[method-assign]


def _when_reported(world: World, begins: str, then: Callable[[], object]) -> list[str]:
    """Call it each time that people are reported what begins so. Gives all that they were reported of it."""
    reported = []

    def note(text: str) -> None:
        if text.startswith(begins):
            reported.append(text)
            then()

    world.tools.progress.note = note  # type: ignore[method-assign]
    return reported


def test_run_folders_have_all_columns_of_attempts(stack):
    seeds = (1, 900, 901, 902, 903, 904)
    world = World(
        stack,
        [small(seed=seed, batch_size=8) for seed in seeds],
        launcher={"timeout_s": 4},
        name="all",
    )
    assert world.run().total() == len(seeds)
    database = open_for_reading("results.db")
    stored = queries.rows(
        database,
        "SELECT attempts.*, sweeps.run_dir || '/' || attempts.run_dir AS run_dir, visible_devices, start, cores, description "
        "FROM attempts JOIN sweeps ON sweeps.id = sweep_id JOIN placements ON placements.id = placement_id "
        "LEFT JOIN environments ON environments.id = environment_id",
    )
    assert {row["outcome"] for row in stored} == {
        "completed",
        "failed",
        "out_of_memory",
        "timed_out",
    }
    sweep = SweepRecord.from_json(Path("runs/all/sweep.json").read_text())
    for row in stored:
        folder = RunFolder(Path(row["run_dir"]))
        begin, end = folder.read_attempt(), folder.read_ended()
        result, placement = end.result or folder.read_result(), end.placement
        assert (end.result is None) == (
            folder.result.exists() and row["outcome"] == folder.read_result().outcome
        )
        assert row == {
            "id": row["id"],
            "sweep_id": 1,
            "machine_id": 1,
            "environment_id": row["environment_id"],
            "placement_id": row["placement_id"],
            "deleted_at": None,
            "trial_id": begin.trial_id,
            "repeat": begin.repeat,
            "attempt": begin.attempt,
            "outcome": result.outcome,
            "message": result.message,
            "exit_code": end.exit_code,
            "visible_devices": placement.visible_devices,
            "start": placement.start,
            "cores": ",".join(map(str, placement.cores)),
            "shares_host": placement.shares_host,
            "run_dir": str(folder.path),
            "started_at": begin.started_at.strftime("%Y-%m-%d %H:%M:%S.%f"),
            "duration_s": end.duration_s,
            "description": row["description"],
        }
        assert json.loads(row["description"] or "null") == folder.read_environment()
        assert (begin.sweep_uid, begin.software_key) == (
            sweep.uid,
            software.key(software.describe()),
        )
        assert (end.outcome, end.message) == (result.outcome, result.message)


def test_a_reported_end_that_was_not_recorded_is_recorded(stack):
    """Its orchestrator was killed between the two."""
    tools = World(stack, [small(seed=1), small(seed=2)]).tools
    for repeat in tools.ledger.open_repeats():
        folder = _begin(tools, repeat, str(repeat.repeat_id))
        spec = small(seed=repeat.repeat_id)
        assert tiny_trainer.main(spec, folder) == 0
        finished = replace(
            attempt(spec, 100.0 if spec.seed == 1 else None, outcome=Outcome.HUNG),
            exit_code=-9,
            duration_s=7.5,
        )
        write_end(folder, replace(finished, placement=replace(PLACEMENT, start="fork")), NOON)
    _kill_orchestrator()
    assert recover(tools.ledger.engine).num_completed == 2
    reported = "SELECT outcome, message, start, exit_code, duration_s, environment_id FROM attempts JOIN placements ON placements.id = placement_id ORDER BY attempts.id"
    assert rows(reported) == [
        ("completed", "", "fork", -9, 7.5, 1),
        ("hung", "it broke", "fork", -9, 7.5, 1),
    ]
    assert rows("SELECT count(*) FROM step_samples") == [(3,)]


def test_the_end_of_a_killed_orchestrators_attempt_is_in_its_folder(stack):
    tools = World(stack, [small(seed=1)]).tools
    (repeat,) = tools.ledger.open_repeats()
    folder = _begin(tools, repeat, "x")
    _kill_orchestrator()
    assert "; 1 attempt had not finished: its command runs what is missing" in str(
        recover(tools.ledger.engine)
    )
    end = folder.read_ended()
    assert (end.exit_code, end.duration_s, end.placement, end.outcome) == (
        None,
        None,
        PLACEMENT,
        "interrupted",
    )
    assert rows("SELECT outcome, message FROM attempts") == [(end.outcome, end.message)]


def test_a_full_disk_ends_the_sweep_and_keeps_the_result(stack):
    world = World(stack, [small(seed=905), small(seed=1)])
    _when_started(
        world,
        lambda: [
            path.with_name("ended.draft").mkdir() for path in Path("runs").glob("*/*/trial.json")
        ],
    )
    assert world.run() == {}
    assert "make room or choose another folder with store.runs_dir=" in str(
        world.orchestrator.failure
    )
    assert rows("SELECT count(*) FROM attempts") == [(0,)]
    (draft,) = Path("runs").glob("*/*/ended.draft")
    draft.rmdir()
    _kill_orchestrator()
    recovered = recover(world.tools.ledger.engine)
    assert recovered.num_completed == 1
    assert "; 1 attempt had finished, and is recorded" in str(recovered)


def test_a_secret_in_a_message_is_neither_stored_nor_reported(stack, capsys, monkeypatch):
    monkeypatch.setattr("sweeper.loop.orchestrator.judge", _judge_with_a_secret)
    assert World(stack, [small(seed=901)]).run() == {State.FAILED: 1}
    ((message, run_dir),) = rows(
        "SELECT message, sweeps.run_dir || '/' || attempts.run_dir "
        "FROM attempts JOIN sweeps ON sweeps.id = sweep_id"
    )
    assert (
        message == RunFolder(Path(run_dir)).read_ended().message == "no postgresql://me:***@host/db"
    )
    assert "hidden" not in capsys.readouterr().err


def _judge_with_a_secret(*_: object) -> Judged:
    message = "no postgresql://me:hidden@host/db"
    return Judged(
        result=AttemptResult(outcome="failed", message=message),
        crashed=False,
    )
