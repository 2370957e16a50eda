"""However a rank of a distributed trial ends, or does not, the trial tells of it and nothing is left running."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from scalemark.records.attempt import RANK_LOST, Placement, RankLimits
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from sweeper.starts import Fork, Spawn, environment
from tests.conftest import PROJECT
from tests.ends import ends
from tests.ran import ran
from tests.specs import small
from tests.sweeper.processes import PATIENCE_S, assert_gone, wait_for_end, wait_until
from tests.trainer.tiny_ranks import HEALTHY, MODULE, SERVE, SETTLE_FILE, write_script

pytestmark = pytest.mark.integration

RANKS = ("worker-0", "ps-0", "worker-1", "ps-1")


@dataclass
class Trial:
    """That runs, or has ended."""

    folder: RunFolder
    process: object  # of the supervisor
    was_reaped: bool = False

    def wait_until_all_serve(self) -> None:
        wait_until(
            lambda: all((self.folder.path / f"beat-{rank}.txt").exists() for rank in RANKS),
            self.process.descriptor,
        )

    def pid(self, rank: str) -> int:
        return int((self.folder.path / f"pid-{rank}.txt").read_text())

    def log(self, rank: str) -> str:
        return (self.folder.path / f"log-{rank}.txt").read_text()

    def end(self) -> int:
        """Its exit code; whatever it was, all ranks are gone then."""
        wait_for_end(self.process.descriptor)
        for path in self.folder.path.glob("pid-*.txt"):
            assert_gone(int(path.read_text()))
        return self._reap()

    def clear_up(self) -> None:
        """After a test that failed before its end."""
        if not self.was_reaped:
            os.kill(self.process.pid, signal.SIGKILL)
            wait_for_end(self.process.descriptor)
            self._reap()

    def _reap(self) -> int:
        self.was_reaped = True
        return self.process.reap()

    def outcome(self) -> tuple[int, str, str]:
        """Exit code, outcome and message."""
        exit_code = self.end()
        result = self.folder.read_result()
        return exit_code, result.outcome, result.message


@pytest.fixture(scope="module")
def starts():
    with closing(Fork(MODULE)) as fork, closing(Spawn((sys.executable, "-m", MODULE))) as spawn:
        yield {"fork": fork, "spawn": spawn}


@pytest.fixture
def begin(tmp_path, starts):
    """begin(script): a trial of 2 workers and 2 parameter servers that all run it."""
    begun: list[Trial] = []

    def begin(
        script: str, *, start="fork", limits=None, rank_start="", visible="", settle_s=None, **spec
    ) -> Trial:
        folder = RunFolder(tmp_path / "run")
        folder.path.mkdir()
        asked = {"variable_update": "distributed_replicated", "hosts": 2, "num_gpus": 4}
        folder.trial.write_text(small(**asked | spec).to_json())
        write_script(folder.path, script)
        if limits:
            folder.rank_limits.write_text(limits if isinstance(limits, str) else limits.to_json())
        if rank_start:
            given = Placement(
                start=start, devices=(), visible_devices="", hosts=("a", "b"), rank_start=rank_start
            )
            folder.placement.write_text(given.to_json())
        if settle_s:
            (folder.path / SETTLE_FILE).write_text(str(settle_s))
        variables = {
            name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"
        }
        begun.append(Trial(folder, starts[start].start(folder, environment(variables, visible))))
        return begun[-1]

    yield begin
    for trial in begun:
        trial.clear_up()


@pytest.fixture(params=["fork", "spawn"])
def start(request):
    return request.param


def test_worker_0s_result_is_the_trials_and_the_others_are_ended(begin, start):
    trial = begin(
        f"""
        exec({HEALTHY!r})
        for other in ("ps-0", "worker-1", "ps-1"):
            name == "worker-0" and until(folder / f"beat-{{other}}.txt")
        end(Outcome.COMPLETED) if name == "worker-0" else wait()
        """,
        start=start,
    )
    assert trial.outcome() == (0, Outcome.COMPLETED, "")
    assert {path.name for path in trial.folder.path.glob("log*.txt")} == {
        "log.txt",
        "log-ps-0.txt",
        "log-worker-1.txt",
        "log-ps-1.txt",
    }


def test_by_hand_any_file_may_tell_the_trial(tmp_path):
    folder = RunFolder(tmp_path / "by hand")
    folder.path.mkdir()
    write_script(
        folder.path, "end(Outcome.COMPLETED, spec.model) if name == 'worker-0' else wait()"
    )
    trial = tmp_path / "elsewhere.json"
    trial.write_text(small(variable_update="distributed_replicated", hosts=2, num_gpus=4).to_json())
    subprocess.run(
        [sys.executable, "-m", MODULE, trial, folder.path],
        check=True,
        env=os.environ | {"PYTHONPATH": str(PROJECT)},
    )
    assert folder.read_result().message == "trivial"
    assert TrialSpec.from_json(folder.trial.read_text()) == TrialSpec.from_json(trial.read_text())


def test_ranks_are_reported_their_own_ports_and_in_the_end_all_are_free(begin, start):
    trial = begin(SERVE, start=start)
    trial.wait_until_all_serve()
    wait_until(
        lambda: trial.folder.log.read_text().count("\n") >= len(RANKS), trial.process.descriptor
    )  # ranks may be faster
    reported = trial.folder.log.read_text().splitlines()[:4]
    addresses = {line.split()[1].rstrip(":"): line.split()[2].rstrip(",") for line in reported}
    assert tuple(addresses) == RANKS
    ports = {int(address.removeprefix("127.0.0.1:")) for address in addresses.values()}
    assert len(ports) == 4
    os.kill(trial.process.pid, signal.SIGKILL)
    assert trial.end() == -signal.SIGKILL
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_ranks_know_that_their_parent_started_them_all(begin, start):
    trial = begin(
        f"""
        from trainer.watching import telemetry
        assert telemetry.knows_own_processes(cluster, None)
        exec({HEALTHY!r})
        end(Outcome.COMPLETED) if name == "worker-0" else wait()
        """,
        start=start,
    )
    assert trial.outcome() == (0, Outcome.COMPLETED, "")


def test_a_killed_rank_fails_the_trial_and_its_log_is_named(begin, start):
    trial = begin(
        f"name == 'worker-1' and print('ValueError: what it said last', flush=True)\n{SERVE}",
        start=start,
    )
    trial.wait_until_all_serve()
    os.kill(trial.pid("worker-1"), signal.SIGKILL)
    reported = "rank worker-1 ended by SIGKILL; see log-worker-1.txt: ValueError: what it said last"
    assert trial.outcome() == (RANK_LOST, Outcome.FAILED, reported)


def test_killed_worker_0_is_named_with_the_log_of_the_trial(begin):
    trial = begin(SERVE)
    trial.wait_until_all_serve()
    os.kill(trial.pid("worker-0"), signal.SIGSEGV)
    assert trial.outcome() == (
        RANK_LOST,
        Outcome.FAILED,
        "rank worker-0 ended by SIGSEGV; see log.txt",
    )


def test_a_stopped_rank_hangs_the_trial_and_is_named(begin):
    trial = begin(SERVE, limits=RankLimits(timeout_s=10))
    trial.wait_until_all_serve()
    os.kill(
        trial.pid("ps-0"), signal.SIGSTOP
    )  # named before others that a busy machine has fall silent, too
    reported = "rank ps-0 gave no sign of life for launcher.rank_timeout_s=10; see log-ps-0.txt"
    assert trial.outcome() == (6, Outcome.HUNG, reported)


def test_a_rank_that_never_starts_hangs_the_trial_at_its_deadline(begin):
    trial = begin(f"name == 'ps-0' and wait()\n{SERVE}", limits=RankLimits(start_timeout_s=1))
    reported = "rank ps-0 could not be reached within 1 s; see log-ps-0.txt"
    assert trial.outcome() == (6, Outcome.HUNG, reported)


def test_a_rank_that_has_done_its_part_may_go(begin):
    trial = begin(
        f"""
        if name == "worker-0":
            until(folder / "gone")
            end(Outcome.COMPLETED)
        elif name != "worker-1":
            exec({SERVE!r})
        """
    )
    wait_until((trial.folder.path / "pid-worker-1.txt").exists, trial.process.descriptor)
    assert_gone(trial.pid("worker-1"))
    (trial.folder.path / "gone").touch()
    assert trial.outcome() == (0, Outcome.COMPLETED, "")


LATE = {"settle_s": PATIENCE_S}  # worker 0 is seen first
LOST = "worker-1 cannot be reached any more: UNAVAILABLE"
# worker 0's script, worker 1's, what else is given; then exit code, outcome and message of the trial. The others serve.
RANKS_THAT_FAIL = {
    "another is out of memory": (
        SERVE,
        'print("ResourceExhaustedError: of 9 GB"); exit_code = 4',
        {},
        (4, Outcome.OUT_OF_MEMORY),
        "rank worker-1: out_of_memory; see log-worker-1.txt: ResourceExhaustedError: of 9 GB",
    ),
    "another is unsupported": (
        SERVE,
        'print("ValueError: no such op"); exit_code = 3',
        {},
        (3, Outcome.UNSUPPORTED),
        "rank worker-1: unsupported; see log-worker-1.txt: ValueError: no such op",
    ),
    "another fails": (
        SERVE,
        'print("ValueError: x"); exit_code = 1',
        {},
        (1, Outcome.FAILED),
        "rank worker-1 ended with exit code 1; see log-worker-1.txt: ValueError: x",
    ),
    "worker 0's result counts though another crashed": (
        f'{HEALTHY}end(Outcome.OUT_OF_MEMORY, "of 9 GB"); (folder / "written").touch(); wait()',
        f'{HEALTHY}until(folder / "written"); os.abort()',
        {},
        (4, Outcome.OUT_OF_MEMORY),
        "of 9 GB",
    ),
    "of two that fail together the one that crashed is named": (
        'end(Outcome.FAILED, "UnavailableError: lost worker-1")',
        'until(folder / "result.json"); os.abort()',
        LATE,
        (RANK_LOST, Outcome.FAILED),
        "rank worker-1 ended by SIGABRT; see log-worker-1.txt",
    ),
    "the one that worker 0 lost is named with its log": (
        f"end(Outcome.FAILED, {LOST!r}); exit_code = {RANK_LOST}",
        'until(folder / "result.json"); print("ValueError: x", flush=True); exit_code = 1',
        LATE,
        (1, Outcome.FAILED),
        "rank worker-1 ended with exit code 1; see log-worker-1.txt: ValueError: x",
    ),
    "one that is lost but did not end is known from worker 0": (
        f"end(Outcome.FAILED, {LOST!r}); exit_code = {RANK_LOST}",
        SERVE,
        {},
        (RANK_LOST, Outcome.FAILED),
        LOST,
    ),
    "what worker 0 says of its own failure stands, though another ends before it": (
        'end(Outcome.FAILED, "its own fault"); import time; time.sleep(0.5)',
        'until(folder / "result.json"); exit_code = 1',
        {},
        (1, Outcome.FAILED),
        "its own fault",
    ),
}


@pytest.mark.parametrize("case", RANKS_THAT_FAIL)
def test_a_rank_that_fails_is_named_with_what_it_came_to(begin, case):
    of_worker_0, of_worker_1, given, ended, message = RANKS_THAT_FAIL[case]
    scripts = {"worker-0": of_worker_0, "worker-1": of_worker_1}
    trial = begin(f"import os\nexec({scripts!r}.get(name, {SERVE!r}))", **given)
    assert trial.outcome() == (*ended, message)


def test_a_rank_that_cannot_listen_fails_the_trial_and_says_why(begin):
    trial = begin(
        f"""
        import socket
        if name == "ps-1":
            taken = socket.create_server(("127.0.0.1", port))
        exec({SERVE!r})
        """
    )
    exit_code, outcome, message = trial.outcome()
    assert (exit_code, outcome) == (1, Outcome.FAILED)
    assert message.startswith("rank ps-1 ended with exit code 1; see log-ps-1.txt: OSError: ")
    assert "Address already in use" in message


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_no_rank_survives_what_looks_after_it(begin, start, which):
    trial = begin(SERVE, start=start)
    trial.wait_until_all_serve()
    os.killpg(trial.process.pid, which)
    assert trial.end() == (130 if which == signal.SIGINT else -which)
    interrupted = trial.folder.read_result() if which == signal.SIGINT else None
    assert not interrupted or (interrupted.outcome, interrupted.message) == (
        Outcome.INTERRUPTED,
        "interrupted",
    )


def test_no_rank_survives_a_stopped_supervisor_that_is_killed(begin):
    trial = begin(SERVE)
    trial.wait_until_all_serve()
    os.kill(trial.process.pid, signal.SIGSTOP)
    os.kill(trial.pid("ps-0"), signal.SIGSTOP)
    os.kill(trial.process.pid, signal.SIGKILL)
    assert trial.end() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("start", "killed"), [("fork", "orchestrator"), ("fork", "server"), ("spawn", "orchestrator")]
)
def test_no_rank_survives_its_orchestrator_or_fork_server(tmp_path, start, killed):
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.trial.write_text(
        small(variable_update="distributed_replicated", hosts=2, num_gpus=4).to_json()
    )
    write_script(folder.path, SERVE)
    how = f"Fork({MODULE!r})" if start == "fork" else f"Spawn((sys.executable, '-m', {MODULE!r}))"
    program = f"""
import os, signal, sys
from pathlib import Path
from scalemark.run_folder import RunFolder
from sweeper.starts import environment
from sweeper.starts import Fork, Spawn
process = {how}.start(RunFolder(Path({str(folder.path)!r})), environment(os.environ, ""))
while True:
    signal.pause()
"""
    orchestrator = subprocess.Popen([sys.executable, "-c", program])
    descriptor = os.pidfd_open(orchestrator.pid)
    try:
        trial = Trial(folder, type("Seen", (), {"descriptor": descriptor}))
        trial.wait_until_all_serve()
        family = psutil.Process(orchestrator.pid).children(recursive=True)
        ranks = [
            process for process in family if process.pid in {trial.pid(rank) for rank in RANKS}
        ]
        assert len(ranks) == 4
        with ends(ranks):
            if killed == "server":
                (server,) = (
                    process
                    for process in family
                    if "trainer.fork_server" in process.cmdline()
                    and process.ppid() == orchestrator.pid
                )
                server.kill()
            else:
                orchestrator.kill()
    finally:
        os.close(descriptor)
        orchestrator.kill()
        orchestrator.wait()


def test_each_worker_sees_its_share_of_the_gpus_and_parameter_servers_none(begin, start):
    trial = begin(
        """
        import os
        # all at once, as other ranks write to the same terminal
        os.write(1, f"sees {os.environ['CUDA_VISIBLE_DEVICES']}\\n".encode())
        (folder / f"told-{name}").touch()
        for other in ("ps-0", "worker-1", "ps-1"):
            until(folder / f"told-{other}")
        end(Outcome.COMPLETED) if name == "worker-0" else wait()
        """,
        start=start,
        visible="GPU-a,GPU-b,GPU-c,GPU-d",
        device_kind=DeviceKind.GPU,
    )
    assert trial.outcome()[0] == 0
    seen = {rank: trial.log(rank).split()[1:] for rank in RANKS[1:]}
    assert "sees GPU-a,GPU-b\n" in trial.folder.log.read_text()
    assert seen == {"ps-0": [], "worker-1": ["GPU-c,GPU-d"], "ps-1": []}


@pytest.mark.parametrize("limits", ["{", "[]", '{"timeout": 3}'])
def test_damaged_deadlines_fail_the_trial_before_anything_is_started(begin, limits):
    trial = begin("", limits=limits)
    exit_code, outcome, message = trial.outcome()
    assert (exit_code, outcome) == (1, Outcome.FAILED)
    assert message.startswith(
        f"its ranks could not be started: {trial.folder.rank_limits} is damaged: "
    )
    assert not list(trial.folder.path.glob("pid-*.txt"))


def test_what_goes_wrong_once_ranks_run_is_not_reported_as_their_start(tmp_path):
    """The supervisor tells their addresses, and where it does the disk is full."""
    (tmp_path / "trial.json").write_text(
        small(variable_update="distributed_replicated", hosts=2, num_gpus=4).to_json()
    )
    write_script(tmp_path, SERVE)
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", MODULE, "trial.json", "."],
            cwd=tmp_path,
            env=environment(os.environ, "") | {"SCALEMARK_ORCHESTRATOR": ""},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ended.returncode == 1
    reported = "its ranks could not be watched, and were ended: [Errno 28] No space left on device"
    assert ended.stderr.startswith(f"failed: {reported}\n")
    assert RunFolder(tmp_path).read_result().message == reported


def test_a_folder_named_by_hand_may_hold_an_earlier_trial(tmp_path, begin):
    trial = begin(f"{HEALTHY}end(Outcome.COMPLETED) if name == 'worker-0' else wait()\n")
    assert trial.outcome() == (0, Outcome.COMPLETED, "")
    with trial.folder.log.open("a") as log:
        log.write("ValueError: of the earlier trial\n")
    earlier = trial.folder.steps, trial.folder.doing, trial.folder.telemetry
    for path in earlier:
        path.write_text("of the earlier trial")
    write_script(trial.folder.path, "import os\nname == 'worker-0' and os.abort()\nwait()\n")
    again = ran(
        [sys.executable, "-m", MODULE, "run/trial.json", "run"],
        cwd=tmp_path,
        env=environment(os.environ, "") | {"SCALEMARK_ORCHESTRATOR": ""},
    )
    assert again.returncode == RANK_LOST
    assert again.stdout.startswith("rank worker-0: 127.0.0.1:")
    assert "failed: rank worker-0 ended by SIGABRT; see log.txt\n" in again.stderr
    assert not any(path.exists() for path in earlier)
    assert trial.folder.read_result().outcome == Outcome.FAILED
