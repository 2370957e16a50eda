"""Fork servers: one per environment, replaced when lost, refused where forking is unsafe, and forked trials equal spawned ones."""

import os
import signal
from contextlib import closing

import pytest

from conf.schema import LauncherConfig
from scalemark.host.processes import wait_readable
from scalemark.records.attempt import Placement
from scalemark.records.measurement import Outcome
from scalemark.run_folder import RunFolder
from sweeper.loop.attempt import Attempt, judge
from sweeper.starts import Fork, Spawn, environment
from sweeper.starts.fork import LOAD_TIMEOUT_S, MOST_SERVERS, SERVER_BYTES
from tests.specs import small
from tests.sweeper.processes import assert_gone, make_folder, wait_for_end, wait_until

pytestmark = pytest.mark.integration

LIMITS = LauncherConfig(
    name="local", timeout_s=600, start_timeout_s=600, step_timeout_s=600, grace_s=5
)
SCRIPTED = "tests.sweeper.starts.scripted"
GATED = "tests.sweeper.starts.gated"
SERVER = "import os; (folder / 'server').write_text(str(os.getppid()))"
COMPLETE = """(folder / "result.json").write_text('{"outcome": "completed", "message": "", "measurement": null, "op_placement": {}}')\n"""


@pytest.fixture
def fork():
    with closing(Fork(SCRIPTED, free_bytes=lambda: 2**50)) as fork:
        yield fork


def run(start, folder, **variables):
    process = start.start(folder, environment(os.environ, "") | variables)
    try:
        wait_for_end(process.descriptor)
    finally:  # a test that fails leaves nothing to the next one
        if not wait_readable([process.descriptor]):
            os.kill(process.pid, signal.SIGKILL)
        exit_code = process.reap()
    return exit_code


def server_of(fork, path, **variables):
    folder = make_folder(path, SERVER)
    assert run(fork, folder, **variables) == 0
    return int((folder.path / "server").read_text())


def prepare(start, folder, variables):
    while (descriptor := start.prepare(folder, variables)) is not None:
        wait_for_end(descriptor)


def test_trials_of_one_environment_share_a_server_whatever_their_devices(fork, tmp_path):
    servers = {
        server_of(fork, tmp_path / visible, CUDA_VISIBLE_DEVICES=visible)
        for visible in ("GPU-a", "GPU-b")
    }
    assert len(servers) == 1


def test_a_variable_read_at_import_has_its_own_server(fork, tmp_path):
    servers = [
        server_of(fork, tmp_path / f"run{run}", XLA_FLAGS=flags)
        for run, flags in enumerate(("1", "2", "1"))
    ]
    assert servers[0] == servers[2] != servers[1]


def test_an_axis_passed_by_a_variable_has_its_own_server(fork, tmp_path):
    plain = server_of(fork, tmp_path / "plain")
    folder = make_folder(tmp_path / "run", SERVER)
    folder.trial.write_text(small(free=(("env.TF_ENABLE_ONEDNN_OPTS", "0"),)).to_json())
    run(fork, folder)
    assert int((folder.path / "server").read_text()) != plain


def test_the_least_recently_used_idle_server_makes_room(fork, tmp_path):
    busy = fork.start(
        make_folder(tmp_path / "busy", SERVER + "; import time; time.sleep(600)"),
        environment(os.environ, ""),
    )
    servers = [server_of(fork, tmp_path / f"run{i}", XLA_FLAGS=str(i)) for i in range(MOST_SERVERS)]
    assert_gone(servers[0])
    assert servers[1:] == [
        server_of(fork, tmp_path / f"again{i}", XLA_FLAGS=str(i)) for i in range(1, MOST_SERVERS)
    ]
    os.kill(busy.pid, signal.SIGTERM)
    wait_for_end(busy.descriptor)
    assert busy.reap() == -signal.SIGTERM


@pytest.mark.parametrize(
    ("free_bytes", "num_kept"), [(0, 1), (8 * SERVER_BYTES, 2), (12 * SERVER_BYTES, 3)]
)
def test_servers_take_a_quarter_of_the_free_memory_at_most(tmp_path, free_bytes, num_kept):
    with closing(Fork(SCRIPTED, free_bytes=lambda: free_bytes)) as fork:
        servers = [server_of(fork, tmp_path / f"run{i}", XLA_FLAGS=str(i)) for i in range(4)]
        for server in servers[:-num_kept]:
            assert_gone(server)
        again = [
            server_of(fork, tmp_path / f"again{i}", XLA_FLAGS=str(i))
            for i in range(4 - num_kept, 4)
        ]
        assert again == servers[-num_kept:]


def test_what_a_start_needs_is_loaded_while_nobody_waits(tmp_path):
    os.mkfifo(tmp_path / "gate")
    folder, variables = (
        make_folder(tmp_path / "run", "exit_code = 5"),
        environment(os.environ, "") | {"GATE": str(tmp_path / "gate")},
    )
    with closing(Fork(GATED)) as fork:
        loading = fork.prepare(folder, variables)
        assert not wait_readable([loading])
        assert fork.prepare(folder, variables) == loading
        (tmp_path / "gate").write_text("go on")
        prepare(fork, folder, variables)
        process = fork.start(folder, variables)  # would find the gate shut, did it load again
        wait_for_end(process.descriptor)
        assert (process.start, process.reap()) == ("fork", 5)
        assert fork.prepare(folder, variables) is None


def test_servers_that_do_not_load_in_time_are_given_up(tmp_path):
    os.mkfifo(tmp_path / "gate")
    folder, variables = (
        make_folder(tmp_path / "run", ""),
        environment(os.environ, "") | {"GATE": str(tmp_path / "gate")},
    )
    now_s = 0.0
    with closing(Fork(GATED, clock=lambda: now_s)) as fork:
        for _ in range(2):
            assert fork.prepare(folder, variables) is not None
            now_s += LOAD_TIMEOUT_S
        assert fork.prepare(folder, variables) is None
    assert (
        fork.problem
        == "the fork server was lost: not loaded within 300 s; attempts are spawned instead"
    )


def test_one_that_was_prepared_is_not_closed_before_it_was_used(tmp_path):
    with closing(Fork(SCRIPTED, free_bytes=lambda: 0)) as fork:
        folder, variables = (
            make_folder(tmp_path / "run", ""),
            environment(os.environ, "") | {"XLA_FLAGS": "prepared"},
        )
        prepare(fork, folder, variables)
        server_of(fork, tmp_path / "other")
        assert fork.prepare(folder, variables) is None


def test_preparing_for_a_missing_folder_leaves_it_to_start(fork, tmp_path):
    folder = RunFolder(tmp_path / "gone")
    assert fork.prepare(folder, environment(os.environ, "")) is None
    with pytest.raises(FileNotFoundError, match=r"gone/trial\.json"):
        fork.start(folder, environment(os.environ, ""))


def test_a_trial_that_is_none_cannot_be_started(fork, tmp_path):
    folder = make_folder(tmp_path / "run", "")
    folder.trial.write_text("{}")
    assert fork.prepare(folder, environment(os.environ, "")) is None
    with pytest.raises(
        OSError, match=r"no trial: .*trial\.json is damaged: not a trial spec: missing all_reduce, "
    ):
        fork.start(folder, environment(os.environ, ""))


def test_to_spawn_there_is_nothing_to_prepare(tmp_path):
    assert Spawn().prepare(make_folder(tmp_path / "run", ""), environment(os.environ, "")) is None


def test_closing_ends_servers_and_what_they_started(tmp_path):
    fork = Fork(SCRIPTED)
    folder = make_folder(tmp_path / "run", SERVER + "; import time; time.sleep(600)")
    process = fork.start(folder, environment(os.environ, ""))
    wait_until(
        lambda: (folder.path / "server").exists() and (folder.path / "server").read_text() != "",
        process.descriptor,
    )
    fork.close()
    assert_gone(process.pid)
    assert_gone(int((folder.path / "server").read_text()))
    assert process.reap() is None


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_killed_server_ends_its_trainer_and_is_replaced(fork, tmp_path, is_stopped):
    script = """
        import os, subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (folder / "draft").write_text(f"{os.getppid()} {child.pid}")
        (folder / "draft").rename(folder / "pids")
        child.wait()
    """
    folder = make_folder(tmp_path / "run", script)
    attempt = Attempt(folder, fork.start(folder, environment(os.environ, "")), LIMITS)
    wait_until((folder.path / "pids").exists, attempt.descriptor)
    server, child = map(int, (folder.path / "pids").read_text().split())
    if is_stopped:
        os.kill(os.getpgid(child), signal.SIGSTOP)
    os.kill(server, signal.SIGKILL)
    wait_for_end(attempt.descriptor)
    ended = attempt.ended()
    judged = judge(folder, ended, LIMITS)
    assert (judged.result.outcome, judged.crashed) == (Outcome.FAILED, True)
    assert judged.result.message.startswith(
        "ended unseen, and left no result (the fork server that started it was lost): "
    )
    assert ended.exit_code is None
    assert_gone(child)
    assert server_of(fork, tmp_path / "next") != server
    assert fork.problem is None


def test_what_had_completed_when_its_server_was_killed_is_completed(fork, tmp_path):
    folder = make_folder(tmp_path / "run", SERVER + "\n" + COMPLETE)
    attempt = Attempt(folder, fork.start(folder, environment(os.environ, "")), LIMITS)
    wait_for_end(attempt.descriptor)
    os.kill(int((folder.path / "server").read_text()), signal.SIGKILL)
    ended = attempt.ended()
    judged = judge(folder, ended, LIMITS)
    assert (ended.exit_code, judged.result.outcome, judged.crashed) == (
        None,
        Outcome.COMPLETED,
        False,
    )


def test_a_server_that_died_while_idle_is_replaced(fork, tmp_path):
    server = server_of(fork, tmp_path / "run")
    os.kill(server, signal.SIGKILL)
    assert server_of(fork, tmp_path / "next") != server
    assert fork.problem is None


def test_a_server_that_died_while_idle_is_loaded_anew_before_it_is_needed(fork, tmp_path):
    server = server_of(fork, tmp_path / "run")
    os.kill(server, signal.SIGKILL)
    assert_gone(server)
    assert fork.prepare(make_folder(tmp_path / "next", ""), environment(os.environ, "")) is not None


def test_a_server_that_does_not_answer_is_replaced(fork, tmp_path, monkeypatch):
    server = server_of(fork, tmp_path / "run")
    os.kill(server, signal.SIGSTOP)
    monkeypatch.setattr("sweeper.starts.fork.REPLY_TIMEOUT_S", 5.0)
    assert server_of(fork, tmp_path / "next") != server
    assert_gone(server)


@pytest.mark.parametrize(
    ("leaves", "problem"),
    [
        (
            "a thread",
            "forking is not safe: 2 threads run after the import; attempts are spawned instead",
        ),
        (
            "libcuda",
            "forking is not safe: libcuda is loaded after the import; attempts are spawned instead",
        ),
        (
            "nothing",
            "the fork server was lost: it ended: ImportError: no TensorFlow here; attempts are spawned instead",
        ),
    ],
)
@pytest.mark.parametrize("prepares", [False, True])
def test_where_forking_cannot_be_attempts_are_spawned_and_marked_so(
    tmp_path, prepares, leaves, problem
):
    fork = Fork("tests.sweeper.starts.unsafe")
    (tmp_path / "libcuda.so.1").write_text("only its name matters")
    folder = make_folder(tmp_path / "run", "exit_code = 5")
    folder.placement.write_text(Placement(start="fork", devices=(0,), visible_devices="").to_json())
    variables = {"LEAVES": leaves, "LIBCUDA": str(tmp_path / "libcuda.so.1")}
    if prepares:
        prepare(fork, folder, environment(os.environ, "") | variables)
        assert fork.problem == problem
    process = fork.start(folder, environment(os.environ, "") | variables)
    wait_for_end(process.descriptor)
    assert process.reap() == 5
    fork.close()
    assert fork.problem == problem
    assert process.start == Placement.from_json(folder.placement.read_text()).start == "spawn"


def test_a_real_trial_is_the_same_forked_and_spawned(tmp_path):
    """With a variable read at import, one read by the first session, and a flag of the compiler."""
    variables = {"env.TF_ENABLE_ONEDNN_OPTS": "0", "env.TF_NUM_INTEROP_THREADS": "1"}
    spec = small(num_gpus=2, all_reduce="none", xla="auto", free=tuple(variables.items()))
    with closing(Fork()) as fork, closing(Spawn()) as spawn:
        forked, spawned = (
            _run_trial(start, tmp_path / start.name, spec) for start in (fork, spawn)
        )
        assert fork.problem is None
    assert forked.environment.read_text() == spawned.environment.read_text()
    assert '"set_by_trial": {}' not in forked.environment.read_text()
    assert forked.read_result().op_placement == spawned.read_result().op_placement
    assert (
        forked.read_result().measurement.first_loss == spawned.read_result().measurement.first_loss
    )
    losses = [
        (a.loss, b.loss) for a, b in zip(forked.read_steps(), spawned.read_steps(), strict=False)
    ]  # warm-up varies
    assert len(losses) >= 6
    assert [a for a, _ in losses] == pytest.approx(
        [b for _, b in losses], rel=1e-4
    )  # threads add in any order


def _run_trial(start, path, spec) -> RunFolder:
    folder = make_folder(path, "")
    folder.trial.write_text(spec.to_json())
    assert run(start, folder) == 0, folder.log.read_text()
    return folder
