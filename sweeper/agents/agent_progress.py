"""What an agent tells who looks at its log: one line per attempt that starts, and that ends, on
stderr.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.text import Text

from scalemark.cli.terminal import make_console, silence
from scalemark.records.measurement import Result
from scalemark.records.outcomes import State
from scalemark.text.untrusted import quoted
from store.live.snapshot import EndedAttempt
from store.live.view import ended_line
from sweeper.planning.plan import PlannedTrial
from sweeper.progress import Started


class AgentProgress:
    """See `sweeper.progress.Listener`. How far the sweep is, its controller shows."""

    is_live = False

    def __init__(self, host: str) -> None:
        self._host = host
        self._console = make_console(stderr=True)

    def note(self, text: str) -> None:
        self._print(Text(f"agent {self._host}: {quoted(text)}"))

    def show(
        self, running: Sequence[Started], now_s: float, eta_s: float | None, note: str = ""
    ) -> None:
        """Nothing is drawn."""

    def attempt_started(self, started: Started) -> None:
        devices = (
            f"device{'s' if len(started.devices) > 1 else ''} "
            f"{', '.join(map(str, started.devices))}"
        )
        self.note(f"runs {started.trial.label} repeat {started.repeat} on {devices}")

    def attempt_ended(
        self,
        trial: PlannedTrial,
        result: Result,
        duration_s: float,
        *,
        again: str | None,
        eta_s: float | None,
    ) -> None:
        line = Text(f"agent {self._host}: ").append_text(
            ended_line(EndedAttempt.of(trial.label, result, duration_s))
        )
        self._print(line.append(f"  ({again})") if again else line)

    def settled(self, state: State) -> None:
        """The controller counts."""

    def _print(self, text: Text) -> None:
        try:
            self._console.print(text)
        except OSError:  # nobody reads it any more: the results are what counts
            silence(sys.stderr)
