"""Real processes, a real database: what is planned is run as the policy says, and every state is written down."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from conf.schema import LauncherConfig, OnFailure, OnInterrupt, RetryConfig, Start, SweepConfig
from store import queries, software
from store.database import open_for_reading
from store.records import ORCHESTRATOR_VARIABLE, DeviceKind, Outcome, Result, RunFolder, State, SweepRecord, TrialSpec
from store.sweep_record import read_sweep
from store.writer import NewSweep, Writer
from sweeper.attempt import Judged
from sweeper.host_lock import HostLock
from sweeper.machine import Inventory
from sweeper.orchestrator import Orchestrator, Policy, Tools
from sweeper.plan import make_plan
from sweeper.process_identity import is_alive, this_process
from sweeper.progress import Progress
from sweeper.recover import recover
from sweeper.run_folders import RunFolders, write_end
from sweeper.slots import Slots
from sweeper.starts import Fork
from sweeper.stop import Stop
from tests import tiny_trainer
from tests.filled import MACHINE, NOON, PLACEMENT, attempt
from tests.specs import small

EIGHT = Inventory(kind=DeviceKind.CPU_STAND_IN, gpus=(), num_devices=8)


class World:
    """A sweep of tests.tiny_trainer in this process. `expected_s`: seed -> seconds."""

    def __init__(
        self,
        stack: ExitStack,
        specs: list[TrialSpec],
        *,
        name: str = "s",
        repeats: int = 1,
        clock=time.monotonic,
        left_out: Sequence[tuple[str, str]] = (),
        **settings,
    ) -> None:
        sweep = SweepConfig(repeats=repeats, **settings.pop("sweep", {}))
        launcher = LauncherConfig(name="local", start=Start.fork, grace_s=0.3, **settings.pop("launcher", {}))
        writer = Writer("results.db")
        stack.callback(writer.close)
        key = software.key(software.describe())
        done = queries.num_completed(writer.engine, MACHINE.key, key, shares_host=launcher.share_host)
        plan = make_plan(specs, [], sweep, done)
        begun = NewSweep(
            name=name,
            reason="",
            command="sweep.py",
            started_at=NOON,
            trials=specs,
            num_repeats={trial.spec.trial_id: trial.num_repeats for trial in plan.trials},
            left_out=left_out,
            wanted_repeats=repeats,
            rerun=False,
            machine=MACHINE,
            software_key=key,
            shares_host=launcher.share_host,
            process=this_process(),
        )
        ledger = writer.begin_sweep(begun, is_alive)
        folders = RunFolders(Path("runs").resolve(), read_sweep(writer.engine, ledger.sweep_id), MACHINE, key)
        start = Fork(module="tests.tiny_trainer")
        stack.callback(start.close)
        self.stop = Stop()
        self.tools = Tools(
            ledger=ledger,
            slots=Slots(EIGHT, share_host=launcher.share_host, max_parallel=launcher.max_parallel),
            host_lock=HostLock(),
            start=start,
            folders=folders,
            progress=stack.enter_context(Progress(name, "here", EIGHT, plan)),
            stop=self.stop,
        )
        policy = Policy(sweep=sweep, launcher=launcher, retry=settings.pop("retry", RetryConfig()))
        self.orchestrator = Orchestrator(self.tools, policy, EIGHT, plan.trials, lambda spec: None, clock)
        assert not settings

    def run(self) -> Counter[State]:
        self.orchestrator.run()
        return self.orchestrator.states


@pytest.fixture
def stack():
    with ExitStack() as stack:
        yield stack


def rows(sql: str) -> list[tuple]:
    return [tuple(row.values()) for row in queries.rows(open_for_reading("results.db"), sql)]


def story(seed: int) -> list[tuple[int, str]]:
    """The events of one trial: attempt and state."""
    return rows(
        "SELECT events.attempt, events.state FROM events JOIN repeats ON repeats.id = repeat_id "
        f"JOIN trials ON trials.id = trial_id WHERE trials.seed = {seed} ORDER BY number"
    )


def test_every_state_is_written_down(stack):
    world = World(stack, [small(seed=1)])
    assert world.run() == {State.COMPLETED: 1}
    assert story(1) == [(0, "pending"), (0, "claimed"), (1, "running"), (1, "completed")]
    assert rows(
        "SELECT outcome, start, attempts.shares_host, exit_code FROM attempts JOIN placements ON placements.id = placement_id"
    ) == [("completed", "fork", 0, 0)]
    assert rows("SELECT finished_at IS NULL FROM sweeps") == [(0,)]
    assert rows("SELECT ended_at IS NULL FROM orchestrators") == [(0,)]
    assert rows("SELECT count(*) FROM step_samples") == [(3,)]


def test_rounds_of_repeats_run_in_random_orders_of_their_own(stack):
    world = World(stack, [small(seed=seed) for seed in range(1, 7)], repeats=3)
    assert world.run() == {State.COMPLETED: 18}
    ran = [seed for (seed,) in rows("SELECT seed FROM attempts JOIN trials ON trials.id = trial_id ORDER BY attempts.id")]
    rounds = [ran[first : first + 6] for first in (0, 6, 12)]
    assert all(sorted(round_) == [1, 2, 3, 4, 5, 6] for round_ in rounds)
    assert len(set(map(tuple, rounds))) == 3


def test_a_crash_is_tried_again_and_what_failed_by_itself_is_not(stack):
    world = World(stack, [small(seed=900), small(seed=901), small(seed=1)])
    assert world.run() == {State.COMPLETED: 2, State.FAILED: 1}
    assert world.orchestrator.num_retries == 1
    assert [state for _, state in story(900)] == [
        "pending",
        "claimed",
        "running",
        "failed",
        "pending",
        "claimed",
        "running",
        "completed",
    ]
    assert [state for _, state in story(901)] == ["pending", "claimed", "running", "failed"]
    assert rows(
        "SELECT attempt, outcome FROM attempts JOIN trials ON trials.id = trial_id WHERE seed = 900 ORDER BY attempts.id"
    ) == [
        (1, "failed"),
        (2, "completed"),
    ]


def test_a_crash_is_final_when_the_user_says_so(stack):
    assert World(stack, [small(seed=900)], retry=RetryConfig(crashed=0)).run() == {State.FAILED: 1}


def test_a_failure_can_stop_the_sweep(stack):
    world = World(stack, [small(seed=901), small(seed=901, num_gpus=2)], sweep={"on_failure": OnFailure.stop})
    assert world.run() == {State.FAILED: 1}
    assert world.orchestrator.num_left == 1
    assert rows("SELECT finished_at FROM sweeps") == [(None,)]


def test_larger_trials_are_skipped_after_out_of_memory_if_asked(stack):
    specs = [small(seed=902, batch_size=size) for size in (32, 4, 16, 8)]
    world = World(stack, specs, repeats=2, sweep={"skip_larger_after_oom": True})
    assert world.run() == {State.COMPLETED: 2, State.OUT_OF_MEMORY: 2, State.SKIPPED: 4}
    skipped = rows(
        "SELECT DISTINCT reason, batch_size FROM repeats JOIN trials ON trials.id = trial_id WHERE state = 'skipped' ORDER BY 2"
    )
    assert skipped == [("out_of_memory at batch_size=8 image_px=32", 16), ("out_of_memory at batch_size=8 image_px=32", 32)]


def test_a_hung_attempt_is_killed_and_said_so(stack):
    world = World(stack, [small(seed=904)], launcher={"start_timeout_s": 0.5})
    assert world.run() == {State.HUNG: 1}
    assert rows("SELECT exit_code FROM attempts") == [(-9,)]


def test_side_by_side_no_slot_is_given_twice(stack):
    specs = [small(seed=seed, num_gpus=num) for seed in range(1, 6) for num in (1, 2, 4, 8)]
    world = World(stack, specs, launcher={"share_host": True, "max_parallel": 4})
    assert world.run() == {State.COMPLETED: 20}
    assert rows("SELECT DISTINCT shares_host FROM attempts") == [(1,)]
    held: dict[int, set[str]] = {}
    events = rows(
        "SELECT repeat_id, events.state, devices FROM events JOIN repeats ON repeats.id = repeat_id "
        "JOIN attempts USING (sweep_id, trial_id, repeat) JOIN placements ON placements.id = placement_id "
        "WHERE events.attempt = 1 ORDER BY at_unix_us, events.state"  # of one moment, completed before running
    )
    for repeat_id, state, placement in events:
        if state == "running":
            devices = set(placement.split(","))
            assert not devices & set().union(*held.values())
            held[repeat_id] = devices
        elif state == "completed":
            del held[repeat_id]
    assert not held


@pytest.mark.parametrize(("choice", "outcome"), [(OnInterrupt.stop, State.INTERRUPTED), (OnInterrupt.finish, State.COMPLETED)])
def test_asked_to_stop_once_it_ends_or_finishes_what_runs(stack, choice, outcome):
    seed = 903 if choice is OnInterrupt.stop else 905
    world = World(stack, [small(seed=seed), small(seed=seed, num_gpus=2)], sweep={"on_interrupt": choice})
    _when_running(lambda: os.kill(os.getpid(), signal.SIGINT), stepping=choice is OnInterrupt.stop)
    states = world.run()
    assert world.orchestrator.was_interrupted
    assert states == {outcome: 1}
    assert world.orchestrator.num_left == 1


def test_asked_twice_it_kills_what_runs(stack):
    world = World(stack, [small(seed=904)], launcher={"timeout_s": 60})
    _when_running(lambda: [os.kill(os.getpid(), signal.SIGINT) for _ in range(2)], stepping=False)
    assert world.run() == {State.INTERRUPTED: 1}


def test_what_a_killed_orchestrator_left_is_recorded_or_run_again(stack):
    """As if it had been killed: what runs is closed by the next, from its run folder where it had finished."""
    specs = [small(seed=1), small(seed=2)]
    tools = World(stack, specs).tools
    done, not_done = tools.ledger.open_repeats()
    for repeat in (done, not_done):
        tools.ledger.claim(repeat, NOON)
        folder = RunFolder(Path("runs") / str(repeat.repeat_id))
        folder.path.mkdir()
        tools.ledger.run(repeat, str(folder.path), PLACEMENT, NOON)
        if repeat is done:
            assert tiny_trainer.main(small(seed=1), folder) == 0
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE orchestrators SET pid = 4194305")  # more than Linux gives
    recovered = recover(tools.ledger.engine)
    assert (recovered.num_orchestrators, recovered.num_completed, recovered.num_interrupted) == (1, 1, 1)
    assert rows("SELECT outcome, exit_code, duration_s FROM attempts ORDER BY id") == [
        ("completed", None, None),
        ("interrupted", None, None),
    ]
    assert rows("SELECT state FROM repeats ORDER BY id") == [("completed",), ("pending",)]
    assert rows("SELECT count(*) FROM step_samples") == [(3,)]
    assert recover(tools.ledger.engine) is None
    assert World(stack, specs, name="again").run() == {State.COMPLETED: 1}


def test_it_waits_for_a_sweep_of_another_database_that_has_the_host(stack, capsys):
    held = HostLock().try_hold(shares_host=False)
    world = World(stack, [small(seed=1)])
    free = threading.Timer(1.5, held.close)
    free.start()
    assert world.run() == {State.COMPLETED: 1}
    free.join()
    assert f"waiting: process {os.getpid()} " in capsys.readouterr().err


def test_what_ran_side_by_side_is_not_enough_for_a_sweep_of_one_at_a_time(stack):
    shared = {"share_host": True}
    assert World(stack, [small(seed=1)], name="shared", launcher=shared).run() == {State.COMPLETED: 1}
    assert World(stack, [small(seed=1)], name="alone").run() == {State.COMPLETED: 1}
    assert World(stack, [small(seed=1)], name="shared again", launcher=shared).run() == {}


def test_a_database_that_is_locked_for_a_while_ends_nothing(stack, monkeypatch, capsys):
    monkeypatch.setattr("store.engine.BUSY_TIMEOUT_S", 0.1)
    monkeypatch.setattr("sweeper.orchestrator.BEAT_EVERY_S", 0.2)
    world = World(stack, [small(seed=903)], launcher={"timeout_s": 4})
    other = sqlite3.connect("results.db", isolation_level=None, check_same_thread=False)
    _when_running(lambda: other.execute("BEGIN IMMEDIATE"), stepping=True)
    release = threading.Timer(2.5, lambda: other.execute("ROLLBACK"))
    release.start()
    assert world.run() == {State.TIMED_OUT: 1}
    assert world.orchestrator.failure is None
    assert "database is locked; another program kept it so" in capsys.readouterr().err
    other.close()


def test_what_could_not_be_recorded_is_recorded_by_the_next_command(stack, monkeypatch):
    monkeypatch.setattr("store.engine.BUSY_TIMEOUT_S", 0.1)
    world = World(stack, [small(seed=903)], launcher={"timeout_s": 2})
    other = sqlite3.connect("results.db", isolation_level=None, check_same_thread=False)
    _when_running(lambda: other.execute("BEGIN IMMEDIATE"), stepping=True)
    assert world.run() == {}
    assert "database is locked" in str(world.orchestrator.failure)
    other.close()
    assert rows("SELECT state FROM repeats") == [("running",)]
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE orchestrators SET pid = 4194305")
    assert recover(world.tools.ledger.engine).num_completed == 1
    ((outcome, exit_code, duration_s),) = rows("SELECT outcome, exit_code, duration_s FROM attempts")
    assert (outcome, exit_code) == ("timed_out", 130)
    assert duration_s > 2


def test_while_it_waits_for_another_sweep_and_is_asked_to_stop_it_sleeps(stack):
    """What waits is not asked for again and again once nothing is started any more."""
    ticks = []

    def clock() -> float:
        ticks.append(1)
        return time.monotonic()

    other = World(stack, [small(seed=1)], name="other").tools.ledger
    other.claim(other.open_repeats()[0], NOON)  # and it never comes to an end
    world = World(stack, [small(seed=1), small(seed=903)], clock=clock, sweep={"on_interrupt": OnInterrupt.finish})
    _when_running(
        lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(2), os.kill(os.getpid(), signal.SIGINT)), stepping=True
    )
    assert world.run() == {State.INTERRUPTED: 1}
    assert world.orchestrator.num_left == 1
    assert len(ticks) < 500


def test_what_a_damaged_folder_holds_is_run_again(stack):
    tools = World(stack, [small(seed=1)]).tools
    (repeat,) = tools.ledger.open_repeats()
    tools.ledger.claim(repeat, NOON)
    Path("runs/x").mkdir()
    Path("runs/x/result.json").write_text("")
    tools.ledger.run(repeat, str(Path("runs/x").resolve()), PLACEMENT, NOON)
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE orchestrators SET pid = 4194305")
    assert recover(tools.ledger.engine).num_interrupted == 1
    ((message,),) = rows("SELECT message FROM attempts")
    assert message.startswith("its orchestrator was killed, and what it left cannot be read: ")


def test_what_a_killed_orchestrator_left_running_is_killed_and_strangers_are_not(stack):
    tools = World(stack, [small(seed=1)]).tools
    (repeat,) = tools.ledger.open_repeats()
    tools.ledger.claim(repeat, NOON)
    tools.ledger.run(repeat, "/nowhere", PLACEMENT, NOON)
    marked = {**os.environ, ORCHESTRATOR_VARIABLE: "4194305"}
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    with (
        subprocess.Popen(sleep, env=marked, process_group=0) as left,
        subprocess.Popen(sleep, process_group=left.pid) as stranger,
    ):
        tools.ledger.started(repeat.repeat_id, left.pid, 1)
        with sqlite3.connect("results.db") as connection:
            connection.execute("UPDATE orchestrators SET pid = 4194305")
        recover(tools.ledger.engine)
        assert left.wait(10) == -signal.SIGKILL
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize(("signals", "times"), [("INT", 1), ("HUP HUP", 1), ("TERM HUP", 1), ("TERM INT", 2), ("INT INT", 2)])
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


def _when_running(then, *, stepping: bool) -> None:
    """Call it from another thread once an attempt runs, and has taken steps."""

    def wait() -> None:
        told = "steps.jsonl" if stepping else "environment.json"
        while not any(path.stat().st_size for path in Path("runs").glob(f"*/*/{told}")):
            time.sleep(0.01)
        then()

    threading.Thread(target=wait, daemon=True).start()


def test_the_run_folders_tell_all_columns_of_attempts_whatever_became_of_them(stack):
    seeds = (1, 900, 901, 902, 903, 904)
    world = World(stack, [small(seed=seed, batch_size=8) for seed in seeds], launcher={"timeout_s": 2}, name="all")
    assert world.run().total() == len(seeds)
    database = open_for_reading("results.db")
    stored = queries.rows(
        database,
        "SELECT attempts.*, sweeps.run_dir || '/' || attempts.run_dir AS run_dir, visible_devices, start, cores, description "
        "FROM attempts JOIN sweeps ON sweeps.id = sweep_id JOIN placements ON placements.id = placement_id "
        "LEFT JOIN environments ON environments.id = environment_id",
    )
    assert {row["outcome"] for row in stored} == {"completed", "failed", "out_of_memory", "timed_out"}
    sweep = SweepRecord.from_json(Path("runs/all/sweep.json").read_text())
    for row in stored:
        folder = RunFolder(Path(row["run_dir"]))
        begin, end = folder.read_attempt(), folder.read_ended()
        result, placement = end.result or folder.read_result(), end.placement
        assert (end.result is None) == (folder.result.exists() and row["outcome"] == folder.read_result().outcome)
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
        assert (begin.sweep_uid, begin.software_key) == (sweep.uid, software.key(software.describe()))
        assert (end.outcome, end.message) == (result.outcome, result.message)
    ended = rows("SELECT at FROM state_changes WHERE state IN ('completed', 'failed', 'out_of_memory', 'timed_out') ORDER BY at")
    ends = sorted(RunFolder(Path(row["run_dir"])).read_ended().ended_at for row in stored)
    assert [at for (at,) in ended] == [at.strftime("%Y-%m-%d %H:%M:%S.%f") for at in ends]


def test_an_end_that_was_told_and_not_recorded_is_recorded_as_it_was_told(stack):
    """Its orchestrator was killed between the two."""
    tools = World(stack, [small(seed=1), small(seed=2)]).tools
    for repeat in tools.ledger.open_repeats():
        tools.ledger.claim(repeat, NOON)
        folder = RunFolder(Path("runs").resolve() / str(repeat.repeat_id))
        folder.path.mkdir()
        tools.ledger.run(repeat, str(folder.path), PLACEMENT, NOON)
        spec = small(seed=repeat.repeat_id)
        assert tiny_trainer.main(spec, folder) == 0
        finished = replace(attempt(spec, 100.0 if spec.seed == 1 else None, outcome=Outcome.HUNG), exit_code=-9, duration_s=7.5)
        write_end(folder, replace(finished, placement=replace(PLACEMENT, start="fork")), NOON)
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE orchestrators SET pid = 4194305")
    assert recover(tools.ledger.engine).num_completed == 2
    told = "SELECT outcome, message, start, exit_code, duration_s, environment_id FROM attempts JOIN placements ON placements.id = placement_id ORDER BY attempts.id"
    assert rows(told) == [("completed", "", "fork", -9, 7.5, 1), ("hung", "it broke", "fork", -9, 7.5, 1)]
    assert rows("SELECT count(*) FROM step_samples") == [(3,)]


def test_how_an_attempt_of_a_killed_orchestrator_is_closed_is_in_its_folder(stack):
    tools = World(stack, [small(seed=1)]).tools
    (repeat,) = tools.ledger.open_repeats()
    tools.ledger.claim(repeat, NOON)
    folder = RunFolder(Path("runs/x").resolve())
    folder.path.mkdir()
    tools.ledger.run(repeat, str(folder.path), PLACEMENT, NOON)
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE orchestrators SET pid = 4194305")
    assert recover(tools.ledger.engine).num_interrupted == 1
    end = folder.read_ended()
    assert (end.exit_code, end.duration_s, end.placement, end.outcome) == (None, None, PLACEMENT, "interrupted")
    assert rows("SELECT outcome, message FROM attempts") == [(end.outcome, end.message)]


def test_an_end_for_which_there_is_no_room_ends_the_sweep_and_is_found_by_the_next_command(stack):
    world = World(stack, [small(seed=905), small(seed=1)])
    _when_running(lambda: [path.with_name("ended.draft").mkdir() for path in Path("runs").glob("*/*/trial.json")], stepping=False)
    assert world.run() == {}
    assert "make room or choose another folder with store.runs_dir=" in str(world.orchestrator.failure)
    assert rows("SELECT count(*) FROM attempts") == [(0,)]
    (draft,) = Path("runs").glob("*/*/ended.draft")
    draft.rmdir()
    with sqlite3.connect("results.db") as connection:
        connection.execute("UPDATE orchestrators SET pid = 4194305")
    assert recover(world.tools.ledger.engine).num_completed == 1


def test_a_secret_in_a_message_is_neither_stored_nor_told(stack, capsys, monkeypatch):
    monkeypatch.setattr("sweeper.orchestrator.judge", _judge_with_a_secret)
    assert World(stack, [small(seed=901)]).run() == {State.FAILED: 1}
    ((message, run_dir),) = rows("SELECT message, run_dir FROM latest_attempts")
    assert message == RunFolder(Path(run_dir)).read_ended().message == "no postgresql://me:***@host/db"
    assert "hidden" not in capsys.readouterr().err


def _judge_with_a_secret(*_: object) -> Judged:
    message = "no postgresql://me:hidden@host/db"
    return Judged(result=Result(outcome="failed", message=message, measurement=None, op_placement={}), crashed=False)
