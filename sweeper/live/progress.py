"""Shows how a sweep goes, on stderr: a live view on a terminal, one line per ended attempt
everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.live import Live

from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import Result
from scalemark.records.outcomes import State
from sweeper.devices.machine import Inventory
from sweeper.live.doing import doing_text
from sweeper.live.listener import Started
from sweeper.live.log import Log
from sweeper.live.snapshot import Counts, EndedAttempt, RunningAttempt, SlotName, Snapshot
from sweeper.live.view import LABEL_WIDTH, plain_line, render
from sweeper.planning.plan import Plan, PlannedTrial

NUM_RECENT = 5


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
            self.go_quiet()

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
        self.print_ended(line, again)
        self._snapshot = replace(
            self._snapshot, recent=(*self._snapshot.recent, ended)[-NUM_RECENT:]
        )

    def settled(self, state: State) -> None:
        self._states[state] += 1

    def go_quiet(self) -> None:
        self._live = None
        super().go_quiet()

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
