"""Watches a trainer's log for the line with which a GPU's allocator gives up.

The op that lacks memory fails, and its trial ends. Not so where other GPUs wait for that one in
NCCL, whose op hears no cancellation: then nothing follows this line.
"""

from __future__ import annotations

from pathlib import Path

from scalemark.host.gpu_memory import GAVE_UP
from scalemark.run_folder.regular_file import open_regular

_MOST_BYTES = 2**20  # of one look; more is written within seconds only by a summary that follows
_LINE_BYTES = 400  # that a look goes back, for a line of which it saw the beginning


class AllocatorWatch:
    """Reads what was added to a log since the last look."""

    def __init__(self, log: Path) -> None:
        self.gave_up = ""  # the first such line
        self._log = log
        self._read_bytes = 0

    def look(self) -> None:
        """Raises OSError where the log cannot be read."""
        if self.gave_up:
            return
        try:
            with open_regular(self._log) as file:
                file.seek(self._read_bytes)
                added = file.read(_MOST_BYTES)
        except FileNotFoundError:  # nothing was logged yet
            return
        self._read_bytes += max(0, len(added) - _LINE_BYTES)
        if found := GAVE_UP.search(added.decode(errors="replace")):
            self.gave_up = found[0]
