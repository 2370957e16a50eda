"""Opens and reads only regular files of bounded size: a link, FIFO or device is refused."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 2**26


def open_regular(path: Path) -> BinaryIO:
    """Open a file without waiting for another program or leaving the folder. Raises OSError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # ENXIO: a socket
            raise _refused(path, "a link" if path.is_symlink() else "a socket") from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _refused(path, "a FIFO" if stat.S_ISFIFO(mode) else "a device")


def read_regular(path: Path, most_bytes: int = MOST_BYTES) -> str:
    """Return the text of a file. Raises OSError, also for a larger one, and ValueError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= most_bytes:
            return file.read(size).decode()  # not what is appended meanwhile
    raise OSError(errno.EFBIG, f"found more than {most_bytes} bytes, wanted no more", str(path))


def _refused(path: Path, what: str) -> OSError:
    return OSError(errno.EINVAL, f"found {what}, wanted a regular file", str(path))
