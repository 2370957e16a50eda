"""Opens and reads regular files alone, of bounded size: a link, a FIFO or a device in a folder that
others write is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

MOST_BYTES = 2**26

_BLOCK_BYTES = 2**20  # read at once: so much memory is taken before anything is read


def open_regular(path: Path) -> BinaryIO:
    """The file, which is no link: nothing waits for another program, and nothing outside the folder
    is read. Raises OSError.
    """
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
    """Its text. Raises OSError, also for a file of more bytes than that, and ValueError for what is
    no text.
    """
    content = bytearray()
    with open_regular(path) as file:
        while len(content) <= most_bytes and (block := file.read(_BLOCK_BYTES)):
            content += block
    if len(content) > most_bytes:
        told = f"found more than {most_bytes} bytes, wanted no more"
        raise OSError(errno.EFBIG, told, str(path))
    return content.decode()


def _refused(path: Path, what: str) -> OSError:
    return OSError(errno.EINVAL, f"found {what}, wanted a regular file", str(path))
