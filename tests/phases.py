"""Tells from outside what a running sweep.py is at: by its open files, what it has loaded, and its rows in the database.

```
  IMPORTS ──► RECOVERING ──► PLANNING ──► STARTING ──► RUNNING ──► RECORDING ──► ENDING ──► DRAWING
     database opened   dead ones closed   its row is there    pid told   trainer ended   row ended   charts loaded
```
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from enum import StrEnum
from pathlib import Path

_CHART_LIBRARIES = ("/matplotlib/",)
_EXTENSIONS = ("/lib-dynload/", "/site-packages/")  # Python's own start loads none
_LOOK_EVERY_S = 0.002


class Phase(StrEnum):
    """In the order in which a sweep comes to them; from RECORDING it goes back to STARTING while repeats are left."""

    IMPORTS = "imports"
    RECOVERING = "recovering"
    PLANNING = "planning"
    STARTING = "starting"
    RUNNING = "running"
    RECORDING = "recording"
    ENDING = "ending"
    DRAWING = "drawing"


class Watched:
    """One sweep.py, seen from outside."""

    def __init__(self, process: subprocess.Popen[bytes], database: Path) -> None:
        self.process, self.database = process, database
        self._has_opened_database = False

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def phase(self) -> Phase | None:
        """None once it has ended, and while Python itself starts: no code of ours runs yet."""
        if not self.is_alive:
            return None
        if not self._has_opened_database and not self._opens_database():
            return Phase.IMPORTS if self._has_loaded(_EXTENSIONS) else None
        self._has_opened_database = True
        if not (
            own := self._rows(
                "SELECT id, ended_at FROM orchestrators WHERE pid = ? AND start_ticks = ?",
                self._identity(),
            )
        ):
            return Phase.RECOVERING if num_dead(self.database) else Phase.PLANNING
        if own[-1][1] is not None:
            return Phase.DRAWING if self._has_loaded(_CHART_LIBRARIES) else Phase.ENDING
        trainer = self.trainer()
        if trainer is None:
            return Phase.STARTING
        return Phase.RUNNING if state_of(trainer[0]) not in ("Z", "") else Phase.RECORDING

    def trainer(self) -> tuple[int, Path] | None:
        """Process id and run folder of an attempt that it runs, as the database has it; None when there is none."""
        of_own = "orchestrator_id IN (SELECT id FROM orchestrators WHERE pid = ? AND start_ticks = ? AND ended_at IS NULL)"
        found = self._rows(
            f"SELECT pid, run_dir FROM repeats WHERE state = 'running' AND pid IS NOT NULL AND {of_own}",
            self._identity(),
        )
        return (int(found[0][0]), Path(found[0][1])) if found else None

    def freeze(self) -> None:
        """Stop it, and wait until it stands still or has ended."""
        self.process.send_signal(signal.SIGSTOP)
        while self.is_alive and state_of(self.process.pid) != "T":
            time.sleep(_LOOK_EVERY_S)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _identity(self) -> tuple[int, int]:
        fields = _stat(self.process.pid)
        return self.process.pid, int(fields[19]) if fields else 0

    def _opens_database(self) -> bool:
        with suppress(OSError):  # it ends just now
            for descriptor in list(Path(f"/proc/{self.process.pid}/fd").iterdir()):
                with suppress(OSError):  # it closes that one just now
                    if str(descriptor.readlink()).startswith(str(self.database)):
                        return True
        return False

    def _has_loaded(self, names: tuple[str, ...]) -> bool:
        with suppress(OSError):
            loaded = Path(f"/proc/{self.process.pid}/maps").read_text()
            return any(name in loaded for name in names)
        return False

    def _rows(self, query: str, values: tuple[int, ...]) -> list[tuple]:
        return rows(self.database, query, values)


def num_dead(database: Path) -> int:
    """Orchestrators that have ended without saying so: the next command recovers what they left."""
    return sum(
        start != _start_ticks(pid)
        for pid, start in rows(
            database, "SELECT pid, start_ticks FROM orchestrators WHERE ended_at IS NULL"
        )
    )


def rows(database: Path, query: str, values: tuple[object, ...] = ()) -> list[tuple]:
    """Empty while the database is being made."""
    try:
        with closing(
            sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)
        ) as connection:
            return connection.execute(query, values).fetchall()
    except sqlite3.OperationalError:
        return []


def state_of(pid: int) -> str:
    """As ps shows it: T stands still, Z has ended; empty: there is none."""
    fields = _stat(pid)
    return fields[0] if fields else ""


def _start_ticks(pid: int) -> int | None:
    fields = _stat(pid)
    return None if not fields or fields[0] in "ZX" else int(fields[19])


def _stat(pid: int) -> list[str]:
    """From its state on."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
