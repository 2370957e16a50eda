"""Copies a database that may be in use, checks the copy, and writes its digest beside it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from scalemark.cli.terminal import Progress, silent
from store.database import locate, path_of
from store.errors import StoreError
from store.sqlite import SqliteFile, copy_whole, make_last, remove_file


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUp:
    """A backup that was made."""

    path: Path
    size_bytes: int
    sha256: str
    digest_path: Path  # holds the digest, as `sha256sum -c` takes it


def back_up(url: str, to: str, *, force: bool = False, progress: Progress = silent) -> BackedUp:
    """Copy a SQLite database as of one moment to `to`, also while a sweep writes.

    Raises StoreError when there is none, it is damaged, or `to` exists without `force`.
    """
    database, target = locate(url), path_of(to)
    if not isinstance(database, SqliteFile):
        raise StoreError(f"{database.name}: a server's database; pg_dump makes its backup")
    _check_target(database, target, force)
    digest_path = digest_path_of(target)
    with database.explained():
        if not database.is_made():
            raise StoreError(
                f"{database.name}: no such database, or an empty one; there is nothing to back up"
            )
    draft = target.with_name(f"{target.name}.copy")
    try:
        remove_file(draft)  # of who was killed while making it
        with SqliteFile(target).explained():
            copy_whole(database.path, draft, progress)
        digest = sha256_of(draft, progress)
        # not before: until then it is that of the copy that is there
        digest_path.unlink(missing_ok=True)
        draft.replace(target)
        digest_path.write_text(f"{digest}  {target.name}\n")
        make_last(target.parent)
    except OSError as error:
        why = f"{target}: {error.strerror}"
        raise StoreError(f"{why}; nothing was copied; choose another file") from error
    finally:
        remove_file(draft)
    size_bytes = target.stat().st_size
    return BackedUp(path=target, size_bytes=size_bytes, sha256=digest, digest_path=digest_path)


def digest_path_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")


def sha256_of(path: Path, progress: Progress = silent) -> str:
    """Return the digest of the file alone, without its write-ahead log."""
    found, size, done = hashlib.sha256(), path.stat().st_size, 0
    with path.open("rb") as file:
        while block := file.read(2**22):
            found.update(block)
            done += len(block)
            progress("bytes digested", done, size)
    return found.hexdigest()


def _check_target(database: SqliteFile, target: Path, force: bool) -> None:
    file = database.path
    if target.exists() and file.exists() and target.samefile(file):
        raise StoreError(f"{target}: the database itself; name another file for the copy")
    if target.exists() and not force:
        raise StoreError(f"{target}: exists; name another file, or give --force to replace it")
    if not target.parent.is_dir():
        raise StoreError(
            f"{target}: there is no folder {target.parent}; make it, or name another file"
        )
