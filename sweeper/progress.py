"""Shows how a sweep goes, on stderr: a live view on a terminal, one line per ended attempt
everywhere.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.text import Text

from scalemark.cli.terminal import make_console, silence
from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import Result
from scalemark.records.outcomes import State
from scalemark.run_folder.folder import RunFolder
from scalemark.text.untrusted import quoted
from store.live.doing import doing_text
from store.live.snapshot import Counts, EndedAttempt, RunningAttempt, SlotName, Snapshot
from store.live.view import LABEL_WIDTH, plain_line, render
from sweeper.devices.machine import Inventory
from sweeper.planning.plan import Plan, PlannedTrial

NUM_RECENT = 5


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


class Listener(Protocol):
    """Whom an orchestrator tells how it goes."""

    @property
    def is_live(self) -> bool:
        """Whether `show` draws anything."""

    def note(self, text: str) -> None:
        """Something people should know, once."""

    def show(
        self, running: Sequence[Started], now_s: float, eta_s: float | None, note: str = ""
    ) -> None:
        """Draw the sweep as it is; `note` is what it waits for."""

    def attempt_started(self, started: Started) -> None:
        """Its process runs."""

    def attempt_ended(
        self,
        trial: PlannedTrial,
        result: Result,
        duration_s: float,
        *,
        again: str | None,
        eta_s: float | None,
    ) -> None:
        """`again`: why the repeat is tried again, or None."""

    def settled(self, state: State) -> None:
        """A repeat needs no more attempts."""


class Progress:
    """One sweep's progress, see `Listener`."""

    def __init__(
        self,
        sweep: str,
        machine: str,
        inventory: Inventory,
        plan: Plan,
        console: Console | None = None,
    ) -> None:
        self._console = console or make_console(stderr=True)
        self._varying = sorted(plan.varying_axes() - {"num_gpus", "hosts"})
        self._live = (
            Live(console=self._console, auto_refresh=False, transient=True)
            if self._console.is_terminal
            else None
        )
        self._total = plan.num_attempts
        self._states: Counter[State] = Counter()
        self._snapshot = Snapshot(
            sweep=sweep,
            machine=machine,
            kind=inventory.kind,
            slots=tuple(
                SlotName.of(inventory.kind, number) for number in range(inventory.num_devices)
            ),
            running=(),
            counts=Counts(pending=self._total),
        )
        self._label_width = max(
            [LABEL_WIDTH, *(len(self.label(trial)) for trial in plan.trials if trial.num_repeats)]
        )

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    @property
    def is_live(self) -> bool:
        return self._live is not None

    def note(self, text: str) -> None:
        self._print(Text(f"sweep: {quoted(text)}"))

    def show(
        self, running: Sequence[Started], now_s: float, eta_s: float | None, note: str = ""
    ) -> None:
        self.draw(
            tuple(self._view(started, now_s) for started in running) if self._live else (),
            eta_s,
            note,
        )

    def draw(
        self,
        views: tuple[RunningAttempt, ...],
        eta_s: float | None,
        note: str = "",
        num_slots: int = 0,
    ) -> None:
        """What runs may run elsewhere, too; `num_slots` there are by now, when they are more than
        there were.
        """
        if not self._live:
            return
        if num_slots > len(self._snapshot.slots):
            slots = tuple(SlotName.of(self._snapshot.kind, number) for number in range(num_slots))
            self._snapshot = replace(self._snapshot, slots=slots)
        self._snapshot = replace(
            self._snapshot,
            running=views,
            counts=self._counts(len(views)),
            eta_s=eta_s,
            notes=(note,) if note else (),
        )
        try:
            self._live.update(render(self._snapshot), refresh=True)
        except OSError:
            self._go_quiet()

    def attempt_started(self, started: Started) -> None:
        """`show` shows it, and lines are of ended attempts."""

    def attempt_ended(
        self,
        trial: PlannedTrial,
        result: Result,
        duration_s: float,
        *,
        again: str | None,
        eta_s: float | None,
    ) -> None:
        self.ended(EndedAttempt.of(self.label(trial), result, duration_s), again=again, eta_s=eta_s)

    def ended(self, ended: EndedAttempt, *, again: str | None, eta_s: float | None) -> None:
        """As `attempt_ended`, of what is told already."""
        num_done, width = self._states.total(), self._label_width
        line = plain_line(
            ended, num_done=num_done, total=self._total, eta_s=eta_s, label_width=width
        )
        self._print(line.append(f"  ({again})") if again else line)
        self._snapshot = replace(
            self._snapshot, recent=(*self._snapshot.recent, ended)[-NUM_RECENT:]
        )

    def settled(self, state: State) -> None:
        self._states[state] += 1

    def _print(self, text: Text) -> None:
        try:
            self._console.print(text)
        except OSError:
            self._go_quiet()

    def _go_quiet(self) -> None:
        """The terminal was closed, or who read our lines has gone: the sweep goes on, and its
        results are in the database.
        """
        self._live = None
        silence(sys.stderr, *([sys.stdout] if sys.stdout.isatty() else []))

    def _counts(self, num_running: int) -> Counts:
        return Counts.of(
            self._states | Counter({State.PENDING: self._total - self._states.total()}), num_running
        )

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

    def label(self, trial: PlannedTrial) -> str:
        """The trial, with what tells it from its neighbors."""
        values = ((axis, getattr(trial.spec, axis)) for axis in self._varying)
        told = (f"{axis}={'nothing' if value == '' else value}" for axis, value in values)
        simulated = ["simulated"] if self._snapshot.kind is DeviceKind.SIMULATED_GPU else []
        return " ".join([*simulated, trial.label, *told])
