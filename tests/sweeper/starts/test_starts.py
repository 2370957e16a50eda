"""However a trainer is started, it is the same: its session, its log, its environment, its end, and who dies with whom."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sweeper.starts import Fork, Spawn, environment
from tests.sweeper.processes import assert_gone, make_folder, wait_for_end, wait_until

pytestmark = pytest.mark.integration

SCRIPTED = "tests.sweeper.starts.scripted"


@pytest.fixture(params=["fork", "spawn"])
def start(request):
    start = Fork(SCRIPTED) if request.param == "fork" else Spawn((sys.executable, "-m", SCRIPTED))
    yield start
    start.close()


def run(start, folder, **variables):
    process = start.start(folder, environment(os.environ, "") | variables)
    wait_for_end(process.descriptor)
    assert process.start == start.name
    return process.reap()


def test_a_trainer_leads_its_session_in_its_folder(start, tmp_path):
    folder = make_folder(
        tmp_path / "run",
        """
        import json, os, sys
        found = {"session": os.getsid(0) == os.getpid(), "group": os.getpgid(0) == os.getpid(), "cwd": os.getcwd(), "stdin": sys.stdin.read()}
        (folder / "found.json").write_text(json.dumps(found | {"environment": dict(os.environ)}))
        """,
    )
    wanted = environment(os.environ, "GPU-aa") | {"ONLY_HERE": "1"}
    process = start.start(folder, wanted)
    wait_for_end(process.descriptor)
    assert process.reap() == 0
    found = json.loads((folder.path / "found.json").read_text())
    ignored = {"LC_CTYPE"}  # Python itself may set it
    assert {
        name: value for name, value in found.pop("environment").items() if name not in ignored
    } == {name: value for name, value in wanted.items() if name not in ignored}
    assert found == {"session": True, "group": True, "cwd": str(folder.path), "stdin": ""}


def test_all_it_and_its_children_say_is_appended_to_the_log(start, tmp_path):
    folder = make_folder(
        tmp_path / "run",
        "import os, sys; print('out', flush=True); print('err', file=sys.stderr); os.system('echo child'); print('unflushed')",
    )
    folder.log.write_text("before\n")
    run(start, folder)
    assert folder.log.read_text() == "before\nout\nerr\nchild\nunflushed\n"


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit_code = 5", 5),
        ("raise ValueError('a bug')", 1),
        ("raise SystemExit('a library gave up')", 1),
        ("import os; os.kill(os.getpid(), 11)", -11),
        ("import os; os.abort()", -6),
    ],
)
def test_the_exit_status_is_reported_and_the_next_one_starts_as_well(
    start, tmp_path, script, status
):
    assert run(start, make_folder(tmp_path / "run", script)) == status
    assert run(start, make_folder(tmp_path / "next", "exit_code = 3")) == 3


def test_a_trial_file_that_is_none_is_refused(start, tmp_path):
    folder = make_folder(tmp_path / "run", "")
    process_folder = Spawn((sys.executable, "-m", SCRIPTED))
    folder.trial.write_text("{}")
    assert run(process_folder, folder) == 2
    process_folder.close()
    assert "wanted the trial.json of a run folder" in folder.log.read_text()


def test_an_interrupt_reaches_a_trainer_also_when_its_starter_ignored_it(start, tmp_path):
    script = """
        import time
        try:
            (folder / "ready").touch()
            for _ in range(6000):  # Python may lose sight of a signal that comes just before a long sleep begins
                time.sleep(0.1)
        except KeyboardInterrupt:
            exit_code = 130
    """
    folder = make_folder(tmp_path / "run", script)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = start.start(folder, environment(os.environ, ""))
    finally:
        signal.signal(signal.SIGINT, before)
    wait_until((folder.path / "ready").exists, process.descriptor)
    os.kill(process.pid, signal.SIGINT)
    wait_for_end(process.descriptor)
    assert process.reap() == 130


def test_several_run_at_once_and_keep_their_numbers_until_they_are_reaped(start, tmp_path):
    folders = [make_folder(tmp_path / f"run{i}", f"exit_code = {i}") for i in range(4)]
    processes = [start.start(folder, environment(os.environ, "")) for folder in folders]
    for process in processes:
        wait_for_end(process.descriptor)
    assert [Path(f"/proc/{process.pid}").exists() for process in processes] == [True] * 4
    assert [process.reap() for process in reversed(processes)] == [3, 2, 1, 0]


PARENT = """
    import os, subprocess, sys
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (folder / "draft").write_text(f"{os.getpid()} {child.pid}")
    (folder / "draft").rename(folder / "pids")
    child.wait()
"""
ORCHESTRATOR = """
    import os, sys
    from pathlib import Path
    from scalemark.host.orphans import Guard
    from scalemark.run_folder import RunFolder
    from sweeper.starts import environment
    from sweeper.starts import Fork, Spawn

    guard = Guard()
    start = Fork("{module}") if "{start}" == "fork" else Spawn((sys.executable, "-m", "{module}"))
    process = start.start(RunFolder(Path("{folder}")), environment(os.environ, ""))
    print(process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("is_stopped", [False, True])
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_killing_the_orchestrator_leaves_nothing(tmp_path, start, is_stopped):
    folder = make_folder(tmp_path / "run", PARENT)
    script = textwrap.dedent(ORCHESTRATOR).format(start=start, module=SCRIPTED, folder=folder.path)
    orchestrator = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(os.environ, ""),
    )
    with orchestrator:
        trainer = int(orchestrator.stdout.readline())
        descriptor = os.pidfd_open(trainer)
        wait_until((folder.path / "pids").exists, descriptor)
        pids = list(map(int, (folder.path / "pids").read_text().split()))
        assert pids[0] == trainer
        if is_stopped:
            os.kill(trainer, signal.SIGSTOP)
        orchestrator.kill()
    for pid in pids:
        assert_gone(pid)
    os.close(descriptor)
