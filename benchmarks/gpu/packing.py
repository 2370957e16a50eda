"""Packs the kit's folder as one file to attach: report, numbers, logs, database, failed trials.

Who ran the kit is masked in it: home folders, host names, user names and secrets.
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import socket
import sqlite3
import tarfile
from collections.abc import Collection, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.gpu.kit import Kit
from scalemark.records.measurement import Outcome
from scalemark.run_folder import RunFolder
from scalemark.text.untrusted import MASK, without_secrets

_HOMES = re.compile(r"/(home|Users)/[^/\s\"':]+")
# names of nobody, which stand in text for other things
_COMMON = {"cpu", "docker", "gpu", "host", "localhost", "nobody", "root", "runner", "ubuntu"}
_COMMON |= {"user", "vm"}
_FIRST_UID_OF_PEOPLE = 1000
PACK = "gpu-kit.tar.gz"
_TOP = "gpu-kit"  # the folder in the file
_MOST_BYTES = 4 * 2**20  # of one text; a profile is larger, and stays behind


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The texts to mask."""

    homes: tuple[str, ...]  # of who runs the kit, longest first
    words: tuple[str, ...]  # host names and user names

    @classmethod
    def of_this_machine(cls) -> Names:
        """Find the names of this host, of who runs the kit, and of other people with a login."""
        entries = pwd.getpwall()
        users = {entry.pw_name for entry in entries if entry.pw_uid >= _FIRST_UID_OF_PEOPLE}
        users |= {entry.pw_name for entry in entries if entry.pw_uid == os.getuid()}
        hosts = {platform.node(), platform.node().partition(".")[0], socket.getfqdn()}
        homes = {str(Path.home()), os.environ.get("HOME", "")} - {"", "/"}
        return cls(homes=_longest_first(homes), words=_longest_first(users | hosts))

    def masked(self, text: str) -> str:
        """Return the text without these names, and without what looks like a secret."""
        for home in self.homes:
            text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
        text = _HOMES.sub(rf"/\1/{MASK}", text)
        for word in self.words:
            if len(word) > 1 and word.lower() not in _COMMON:
                text = re.sub(rf"(?<![\w-]){re.escape(word)}(?![\w-])", MASK, text)
        return without_secrets(text)

    def mask_database(self, path: Path) -> None:
        """Mask every text of a SQLite file, and leave nothing of the old text in it."""
        with closing(sqlite3.connect(path)) as connection:
            connection.create_function("masked", 1, self.masked, deterministic=True)
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in tables.fetchall():
                for _, column, *_ in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
                    connection.execute(
                        f'UPDATE "{table}" SET "{column}" = masked("{column}") '
                        f"WHERE typeof(\"{column}\") = 'text' "
                        f'AND masked("{column}") <> "{column}"'
                    )
            connection.commit()
            connection.execute("PRAGMA journal_mode = DELETE")
            connection.execute("VACUUM")


def _longest_first(names: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(names, key=lambda name: (-len(name), name)))


def pack(kit: Kit, names: Names) -> Path:
    """Write the file beside what is in it, with names masked; replace an earlier one."""
    path = kit.folder / PACK
    with TemporaryDirectory() as scratch, tarfile.open(path, "w:gz") as archive:
        for source in _texts(kit):
            text = names.masked(source.read_text(errors="replace"))
            copy = Path(scratch) / "text"
            copy.write_text(text)
            where = names.masked(str(source.relative_to(kit.folder)))
            archive.add(copy, f"{_TOP}/{where}", filter=_without_owner)
        if kit.database.exists():
            copy = Path(scratch) / "results.db"
            _copy_database(kit.database, copy)
            names.mask_database(copy)
            archive.add(copy, f"{_TOP}/{kit.database.name}", filter=_without_owner)
    return path


def _texts(kit: Kit) -> Iterator[Path]:
    """Yield what is attached: the files of the folder, logs, stages, and failed trials."""
    for pattern in ("report.md", "*.json", "stages/*.json", "logs/*.log"):
        yield from sorted(kit.folder.glob(pattern))
    for path in sorted(kit.runs.glob("*/*/")):
        if _failed(path):
            yield from (file for file in sorted(path.iterdir()) if _is_text(file))


def _failed(path: Path) -> bool:
    end = RunFolder(path).read_ended()
    return end is None or end.outcome != Outcome.COMPLETED


def _is_text(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= _MOST_BYTES


def _copy_database(source: Path, copy: Path) -> None:
    """Copy with what still lies in the write-ahead log."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(copy)) as new:
        old.backup(new)


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o644
    return entry
