"""Locks that decide which sweep may measure on this host now, for all its users and databases.

```
  exclusive attempt    host.lock: exclusive
  sharing attempt      host.lock: shared     + GPU-....lock of each of its GPUs: exclusive
  waits for host.lock  waiting.lock: shared
```

Open files hold them (flock), so that the end of a process, however it ends, gives them back. The
files stay. A process that gets host.lock after another one ends what a killed holder left running:
nothing runs beside a measurement. A sweep that has had its turn stays away once, with nothing held,
when another one waits for host.lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Protocol

from scalemark.text.untrusted import command_line, quoted
from sweeper.errors import SweepRefusedError
from sweeper.running.recover import end_orphans

VARIABLE = "SCALEMARK_LOCK_DIR"
# not by TMPDIR: where that differs from user to user, nobody is locked out
DEFAULT_FOLDER = Path("/tmp/scalemark-locks")
TURN_S = 30.0
"""How long a sweep may go on while another one waits. A hand-over leaves the host idle for up to a
second, so turns are much longer than that."""
_HOST = "host"
_WAITING = "waiting"
_FILE_MODE = 0o666
_FOLDER_MODE = 0o1777  # sticky: nobody removes the files of others
_PID = re.compile(rb"(\d{1,10})\n")


class Held:
    """The locks of one attempt.

    A process forked from this one without exec has the same files open: only `close` frees them.
    """

    def __init__(self, descriptors: list[int]) -> None:
        self._descriptors = descriptors

    @property
    def is_open(self) -> bool:
        return bool(self._descriptors)

    def close(self) -> None:
        """Give them back; a second time does nothing."""
        while self._descriptors:
            descriptor = self._descriptors.pop()
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:
        self.close()


class Lock(Protocol):
    """Asked by an orchestrator before it starts an attempt."""

    held_by: str  # the holder in the way of the last `try_hold`, for people; empty without one
    # which of the GPUs asked for last is held by another; None when it was not a GPU
    taken: str | None
    num_orphans: int  # processes of killed sweeps that were ended here since it was made

    def try_hold(self, uuids: Sequence[str] = (), *, shares_host: bool) -> Held | None:
        """Take it now or not at all; None when somebody else has it."""

    def is_anothers(self, uuid: str) -> bool:
        """Return whether another sweep measures on this GPU now."""


class NoHostLock:
    """A lock that always grants, for trials that touch no device and measure nothing."""

    held_by = ""
    taken: str | None = None
    num_orphans = 0

    def try_hold(self, uuids: Sequence[str] = (), *, shares_host: bool) -> Held:
        return Held([])

    def is_anothers(self, uuid: str) -> bool:
        return False


class HostLock:
    """The locks of this host. Not for several threads."""

    def __init__(
        self, variables: Mapping[str, str] = os.environ, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Check that the files can be used: better now than before the first trial.

        Raises SweepRefusedError.
        """
        named = variables.get(VARIABLE)
        self.folder = Path(named).expanduser().resolve() if named else DEFAULT_FOLDER
        self.held_by = ""
        self.taken: str | None = None
        self.num_orphans = 0
        self._clock = clock
        # since when nobody else had the host, or a chance to; None: not our turn
        self._turn_began_s: float | None = None
        self._given: list[Held] = []
        # waiting.lock, from a try that the host was in the way of to the next one that succeeds
        self._waiting = Held([])
        try:
            os.close(self._open(_HOST))
        except OSError as error:
            raise self._refusal(error) from error

    def try_hold(self, uuids: Sequence[str] = (), *, shares_host: bool) -> Held | None:
        """Take the whole host, or with `shares_host` these GPUs of it, now or not at all.

        Return None when somebody else has it, or has waited for it too long; `held_by` and `taken`
        then say who has what. Try again in about a second: after a vain try others make way for us.
        Raises SweepRefusedError where the files cannot be used.
        """
        self.held_by, self.taken = "", None
        try:
            if self._gives_way():
                self.held_by = f"another sweep waits at {self._path(_WAITING)}, and it is its turn"
                return None
            held = self._lock_all(uuids, shares_host)
        except OSError as error:
            raise self._refusal(error) from error
        return held

    def is_anothers(self, uuid: str) -> bool:
        """Return whether another sweep measures on this GPU now, or has the whole host.

        Whose processes those of another user are, their locks alone tell. Raises SweepRefusedError
        where the files cannot be used.
        """
        try:
            return any(self._is_locked_by_another(name) for name in (_HOST, uuid))
        except OSError as error:
            raise self._refusal(error) from error

    def _is_locked_by_another(self, name: str) -> bool:
        descriptor = self._open(name)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _signed_by(descriptor) != os.getpid()
        finally:
            os.close(descriptor)
        return False

    def _lock_all(self, uuids: Sequence[str], shares_host: bool) -> Held | None:
        wanted = [(_HOST, fcntl.LOCK_SH if shares_host else fcntl.LOCK_EX)]
        if (
            shares_host
        ):  # always in one order, so that of two sweeps that want the same one gets all
            wanted += [(uuid, fcntl.LOCK_EX) for uuid in sorted(set(uuids))]
        descriptors: list[int] = []
        held = Held(descriptors)
        try:
            for name, mode in wanted:
                descriptor = self._lock(name, mode)
                if descriptor is None:
                    held.close()
                    self._note_failure(name)
                    return None
                descriptors.append(descriptor)
            # who had them last may have been killed, and have left something running
            was_ours = all(_signed_by(descriptor) == os.getpid() for descriptor in descriptors)
            if not was_ours and not self._end_orphans():
                held.close()
                return None
            for descriptor in descriptors:
                _sign(descriptor)
        except OSError:
            held.close()
            raise
        self._waiting.close()
        if self._turn_began_s is None:
            self._turn_began_s = self._clock()
        self._given = [*(each for each in self._given if each.is_open), held]
        return held

    def _end_orphans(self) -> bool:
        """Return whether all have ended."""
        ended, left = end_orphans(VARIABLE, self.folder, DEFAULT_FOLDER)
        self.num_orphans += ended
        if left:
            self.held_by = (
                f"process {left[0]}, which a killed sweep left running and SIGKILL does not end"
            )
        return not left

    def _gives_way(self) -> bool:
        """Make way when our turn is over and somebody waits: until all of ours has ended, and then
        once.
        """
        if self._turn_began_s is None or self._clock() - self._turn_began_s < TURN_S:
            return False
        if not self._somebody_waits():
            return False
        self._given = [held for held in self._given if held.is_open]
        if not self._given:
            self._turn_began_s = None
        return True

    def _somebody_waits(self) -> bool:
        descriptor = self._open(_WAITING)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def _note_failure(self, name: str) -> None:
        if name != _HOST:
            self.taken = name
            self._waiting.close()  # we could have had the host
            return
        self._turn_began_s = None
        if self._waiting.is_open:
            return
        descriptor = self._open(_WAITING)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)  # somebody looks just now whether anybody waits; try next time
        except OSError:
            os.close(descriptor)
            raise
        else:
            self._waiting = Held([descriptor])

    def _lock(self, name: str, mode: int) -> int | None:
        while True:
            descriptor = self._open(name)
            try:
                fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
                if self._is_in_place(name, descriptor):
                    return descriptor
            except BlockingIOError:
                self.held_by = f"{_signer(descriptor)} holds {self._path(name)}"
                os.close(descriptor)
                return None
            except OSError:
                os.close(descriptor)
                raise
            os.close(descriptor)  # removed after it was opened: its lock would lock nobody out

    def _open(self, name: str) -> int:
        """Open the file of a lock, made when it is missing. Raises OSError, also for a link."""
        with self._opened_folder() as folder:
            descriptor = _open_or_make(self._path(name).name, folder)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            os.close(descriptor)
            raise OSError(errno.EINVAL, f"{name}.lock is not a plain file of its own")
        return descriptor

    def _is_in_place(self, name: str, descriptor: int) -> bool:
        try:
            return os.path.samestat(self._path(name).lstat(), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def _path(self, name: str) -> Path:
        return self.folder / f"{name.replace('/', '_')}.lock"

    @contextmanager
    def _opened_folder(self) -> Iterator[int]:
        """Open the folder, made when it is missing. Raises OSError where it is a link."""
        try:
            self.folder.mkdir(parents=True)
            self.folder.chmod(_FOLDER_MODE)  # whatever the umask says
        except FileExistsError:
            pass  # that it is a folder is seen when it is opened
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            yield folder
        finally:
            os.close(folder)

    def _refusal(self, error: OSError) -> SweepRefusedError:
        return SweepRefusedError(
            f"{self.folder}: {error.strerror}; its locks keep the sweeps of one host apart; choose "
            f"a local folder that all users of this host can write to with {VARIABLE}="
        )


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


def _sign(descriptor: int) -> None:
    """Leave our process id, for the messages of others."""
    # a full disk, or a file that we may only read: the lock holds, and others will read of
    # "another process"
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)


def _signed_by(descriptor: int) -> int | None:
    """Return who had it last, as far as that could be written down."""
    found = _PID.fullmatch(os.pread(descriptor, 32, 0))
    return int(found.group(1)) if found else None


def _signer(descriptor: int) -> str:
    """Describe the process that signed, while it lives."""
    pid = _signed_by(descriptor)
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").strip("\0").split("\0")
    except OSError:
        return "another process"  # it has ended, or could not sign
    return f"process {pid} ({quoted(command_line(arguments), 100)})"
