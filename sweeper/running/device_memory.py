"""Watches the logs of a trial's processes for the line with which a GPU's allocator gives up.

The op that lacks memory fails, and its trial ends. Not so where other GPUs wait for that one in
NCCL, whose op hears no cancellation: then nothing follows this line. With a process per GPU each
has a log of its own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from scalemark.host.memory import GAVE_UP
from scalemark.run_folder import RunFolder, open_regular

_MOST_BYTES = 2**20  # of one look; more is written within seconds only by a summary that follows
_LINE_BYTES = 400  # that a look goes back, for a line of which it saw the beginning


class AllocatorWatch:
    """Reads what was added to the logs since the last look."""

    def __init__(self, folder: RunFolder) -> None:
        self.gave_up = ""  # the first such line
        self._folder = folder
        self._read_bytes: Counter[Path] = Counter()

    def look(self) -> None:
        """Raises OSError where a log cannot be read."""
        if self.gave_up:
            return
        for log in self._folder.logs():
            self._look_into(log)

    def _look_into(self, log: Path) -> None:
        with open_regular(log) as file:
            file.seek(self._read_bytes[log])
            added = file.read(_MOST_BYTES)
        self._read_bytes[log] += max(0, len(added) - _LINE_BYTES)
        found = GAVE_UP.search(added.decode(errors="replace"))
        if found and not self.gave_up:
            # GPUs of other processes have the same numbers
            where = "" if log == self._folder.log else f" ({log.name})"
            self.gave_up = f"{found[0]}{where}"
