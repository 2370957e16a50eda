"""Locks that decide which sweep may measure on this host now, for all its users and databases.

```
  exclusive attempt    host.lock: exclusive
  sharing attempt      host.lock: shared     + GPU-....lock of each of its GPUs: exclusive
  waits for host.lock  waiting.lock: shared
```

Open files hold them (flock), so that the end of a process, however it ends, gives them back. The
files stay. A process that gets host.lock after another one ends what a killed holder left running:
nothing runs beside a measurement. Sweeps take turns: one that has had the host stays away once when
another one waits for it.
"""

import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from scalemark.host.orphans import end_orphans
from scalemark.text.untrusted import command_line, quoted
from sweeper import SweepRefusedError

VARIABLE = "SCALEMARK_LOCK_DIR"
# not by TMPDIR: where that differs from user to user, nobody is locked out
DEFAULT_FOLDER = Path("/tmp/scalemark-locks")
HOST = "host"
_WAITING = "waiting"
_FILE_MODE = 0o666
_FOLDER_MODE = 0o1777  # sticky: nobody removes the files of others


class Held:
    """The locks of one attempt.

    A process forked from this one without exec has the same files open: only `close` frees them.
    """

    def __init__(self, *descriptors: int) -> None:
        self.descriptors = list(descriptors)

    def close(self) -> None:
        """Give them back; a second time does nothing."""
        while self.descriptors:
            descriptor = self.descriptors.pop()
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def __enter__(self) -> "Held":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class Lock:
    """A lock that always grants, for trials that touch no device and measure nothing."""

    held_by = ""  # the holder in the way of the last `try_hold`, for people; empty without one
    # which of the GPUs asked for last is held by another; None when it was not a GPU
    taken: str | None = None
    num_orphans = 0  # processes of killed sweeps that the last `try_hold` ended

    def try_hold(self, uuids: Sequence[str] = (), *, shares_host: bool) -> Held | None:
        """Take it now or not at all; None when somebody else has it."""
        return Held()


class _BusyError(Exception):
    """Another open file has the lock; `pid` signed it last, where it could."""

    def __init__(self, name: str, pid: int | None) -> None:
        super().__init__(name)
        self.name, self.pid = name, pid


class HostLock(Lock):
    """The locks of this host. Not for several threads."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        """Check that the files can be used: better now than before the first trial.

        Raises SweepRefusedError.
        """
        named = variables.get(VARIABLE)
        self.folder = Path(named).expanduser().resolve() if named else DEFAULT_FOLDER
        self._given: list[Held] = []  # the last may be closed: we had the host last
        # waiting.lock, from a try that the host was in the way of to the next one that succeeds
        self._waiting = Held()
        with self._refusing():
            os.close(open_lock(self.folder, HOST))

    def try_hold(self, uuids: Sequence[str] = (), *, shares_host: bool) -> Held | None:
        """Take the whole host, or with `shares_host` these GPUs of it, now or not at all.

        Return None when somebody else has it, or has waited for it too long; `held_by` and `taken`
        then say who has what. Try again in about a second: after a vain try others make way for us.
        Raises SweepRefusedError where the files cannot be used.
        """
        self.held_by, self.taken, self.num_orphans = "", None, 0
        wanted = {HOST: fcntl.LOCK_SH if shares_host else fcntl.LOCK_EX}
        if shares_host:
            # always in one order, so that of two sweeps that want the same one gets all
            wanted |= dict.fromkeys(sorted(set(uuids)), fcntl.LOCK_EX)
        held = Held()
        with self._refusing():
            if self._gives_way():
                self.held_by = f"another sweep waits at {self._path(_WAITING)}, and it is its turn"
                return None
            try:
                is_ours = self._lock_all(wanted, held)
            except _BusyError as busy:
                held.close()
                self.held_by = f"{_process(busy.pid)} holds {self._path(busy.name)}"
                self._note_failure(busy.name)
                return None
            except OSError:
                held.close()
                raise
        if not is_ours:
            held.close()
            return None
        self._waiting.close()
        self._given = [*(given for given in self._given if given.descriptors), held]
        return held

    def _lock_all(self, wanted: Mapping[str, int], held: Held) -> bool:
        """Return False where a process of the last holder does not end. Raises _BusyError."""
        for name, mode in wanted.items():
            held.descriptors.append(self._lock(name, mode))
        # who had them last may have been killed, and have left something running
        if any(_signed_by(descriptor) != os.getpid() for descriptor in held.descriptors):
            self.num_orphans, left = end_orphans(VARIABLE, self.folder, DEFAULT_FOLDER)
            if left:
                self.held_by = (
                    f"process {left[0]}, which a killed sweep left running and SIGKILL does not end"
                )
                return False
        for descriptor in held.descriptors:
            # a full disk, or a file that we may only read: the lock holds, and others will read of
            # "another process"
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
        return True

    def _gives_way(self) -> bool:
        """Make way where somebody waits: until all of ours has ended, and then once."""
        if not self._given:
            return False
        try:
            os.close(self._lock(_WAITING, fcntl.LOCK_EX))
        except _BusyError:
            self._given = [held for held in self._given if held.descriptors]
            return True
        return False

    def _note_failure(self, name: str) -> None:
        """Wait in line for the host; who lacks a GPU alone does not."""
        if name != HOST:
            self.taken = name
            self._waiting.close()
            return
        self._given.clear()
        if not self._waiting.descriptors:
            with suppress(_BusyError):  # somebody looks just now whether anybody waits: next time
                self._waiting = Held(self._lock(_WAITING, fcntl.LOCK_SH))

    def _lock(self, name: str, mode: int) -> int:
        """Return the open file that has the lock. Raises _BusyError, and OSError."""
        while True:
            descriptor = open_lock(self.folder, name)
            try:
                fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):
                    if os.path.samestat(self._path(name).lstat(), os.fstat(descriptor)):
                        return descriptor
            except BlockingIOError as error:
                pid = _signed_by(descriptor)
                os.close(descriptor)
                raise _BusyError(name, pid) from error
            except OSError:
                os.close(descriptor)
                raise
            os.close(descriptor)  # removed after it was opened: its lock would lock nobody out

    def _path(self, name: str) -> Path:
        return self.folder / _file_name(name)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Raise SweepRefusedError where the files cannot be used."""
        try:
            yield
        except OSError as error:
            raise SweepRefusedError(
                f"{self.folder}: {error.strerror}; its locks keep the sweeps of one host apart; "
                f"choose a local folder that all users of this host can write to with {VARIABLE}="
            ) from error


def open_lock(folder: Path, name: str) -> int:
    """Open the file of a lock, made with its folder if missing. Raises OSError, also for a link."""
    try:
        folder.mkdir(parents=True)
        folder.chmod(_FOLDER_MODE)  # whatever the umask says
    except FileExistsError:
        pass  # that it is a folder is seen when it is opened
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        descriptor = _open_or_make(_file_name(name), opened)
    finally:
        os.close(opened)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        raise OSError(errno.EINVAL, f"{name}.lock is not a plain file of its own")
    return descriptor


def _file_name(name: str) -> str:
    return f"{name.replace('/', '_')}.lock"


def _open_or_make(name: str, folder: int) -> int:
    """Open without O_CREAT first: in a sticky folder it would refuse an existing file of another
    user (fs.protected_regular).
    """
    flags = os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe in its place stops nobody
    while True:
        try:
            return os.open(name, flags | os.O_RDWR, dir_fd=folder)
        except FileNotFoundError:
            pass
        except PermissionError:
            return os.open(name, flags | os.O_RDONLY, dir_fd=folder)  # can be locked all the same
        try:
            descriptor = os.open(
                name, flags | os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE, dir_fd=folder
            )
        except FileExistsError:
            continue  # somebody was faster
        os.fchmod(descriptor, _FILE_MODE)  # whatever the umask says
        return descriptor


def _signed_by(descriptor: int) -> int | None:
    """Return who had it last, as far as that could be written down."""
    text = os.pread(descriptor, 32, 0)
    if re.fullmatch(rb"\d{1,10}\n", text):
        return int(text)
    return None


def _process(pid: int | None) -> str:
    """Describe the process, while it lives."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").strip("\0").split("\0")
    except OSError:
        return "another process"  # it has ended, or could not sign
    return f"process {pid} ({quoted(command_line(arguments), 100)})"
