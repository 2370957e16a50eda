"""One attempt by a command: near and far halves around tests.tiny_trainer, whatever the command does to signals and folders."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from scalemark.records.attempt import HOST_LOST, RANK_LOST
from scalemark.records.measurement import Outcome
from scalemark.run_folder import RunFolder
from sweeper import elsewhere
from sweeper.elsewhere import Far, Near
from sweeper.end_elsewhere import judge
from sweeper.launchers.prefix import Elsewhere, Remote
from sweeper.starts import environment
from tests.filled import PLACEMENT
from tests.slurm import until
from tests.specs import small
from tests.sweeper.processes import wait_for_end, wait_until

pytestmark = pytest.mark.integration

ENDLESS = 903  # seeds of tests.tiny_trainer
DEAF = 904
EATS_SIGNALS = ("sh", "-c", 'trap "" INT TERM HUP; "$@"; exit $?', "eater")
# the folder of all runs is an empty one there, as on another machine
HIDES_FOLDER = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none {parent}; cd /; exec "$@"', "-")
PREFIXES = {
    "env": ("env",),
    "sh": ("sh", "-c", "{command}"),
    "eats signals": EATS_SIGNALS,
    "greets": ("sh", "-c", 'echo welcome; exec "$@"', "-"),
    "hides the folder": HIDES_FOLDER,
}


class World:
    """Starts one attempt in a run folder of its own."""

    def __init__(self, path: Path) -> None:
        self.folder = RunFolder(path / "runs" / "attempt")
        self.folder.path.mkdir(parents=True)

    def start(
        self,
        prefix: tuple[str, ...] = ("env",),
        seed: int = 1,
        **more: object,
    ) -> None:
        words = tuple(word.replace("{parent}", str(self.folder.path.parent)) for word in prefix)
        where = Elsewhere(
            prefix=words,
            **{
                "python": sys.executable,
                "module": "tests.tiny_trainer",
                "orphan_timeout_s": 10.0,
                **more,
            },
        )
        self.folder.trial.write_text(small(seed=seed).to_json())
        self.folder.placement.write_text(PLACEMENT.to_json())
        self.remote = Remote(lambda *_: [where])
        self.process = self.remote.start(self.folder, environment(os.environ, ""))

    def end(self) -> int | None:
        wait_for_end(self.process.descriptor)
        return self.process.reap()

    def trainers(self) -> list[int]:
        """Process ids of the trainers of this folder, wherever they work."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                variables = (process / "environ").read_bytes()
            except OSError:
                continue
            if b"tests.tiny_trainer" in words and str(self.mark).encode() in variables:
                found.append(int(process.name))
        return found

    @property
    def mark(self) -> str:
        return os.environ["SCALEMARK_TEST_MARK"]

    def until_stepping(self) -> None:
        wait_until(lambda: self.folder.doing.exists() and self.trainers(), self.process.descriptor)


@pytest.fixture
def world(tmp_path, monkeypatch):
    monkeypatch.setenv("SCALEMARK_TEST_MARK", f"elsewhere-{tmp_path.name}-{os.getpid()}")
    made = World(tmp_path)
    yield made
    for trainer in made.trainers():
        os.kill(trainer, signal.SIGKILL)


def until_none_runs(world: World) -> None:
    until(lambda: not world.trainers())


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_folder_holds_what_a_local_attempt_leaves(world, prefix):
    world.start(PREFIXES[prefix])
    assert world.end() == 0, world.folder.log.read_text()
    result = world.folder.read_result()
    assert (result.outcome, result.measurement.throughput) == (Outcome.COMPLETED, 100.0)
    assert len(world.folder.steps.read_text().splitlines()) == 3
    assert not world.folder.token.exists()


@pytest.mark.parametrize("is_supervisor", [False, True])
def test_only_a_supervisor_of_ranks_works_in_the_run_folder_itself(world, is_supervisor):
    world.start(seed=ENDLESS, folder=str(world.folder.path) if is_supervisor else "")
    world.until_stepping()
    (trainer,) = world.trainers()
    assert (str(world.folder.trial) in psutil.Process(trainer).cmdline()) == is_supervisor
    world.process.signal_group(signal.SIGINT)
    assert world.end() == 130
    assert world.folder.read_result().outcome == Outcome.INTERRUPTED


@pytest.mark.parametrize("prefix", ["env", "eats signals", "hides the folder"])
def test_a_signal_reaches_the_trainer_past_any_command(world, prefix):
    world.start(PREFIXES[prefix], ENDLESS)
    world.until_stepping()
    world.process.signal_group(signal.SIGINT)
    assert world.end() == 130
    assert world.folder.read_result().outcome == Outcome.INTERRUPTED
    until_none_runs(world)


@pytest.mark.parametrize("prefix", ["env", "eats signals", "hides the folder"])
def test_nothing_runs_on_once_near_is_killed(world, prefix):
    world.start(PREFIXES[prefix], DEAF)
    world.until_stepping()
    world.process.signal_group(signal.SIGKILL)
    assert world.end() == -signal.SIGKILL
    until_none_runs(world)


def test_an_attempt_ends_when_near_is_silent_for_too_long(world):
    world.start(seed=DEAF)
    world.until_stepping()
    os.kill(world.process.pid, signal.SIGSTOP)
    until_none_runs(world)
    os.kill(world.process.pid, signal.SIGCONT)
    assert world.end() == HOST_LOST
    assert world.folder.read_result().outcome == Outcome.INTERRUPTED


LEAVES_MUCH = 909
SLOW = """
import os, time
while part := os.read(0, 2**16):
    os.write(1, part)
    time.sleep(0.09)
"""


def test_a_large_file_is_sent_however_long_that_takes(world):
    """A bug: nothing was heard meanwhile, and the attempt ended each time as if it were lost."""
    slowly = f"\"$@\" | {sys.executable} -c '{SLOW}'"
    prefix = (*HIDES_FOLDER[:4], f"mount -t tmpfs none {{parent}}; cd /; {slowly}", "-")
    world.start(prefix, LEAVES_MUCH, orphan_timeout_s=4.0)
    assert world.end() == 0, world.folder.log.read_text()
    assert world.folder.read_result().outcome == Outcome.COMPLETED
    assert (world.folder.path / "model.bin").read_bytes() == bytes(range(256)) * 2**14
    assert not world.folder.token.exists()


def test_a_file_that_cannot_be_kept_here_fails_the_attempt_and_says_why(world):
    (world.folder.path / "model.bin").mkdir()
    world.start(HIDES_FOLDER, LEAVES_MUCH)
    assert world.end() == 1
    result = world.folder.read_result()
    assert (result.outcome, result.message[-14:]) == (Outcome.FAILED, "Is a directory")


class Halves:
    """A far half with a private folder, and the run folder that near fills from what it sends."""

    def __init__(self, path: Path) -> None:
        self.there, self.here = path / "there", path / "here"
        self.there.mkdir()
        self.here.mkdir()
        self._near = Near.__new__(Near)
        self._near.where, self._near.folder, self._near.token = {"rank": ""}, self.here, Path("no")
        self._far = Far(self)
        self._far._private, self._far._request = self.there, {"log": "log.txt"}

    def send_files(self, *, is_over: bool = False) -> None:
        self._far._send_files(is_over=is_over)

    def send(self, kind: str, **values: object) -> None:
        """Take a message of far, as its channel does."""
        self._near._heed({"kind": kind, **values})


@pytest.mark.parametrize("name", ["metrics.json", "steps.jsonl"])
def test_a_file_that_is_written_anew_in_its_place_arrives_as_it_is(tmp_path, name):
    """A bug: larger and in the same place, it was taken for one that grew."""
    halves = Halves(tmp_path)
    for text in ('{"a": 1}\n', '{"bb": 12}\n{"cc": 3}\n'):
        (halves.there / name).write_text(text)
        halves.send_files()
    halves.send_files(is_over=True)
    assert (halves.here / name).read_text() == text


def test_lines_are_seen_while_they_are_added_and_large_files_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(elsewhere, "PART_BYTES", 10)
    halves = Halves(tmp_path)
    (halves.here / "log.txt").write_text("from near\n")
    for number in (1, 2):
        for name in ("log.txt", "steps.jsonl"):
            with (halves.there / name).open("a") as file:
                file.write(f"{number}\n" * 3 * number)
        halves.send_files()
    (halves.there / "model.bin").write_bytes(b"m" * 25)
    (halves.there / "result.json").write_text("{}")
    halves.send_files()
    steps = "1\n" * 3 + "2\n" * 6
    assert (halves.here / "log.txt").read_text() == f"from near\n{steps}"
    assert (halves.here / "steps.jsonl").read_text() == steps
    assert sorted(path.name for path in halves.here.iterdir()) == ["log.txt", "steps.jsonl"]
    halves.send_files(is_over=True)
    assert (halves.here / "steps.jsonl").read_text() == steps
    assert (halves.here / "model.bin").read_bytes() == b"m" * 25
    assert (halves.here / "result.json").read_text() == "{}"


def test_a_folder_that_a_killed_process_left_is_removed_by_the_next(tmp_path, monkeypatch):
    """A bug: each rank of a job left its folder on its node, as Slurm kills what is left of a job."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    make = "from sweeper import elsewhere; elsewhere.make_private()"
    subprocess.run([sys.executable, "-c", make], check=True)
    (left,) = tmp_path.iterdir()
    own = [elsewhere.make_private() for _ in range(2)]
    assert not left.exists()
    assert sorted(tmp_path.iterdir()) == sorted(own)


RELAY = ("sh", "-c", 'cat | "$@" | cat', "relay")


def test_a_link_that_stalls_is_given_up_on_both_sides(world):
    world.start(RELAY, seed=DEAF, orphan_timeout_s=3.0)
    world.until_stepping()
    (relay,) = psutil.Process(world.process.pid).children()
    os.killpg(relay.pid, signal.SIGSTOP)
    try:
        until_none_runs(world)
        assert world.end() == HOST_LOST
    finally:
        os.killpg(relay.pid, signal.SIGKILL)
    result = world.folder.read_result()
    assert result.outcome == Outcome.INTERRUPTED
    assert result.message.endswith("was lost: it said nothing for 8 s")


def test_a_link_that_stalls_before_its_host_is_reached_is_given_up(world):
    world.start(("sh", "-c", "sleep 1000", "-"), orphan_timeout_s=1.0, locks=True, host="b")
    assert world.end() == HOST_LOST
    assert world.folder.read_result().message == "b was lost: it said nothing for 6 s"


def test_a_lost_host_is_an_interruption_with_its_reason(world):
    kills = 'echo "Connection to b closed by remote host." >&2; kill -9 $(pgrep -P $$)'
    world.start(("sh", "-c", f'exec 3<&0; "$@" <&3 & sleep 5; {kills}', "-"), DEAF)
    assert world.end() == HOST_LOST
    result = world.folder.read_result()
    assert result.outcome == Outcome.INTERRUPTED
    assert result.message.endswith("was lost: Connection to b closed by remote host.")


REFUSES = ("sh", "-c", "echo ssh: connect to host b: Connection refused >&2; exit 255", "-")


def test_a_rank_whose_host_is_lost_says_so_to_its_supervisor(world):
    world.start(REFUSES, host="b", rank="worker-1")
    assert world.end() == HOST_LOST
    assert "Error: b: ssh: connect to host b: Connection refused" in world.folder.log.read_text()


def test_a_kill_is_told_from_one_by_the_kernel_on_its_host(world, tmp_path):
    world.start(seed=DEAF)
    world.until_stepping()
    os.kill(*world.trainers(), signal.SIGKILL)
    assert world.end() == RANK_LOST
    result = world.folder.read_result()
    assert result.message.startswith(
        "killed by SIGKILL from outside (perhaps for lack of memory) on "
    )
    near = Halves(tmp_path)._near
    near.host, near.where["shares_host"] = "b", False
    near.end = {"exit_code": -signal.SIGKILL, "signal": 0, "kernel_killed": True}
    message = "killed by the kernel for lack of host memory on b"
    assert judge(near, 0) == (4, Outcome.OUT_OF_MEMORY, message)
    near.where["rank"] = "worker-0"  # it says so itself, and its supervisor that it was killed
    assert judge(near, 0) == (4, Outcome.OUT_OF_MEMORY, message)
    near.end["kernel_killed"] = False
    assert judge(near, 0) == (-signal.SIGKILL, "", "")


def test_a_rank_that_the_engine_of_its_host_ends_is_interrupted(tmp_path):
    near = Halves(tmp_path)._near
    near.host, near.said, near.where = "b", [], {"rank": "worker-1", "ends": []}
    near.end = {"exit_code": -signal.SIGKILL, "signal": signal.SIGTERM}
    assert judge(near, 0) == (HOST_LOST, Outcome.INTERRUPTED, "ended by SIGTERM on b")


ENDS = ((r"TIME LIMIT", "timed_out", "its time limit came"),)


@pytest.mark.parametrize(
    ("prefix", "more", "code", "outcome", "message"),
    [
        (("sh", "-c", "echo nope >&2; exit 3", "-"), {}, 1, "failed", ": nope"),
        (("env",), {"python": "/nowhere/python"}, 1, "failed", "/nowhere/python"),
        (("env",), {"host_kind": "other"}, 1, "failed", "another kind of host"),
        (
            ("env",),
            {"host_kind": "other", "rank": "worker-0"},
            1,
            "failed",
            "another kind of host",
        ),
        (
            REFUSES,
            {"host": "b"},
            HOST_LOST,
            "interrupted",
            "b: ssh: connect to host b: Connection refused",
        ),
        # ssh, when its host dies before the attempt has begun
        (
            ("sh", "-c", "exit 255", "-"),
            {"host": "b"},
            HOST_LOST,
            "interrupted",
            "b: exit code 255",
        ),
        (
            ("sh", "-c", 'timeout 3 "$@"; echo JOB CANCELLED DUE TO TIME LIMIT >&2', "-"),
            {"ends": ENDS},
            HOST_LOST,
            "timed_out",
            "its time limit came",
        ),
    ],
)
def test_what_cannot_run_or_is_ended_says_why(world, prefix, more, code, outcome, message):
    world.start(prefix, ENDLESS, **more)
    assert world.end() == code, world.folder.log.read_text()
    result = world.folder.read_result()
    assert result.outcome == outcome
    assert message in result.message
    until_none_runs(world)


def test_a_host_that_another_sweep_measures_on_is_waited_for(world, tmp_path, monkeypatch):
    monkeypatch.setenv("SCALEMARK_LOCK_DIR", str(tmp_path))
    with (tmp_path / "host.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        world.start(locks=True, seed=1)
        wait_until(lambda: _waits(tmp_path / "waiting.lock"), world.process.descriptor)
        assert world.folder.token.exists()
        assert not world.folder.result.exists()
    assert world.end() == 0


def _waits(lock: Path) -> bool:
    """Whether another process has opened it."""
    for opened in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            is_other = opened.parts[2] != str(os.getpid())
            if is_other and str(opened.readlink()) == str(lock):
                return True
        except OSError:
            continue  # it has ended, or is another user's
    return False
