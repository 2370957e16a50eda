"""Masks who ran the kit in what is attached: home folders, host names, user names and secrets."""

from __future__ import annotations

import os
import platform
import pwd
import re
import socket
import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from scalemark.text.untrusted import MASK, without_secrets

_HOMES = re.compile(r"/(home|Users)/[^/\s\"':]+")
# names of nobody, which stand in text for other things
_COMMON = frozenset(
    (
        "cpu",
        "docker",
        "gpu",
        "host",
        "localhost",
        "nobody",
        "root",
        "runner",
        "ubuntu",
        "user",
        "vm",
    )
)
_FIRST_UID_OF_PEOPLE = 1000


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
