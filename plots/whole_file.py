"""Writes files whole or not at all: a reader sees the old one or the new, never half of one."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def draft_of(path: Path) -> Iterator[Path]:
    """Yield a file to write, of the same ending, which then replaces `path`, or what a link leads
    to. A device or a pipe is written to directly. Raises OSError.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    target = path.resolve() if path.is_symlink() else path
    if target.exists() and not target.is_file():
        yield target
        return
    draft = target.with_name(f".scalemark-{os.getpid()}-{secrets.token_hex(4)}{target.suffix}")
    try:
        yield draft
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
