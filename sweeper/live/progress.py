"""Says on stderr how a sweep goes: a line per attempt that has ended and, on a terminal, the table
of `sweeper/live/view.py` below them, redrawn while the sweep runs.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.live import Live
from rich.text import Text

from scalemark.cli.terminal import make_console, silence
from scalemark.records.axes import Engine
from scalemark.records.free_axes import INHERITED, is_env_variable
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import State
from scalemark.records.trial import strategy_axes
from scalemark.run_folder import RunFolder
from scalemark.text.untrusted import quoted
from sweeper.devices.machine import Inventory
from sweeper.live.snapshot import Counts, EndedAttempt, RunningAttempt, Snapshot, doing_text
from sweeper.live.view import LABEL_WIDTH, ended_line, plain_line, render
from sweeper.planning.plan import Plan, PlannedTrial, varying_axes


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


class Progress(Log):
    """Shows the whole sweep, as the process sees it that runs it."""

    def __init__(
        self,
        sweep: str,
        machine: str,
        inventory: Inventory,
        plan: Plan,
        console: Console | None = None,
    ) -> None:
        super().__init__("sweep", console)
        self.sweep = sweep
        self._varying = sorted(varying_axes(plan.specs) - {"num_gpus", "hosts"})
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self.is_live = self._console.is_terminal
        self._total = plan.num_attempts
        # nothing runs before a fork server has done so once
        is_loading = any(trial.spec.engine == Engine.tensorflow for trial in plan.trials)
        self._first = "loading TensorFlow" if is_loading else ""
        self._states: Counter[State] = Counter()
        self._snapshot = Snapshot(
            sweep=sweep,
            machine=machine,
            kind=inventory.kind,
            slots=tuple(range(inventory.num_devices * (inventory.num_hosts or 1))),
            running=(),
            counts=Counts(pending=self._total),
        )
        labels = [self.label(trial) for trial in plan.trials if trial.num_repeats]
        self._label_width = max([LABEL_WIDTH, *map(len, labels)])

    def __enter__(self) -> Progress:
        if self.is_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_live:
            self._live.stop()

    def show(
        self, running: Sequence[Started], now_s: float, eta_s: float | None, note: str = ""
    ) -> None:
        if not self.is_live:
            return
        num_left = self._total - self._states.total()
        states = self._states | Counter({State.PENDING: num_left})
        if running:
            self._first = ""
        note = note or self._first
        self._snapshot = replace(
            self._snapshot,
            running=tuple(self._view(started, now_s) for started in running),
            counts=Counts.of(states, len(running)),
            eta_s=eta_s,
            notes=(note,) if note else (),
        )
        self.draw(self._snapshot)

    def draw(self, snapshot: Snapshot) -> None:
        """Draw a snapshot where `is_live`: of this sweep, which may run elsewhere."""
        try:
            self._live.update(render(snapshot), refresh=True)
        except OSError:
            self.go_quiet()

    def attempt_ended(self, ended: EndedAttempt, *, again: str | None, eta_s: float | None) -> None:
        num_done = self._states.total() - self._states[State.INTERRUPTED]
        width = self._label_width
        line = plain_line(
            ended, num_done=num_done, total=self._total, eta_s=eta_s, label_width=width
        )
        self.print_ended(line, again)

    def settled(self, state: State) -> None:
        self._states[state] += 1

    def go_quiet(self) -> None:
        self.is_live = False
        super().go_quiet()

    def label(self, trial: PlannedTrial) -> str:
        """Return the trial, with what tells it from its neighbors."""
        words = [trial.label]
        if self._snapshot.kind is DeviceKind.SIMULATED_GPU:
            words.insert(0, "simulated")
        named = strategy_axes(trial.spec.axes)  # by the label
        for axis in self._varying:
            if axis in named:
                continue
            value = trial.spec.axes.get(axis)
            if value in ("", None):
                value = INHERITED if is_env_variable(axis) else "nothing"
            words.append(f"{axis}={value}")
        return " ".join(words)

    def _view(self, started: Started, now_s: float) -> RunningAttempt:
        return RunningAttempt(
            slots=started.devices,
            label=self.label(started.trial),
            repeat=started.repeat,
            attempt=started.attempt,
            doing=doing_text(started.folder, started.trial.spec),
            elapsed_s=now_s - started.started_s,
            expected_s=started.expected_s,
        )
