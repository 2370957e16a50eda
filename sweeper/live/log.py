"""Lines on stderr about attempts that start and end, for a terminal and for log files alike."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from scalemark.cli.terminal import make_console, silence
from scalemark.records.measurement import Result
from scalemark.records.outcomes import State
from scalemark.text.untrusted import quoted
from sweeper.live.listener import Started
from sweeper.live.snapshot import EndedAttempt
from sweeper.live.view import ended_line
from sweeper.planning.plan import PlannedTrial


class Log:
    """Prints lines that begin with `who`; a `Listener` that draws nothing."""

    def __init__(self, who: str, console: Console | None = None) -> None:
        self._who = who
        self._console = console or make_console(stderr=True)

    @property
    def is_live(self) -> bool:
        return False

    def note(self, text: str) -> None:
        self.print(Text(f"{self._who}: {quoted(text)}"))

    def show(
        self, running: Sequence[Started], now_s: float, eta_s: float | None, note: str = ""
    ) -> None:
        """A log has no view to draw."""

    def attempt_started(self, started: Started) -> None:
        """A log of a whole sweep has lines of ended attempts alone."""

    def attempt_ended(
        self,
        trial: PlannedTrial,
        result: Result,
        duration_s: float,
        *,
        again: str | None,
        eta_s: float | None,
    ) -> None:
        line = Text(f"{self._who}: ")
        line.append_text(ended_line(EndedAttempt.of(trial.label, result, duration_s)))
        self.print_ended(line, again)

    def settled(self, state: State) -> None:
        """A log counts nothing."""

    def print_ended(self, line: Text, again: str | None) -> None:
        """Print the line of an ended attempt, and why its repeat is tried again."""
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
        silence(sys.stderr, *([sys.stdout] if sys.stdout.isatty() else []))


class AgentLog(Log):
    """Tells what an agent runs; its controller shows how far the whole sweep is."""

    def __init__(self, host: str) -> None:
        super().__init__(f"agent {host}")

    def attempt_started(self, started: Started) -> None:
        devices = ", ".join(map(str, started.devices))
        noun = "devices" if len(started.devices) > 1 else "device"
        self.note(f"runs {started.trial.label} repeat {started.repeat} on {noun} {devices}")
