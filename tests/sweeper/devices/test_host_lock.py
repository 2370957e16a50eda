"""One exclusive attempt per host, or several that share no GPU; the end of a process, however it ends, gives all back."""

import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from scalemark.host.processes import ORCHESTRATOR_VARIABLE
from sweeper import SweepRefusedError
from sweeper.devices import host_lock
from sweeper.devices.host_lock import VARIABLE, HostLock
from tests.conftest import PROJECT
from tests.slurm import until
from tests.sweeper.processes import PATIENCE_S, has_begun


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "locks"


@pytest.fixture
def lock(folder):
    return HostLock({VARIABLE: str(folder)})


class Other:
    """Another orchestrator: a real process that holds what it is reported to, until it is ended."""

    def __init__(self, folder, *uuids, shares_host: bool, named: str = sys.executable) -> None:
        script = (
            "import sys; from sweeper.devices.host_lock import HostLock; "
            f"held = HostLock().try_hold({uuids!r}, shares_host={shares_host}); print(held is not None, flush=True); sys.stdin.read()"
        )
        # under another name Python may not find the environment that it belongs to
        paths = os.pathsep.join([str(PROJECT), *filter(None, sys.path)])
        environment = os.environ | {VARIABLE: str(folder), "PYTHONPATH": paths}
        self.process = subprocess.Popen(
            [named, "-c", script],
            executable=sys.executable,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.holds = self.process.stdout.readline() == b"True\n"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> None:
        self.process.communicate()


@pytest.fixture
def other(folder):
    started = []

    def start(*uuids, shares_host, named=sys.executable):
        started.append(Other(folder, *uuids, shares_host=shares_host, named=named))
        return started[-1]

    yield start
    for each in started:
        if each.process.returncode is None:
            each.end()


@pytest.mark.parametrize("others_share", [True, False])
@pytest.mark.parametrize("shares_host", [True, False])
def test_an_exclusive_attempt_runs_beside_nobody(lock, other, shares_host, others_share):
    assert other("GPU-a", shares_host=others_share).holds
    held = lock.try_hold(["GPU-b"], shares_host=shares_host)
    assert (held is not None) == (shares_host and others_share)
    if held:
        held.close()


def test_sharing_attempts_share_no_gpu(lock, other):
    first = other("GPU-a", "GPU-b", shares_host=True)
    assert lock.try_hold(["GPU-c", "GPU-b"], shares_host=True) is None
    assert f"process {first.process.pid} (" in lock.held_by
    assert lock.held_by.endswith("holds " + str(lock.folder / "GPU-b.lock"))
    assert other(
        "GPU-c", shares_host=True
    ).holds  # what was taken before the refusal was given back


@pytest.mark.parametrize(
    ("named", "reported"),
    [
        ("\x1b]0;title\x07train\x9b31m", r"\x1b]0;title\x07train\U0000009b31m"),
        ("train --password hunter2", "train --password ***"),
        (
            f"{'x' * 70} postgresql://me:{'hunter2' * 9}@host/db",
            f"{'x' * 70} postgresql://me:***@ho",
        ),  # of 100 characters
    ],
)
def test_who_holds_it_is_reported_without_secrets_and_controls(lock, other, named, reported):
    assert other(shares_host=False, named=named).holds
    assert lock.try_hold(shares_host=False) is None
    assert reported in lock.held_by
    assert "hunter" not in lock.held_by
    assert lock.held_by.isprintable()


def test_the_gpu_in_the_way_is_reported_but_not_for_the_host(lock, other):
    first = other("GPU-b", shares_host=True)
    assert lock.taken is None
    assert lock.try_hold(["GPU-a", "GPU-b"], shares_host=True) is None
    assert lock.taken == "GPU-b"
    assert lock.try_hold(shares_host=False) is None
    assert (lock.taken, bool(lock.held_by)) == (None, True)
    assert lock.try_hold(["GPU-b"], shares_host=True) is None
    first.end()
    with lock.try_hold(["GPU-b"], shares_host=True):
        assert (lock.taken, lock.held_by) == (None, "")


@pytest.fixture
def sweeps(folder):
    """Two more of this host."""
    return HostLock({VARIABLE: str(folder)}), HostLock({VARIABLE: str(folder)})


def test_two_sweeps_that_each_want_the_host_alternate(sweeps):
    for number in (0, 1, 0, 1):
        runs, waits = sweeps[number], sweeps[1 - number]
        with runs.try_hold(shares_host=False):
            assert waits.try_hold(shares_host=False) is None
        assert runs.try_hold(shares_host=False) is None
        assert "waiting.lock, and it is its turn" in runs.held_by


def test_a_sweep_makes_way_once(sweeps):
    runs, waits = sweeps
    with runs.try_hold(shares_host=False):
        assert waits.try_hold(shares_host=False) is None
    assert runs.try_hold(shares_host=False) is None
    assert runs.try_hold(shares_host=False) is not None


def test_nobody_makes_way_for_a_process_that_has_ended(lock, other):
    with lock.try_hold(shares_host=False):
        waits = other(shares_host=False)
        assert not waits.holds
        waits.kill()
    assert lock.try_hold(shares_host=False) is not None


def test_a_sweep_alone_never_makes_way(lock):
    for _ in range(3):
        held = lock.try_hold(shares_host=False)
        assert held is not None, lock.held_by
        held.close()


def test_who_got_the_host_waits_no_longer(sweeps):
    runs, waits = sweeps
    with runs.try_hold(shares_host=False):
        assert waits.try_hold(shares_host=False) is None
    held = waits.try_hold(shares_host=False)
    assert held is not None, waits.held_by
    held.close()
    assert runs.try_hold(shares_host=False) is not None


def test_a_sharing_sweep_makes_way_with_all_it_has(sweeps):
    shares, waits = sweeps
    first, second = (shares.try_hold([gpu], shares_host=True) for gpu in ("GPU-a", "GPU-b"))
    assert waits.try_hold(shares_host=False) is None
    for each in (first, second):
        assert shares.try_hold(["GPU-c"], shares_host=True) is None
        assert waits.try_hold(shares_host=False) is None
        each.close()
    assert shares.try_hold(["GPU-c"], shares_host=True) is None
    with waits.try_hold(shares_host=False):
        assert shares.try_hold(["GPU-c"], shares_host=True) is None


def test_a_sweep_that_only_lacks_a_gpu_makes_nobody_end_what_runs(sweeps):
    runs, waits = sweeps
    with runs.try_hold(["GPU-a"], shares_host=True):
        assert waits.try_hold(["GPU-a"], shares_host=True) is None
        assert runs.try_hold(["GPU-b"], shares_host=True)


@pytest.mark.parametrize("shares_host", [True, False])
@pytest.mark.parametrize("end", [Other.kill, Other.end], ids=["kill -9", "end"])
def test_the_end_of_a_process_gives_its_locks_back(lock, other, end, shares_host):
    first = other("GPU-a", shares_host=shares_host)
    assert lock.try_hold(["GPU-a"], shares_host=shares_host) is None
    end(first)
    with lock.try_hold(["GPU-a"], shares_host=shares_host):
        assert lock.held_by == ""


def test_closing_gives_the_locks_back_and_a_second_time_does_nothing(lock, other):
    held = lock.try_hold(shares_host=False)
    assert not other(shares_host=False).holds
    held.close()
    held.close()
    assert other(shares_host=False).holds


def test_two_attempts_of_one_process_are_kept_apart_too(lock):
    with lock.try_hold(["GPU-a"], shares_host=True), lock.try_hold(["GPU-b"], shares_host=True):
        assert lock.try_hold(["GPU-a"], shares_host=True) is None


def test_closing_frees_locks_that_a_fork_has_open(lock):
    held = lock.try_hold(shares_host=False)
    child = os.fork()
    if child == 0:
        signal.pause()
    try:
        assert lock.try_hold(shares_host=False) is None
        held.close()
        assert lock.try_hold(shares_host=False) is not None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_started_process_does_not_inherit_the_locks(lock, other):
    held = lock.try_hold(shares_host=False)
    child = subprocess.Popen(["sleep", "100"], close_fds=False)
    os.close(
        held.descriptors.pop()
    )  # without unlocking: the kernel sees whether it is open anywhere else
    try:
        assert other(shares_host=False).holds
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    "text", [b"", b"\xff\xfe", b"12", b"4" * 50, b"0\n", b"999999999\n", b"../../x\n"]
)
def test_who_holds_is_reported_as_far_as_it_can_be(lock, folder, text):
    with lock.try_hold(shares_host=False):
        (folder / "host.lock").write_bytes(text)
        assert lock.try_hold(shares_host=False) is None
        assert lock.held_by == f"another process holds {folder}/host.lock"


def test_a_lock_whose_file_was_tidied_away_is_taken_anew(lock, folder, monkeypatch):
    """It is removed between being opened and being locked; then the folder is, too."""
    opened = host_lock.open_lock
    removed = []

    def open_and_remove(*file):
        descriptor = opened(*file)
        if not removed:
            removed.append((folder / "host.lock").unlink())
        return descriptor

    monkeypatch.setattr(host_lock, "open_lock", open_and_remove)
    with lock.try_hold(shares_host=False):
        assert (folder / "host.lock").exists()
        assert lock.try_hold(shares_host=False) is None
    shutil.rmtree(folder)
    assert lock.try_hold(shares_host=False)


def test_files_are_for_all_users_whatever_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        HostLock({VARIABLE: str(tmp_path / "locks")})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "locks").stat().st_mode) == 0o1777
    assert stat.S_IMODE((tmp_path / "locks/host.lock").stat().st_mode) == 0o666


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("mode", [0o666, 0o644])
def test_the_files_of_another_user_lock_as_well(mode):
    """0o644: made by a program that knew no better; it can be locked, and not signed."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        lock = HostLock({VARIABLE: f"{place}/locks"})
        (Path(place) / "locks/host.lock").chmod(mode)
        assert as_nobody(
            lambda: HostLock({VARIABLE: f"{place}/locks"}).try_hold(shares_host=False) is not None
        )
        with lock.try_hold(["GPU-a"], shares_host=True):
            assert as_nobody(
                lambda: (
                    HostLock({VARIABLE: f"{place}/locks"}).try_hold(["GPU-a"], shares_host=True)
                    is None
                )
            )
            assert as_nobody(
                lambda: (
                    HostLock({VARIABLE: f"{place}/locks"}).try_hold(["GPU-b"], shares_host=True)
                    is not None
                )
            )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_folder_that_cannot_be_written_is_refused_with_the_way_out():
    def is_refused() -> bool:
        with pytest.raises(
            SweepRefusedError,
            match=rf"/locks: Permission denied; .* choose a local folder .* {VARIABLE}=",
        ):
            HostLock({VARIABLE: f"{place}/locks"})
        return True

    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        assert as_nobody(is_refused)
        (Path(place) / "locks").mkdir(mode=0o755)
        assert as_nobody(is_refused)


def as_nobody(ask) -> bool:
    """What another user is answered, in a process of its own."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            code = 0 if ask() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def make_link(path: Path) -> None:
    (path.parent / "elsewhere").write_text("precious")
    path.symlink_to("elsewhere")


def make_hard_link(path: Path) -> None:
    (path.parent / "elsewhere").write_text("precious")
    path.hardlink_to(path.parent / "elsewhere")


@pytest.mark.parametrize(
    ("put", "said"),
    [
        (make_link, "Too many levels of symbolic links"),
        (make_hard_link, "host.lock is not a plain file of its own"),
        (os.mkfifo, "host.lock is not a plain file of its own"),
        (Path.mkdir, "Is a directory"),
    ],
)
def test_a_link_or_pipe_in_the_place_of_a_lock_is_refused(folder, put, said):
    folder.mkdir()
    put(folder / "host.lock")
    with pytest.raises(SweepRefusedError, match=said):
        HostLock({VARIABLE: str(folder)})
    assert not (folder / "elsewhere").exists() or (folder / "elsewhere").read_text() == "precious"


def test_a_link_in_the_place_of_the_default_folder_is_refused(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "default").symlink_to("elsewhere")
    monkeypatch.setattr("sweeper.devices.host_lock.DEFAULT_FOLDER", tmp_path / "default")
    with pytest.raises(SweepRefusedError, match="default: Not a directory"):
        HostLock({})
    assert (
        HostLock({VARIABLE: str(tmp_path / "default")}).folder == tmp_path / "elsewhere"
    )  # the user knows


def test_a_file_system_without_locks_is_refused(lock, monkeypatch):
    def fail(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)
    with pytest.raises(SweepRefusedError, match=r"No locks available; .* choose a local folder"):
        lock.try_hold(shares_host=False)


def test_who_takes_the_host_over_ends_what_a_killed_holder_left(lock, other, folder, tmp_path):
    holder = other(shares_host=False)
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    starters = [
        (holder.process.pid, folder),
        (os.getpid(), folder),
        (holder.process.pid, tmp_path / "locks of others"),
    ]
    with ExitStack() as processes:
        started = []
        for pid, locks in starters:
            marked = {**os.environ, ORCHESTRATOR_VARIABLE: str(pid), VARIABLE: str(locks)}
            started.append(processes.enter_context(subprocess.Popen(sleep, env=marked)))
            processes.callback(started[-1].kill)
        until(lambda: all(has_begun(process.pid) for process in started))
        assert lock.try_hold(shares_host=False) is None
        assert lock.num_orphans == 0
        holder.kill()
        with lock.try_hold(shares_host=False):
            orphan, *others = started
            assert orphan.wait(PATIENCE_S) == -signal.SIGKILL
            assert [process.poll() for process in others] == [None, None]
        assert lock.num_orphans == 1


def orphan_of(holder, folder):
    """A process that an orchestrator started, and that outlives it."""
    marked = {**os.environ, ORCHESTRATOR_VARIABLE: str(holder.process.pid), VARIABLE: str(folder)}
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=marked)


def test_who_takes_a_gpu_over_ends_what_its_killed_holder_left(lock, other, folder):
    """Another sweep had signed the lock of the host since."""
    holder = other("GPU-a", shares_host=True)
    with orphan_of(holder, folder) as orphan:
        until(lambda: has_begun(orphan.pid))
        lock.try_hold(["GPU-b"], shares_host=True).close()
        assert lock.num_orphans == 0
        holder.kill()
        with lock.try_hold(["GPU-a"], shares_host=True):
            assert orphan.wait(PATIENCE_S) == -signal.SIGKILL
        assert lock.num_orphans == 1


def test_nothing_is_measured_beside_an_orphan_that_does_not_end(lock, other, folder, monkeypatch):
    """As one whose device hangs."""
    monkeypatch.setattr("scalemark.host.orphans._ORPHANS_END_WITHIN_S", 0.0)
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda *_: None)
    holder = other(shares_host=False)
    with orphan_of(holder, folder) as orphan:
        until(lambda: has_begun(orphan.pid))
        holder.kill()
        assert lock.try_hold(shares_host=False) is None
        assert (
            lock.held_by
            == f"process {orphan.pid}, which a killed sweep left running and SIGKILL does not end"
        )
        orphan.kill()
        orphan.wait()
        lock.try_hold(shares_host=False).close()


def test_a_process_is_no_orphan_of_itself(lock, other, folder):
    """Whoever starts a sweep from what a dead one left running."""
    holder = other(shares_host=False)
    holder.kill()
    script = "from sweeper.devices.host_lock import HostLock; lock = HostLock(); lock.try_hold(shares_host=False); print(lock.num_orphans)"
    marked = {
        **os.environ,
        ORCHESTRATOR_VARIABLE: str(holder.process.pid),
        VARIABLE: str(folder),
        "PYTHONPATH": str(PROJECT),
    }
    ended = subprocess.run(
        [sys.executable, "-c", script], env=marked, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "0\n")
