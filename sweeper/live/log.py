"""Lines on stderr about attempts that start and end, for a terminal and for log files alike."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from scalemark.cli.terminal import make_console, silence
from scalemark.records.outcomes import State
from scalemark.run_folder.folder import RunFolder
from scalemark.text.untrusted import quoted
from sweeper.live.snapshot import EndedAttempt
from sweeper.live.view import ended_line
from sweeper.planning.plan import PlannedTrial


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """An attempt that runs."""

    trial: PlannedTrial
    repeat: int
    attempt: int
    devices: tuple[int, ...]
    folder: RunFolder
    started_s: float
    expected_s: float | None


class Log:
    """Hears from the loop how a sweep goes, and prints lines that begin with `who`."""

    is_live = False  # whether `show` draws anything

    def __init__(self, who: str, console: Console | None = None) -> None:
        self._who = who
        self._console = console or make_console(stderr=True)

    def note(self, text: str) -> None:
        """Print something that people should know, once."""
        self.print(Text(f"{self._who}: {quoted(text)}"))

    def label(self, trial: PlannedTrial) -> str:
        return trial.label

    def show(
        self, running: Sequence[Started], now_s: float, eta_s: float | None, note: str = ""
    ) -> None:
        """Draw the sweep as it is, where `is_live`; `note` is what it waits for."""

    def attempt_started(self, started: Started) -> None:
        """Its process runs. A log of a whole sweep has lines of ended attempts alone."""

    def attempt_ended(self, ended: EndedAttempt, *, again: str | None, eta_s: float | None) -> None:
        """`again` is why the repeat is tried again, or None."""
        self.print_ended(Text(f"{self._who}: ").append_text(ended_line(ended)), again)

    def settled(self, state: State) -> None:
        """A repeat needs no more attempts."""

    def print_ended(self, line: Text, again: str | None) -> None:
        self.print(line.append(f"  ({again})") if again else line)

    def print(self, text: Text) -> None:
        try:
            self._console.print(text)
        except OSError:
            self.go_quiet()

    def go_quiet(self) -> None:
        """Print no more: the terminal was closed, or the reader of our lines has gone. The sweep
        goes on, and its results are in the database.
        """
        silence(sys.stderr)
        if sys.stdout.isatty():
            silence(sys.stdout)


class AgentLog(Log):
    """Tells what an agent runs; its controller shows how far the whole sweep is."""

    def attempt_started(self, started: Started) -> None:
        plural = "" if len(started.devices) == 1 else "s"
        devices = f"device{plural} {', '.join(map(str, started.devices))}"
        self.note(f"runs {started.trial.label} repeat {started.repeat} on {devices}")
