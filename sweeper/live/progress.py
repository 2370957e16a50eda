"""Shows how a sweep goes, on stderr: one line per attempt that has ended, and below them, on a
terminal, one that is redrawn while the sweep runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.live import Live

from scalemark.records.axes import Engine
from scalemark.records.devices import DeviceKind
from scalemark.records.environment_axes import INHERITED, is_variable
from scalemark.records.outcomes import State
from scalemark.records.trial import strategy_axes
from sweeper.devices.machine import Inventory
from sweeper.live.doing import doing_text
from sweeper.live.line import progress_line
from sweeper.live.log import Log, Started
from sweeper.live.snapshot import Counts, EndedAttempt, RunningAttempt, Snapshot
from sweeper.live.view import LABEL_WIDTH, plain_line
from sweeper.planning.plan import Plan, PlannedTrial


class Progress(Log):
    """Shows the whole sweep, as the process sees it that runs or controls it."""

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
        self._varying = sorted(plan.varying_axes() - {"num_gpus", "hosts"})
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
            slots=tuple(range(inventory.num_devices)),
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
            self._live.update(progress_line(snapshot), refresh=True)
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
                value = INHERITED if is_variable(axis) else "nothing"
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
