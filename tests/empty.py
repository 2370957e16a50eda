"""Makes SQLite databases quickly: they are copies of one, with an id of their own."""

import sqlite3
import tempfile
import uuid
from contextlib import closing
from functools import cache
from pathlib import Path

from store.writer import Writer


def make_empty(path: Path | str) -> None:
    """As a writer makes one where there is none."""
    make_copy(path, _made())


def make_copy(path: Path | str, content: bytes) -> None:
    """Make the database whose file holds `content`, but for its id."""
    Path(path).write_bytes(content)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE database_info SET value = ? WHERE name = 'id'", [uuid.uuid4().hex]
        )


@cache
def _made() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        Writer(str(path)).close()
        return path.read_bytes()
