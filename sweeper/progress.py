"""Shows how a sweep goes, on stderr: a live view on a terminal, one line per ended attempt everywhere."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.live import Live
from rich.text import Text

from store.records import Doing, Result, RunFolder, State, TrialSpec
from store.terminal import make_console, silence
from sweeper.live import plain_line, render
from sweeper.machine import Inventory
from sweeper.plan import Plan, PlannedTrial
from sweeper.snapshot import Counts, EndedAttempt, RunningAttempt, SlotName, Snapshot

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


class Progress:
    """One sweep's progress."""

    def __init__(self, sweep: str, machine: str, inventory: Inventory, plan: Plan, console: Console | None = None) -> None:
        self._console = console or make_console(stderr=True)
        self._varying = sorted(plan.varying_axes() - {"num_gpus"})
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self._console.is_terminal else None
        self._total = plan.num_attempts
        self._states: Counter[State] = Counter()
        self._snapshot = Snapshot(
            sweep=sweep,
            machine=machine,
            kind=inventory.kind,
            slots=tuple(SlotName.of(inventory.kind, number) for number in range(inventory.num_devices)),
            running=(),
            counts=Counts(pending=self._total),
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
        """Whether `show` draws anything."""
        return self._live is not None

    def note(self, text: str) -> None:
        """Something people should know, once."""
        self._print(Text(f"sweep: {text}"))

    def show(self, running: Sequence[Started], now_s: float, eta_s: float | None, note: str = "") -> None:
        """Draw the sweep as it is; `note` is what it waits for."""
        if not self._live:
            return
        views = tuple(self._view(started, now_s) for started in running)
        self._snapshot = replace(
            self._snapshot, running=views, counts=self._counts(len(views)), eta_s=eta_s, notes=(note,) if note else ()
        )
        try:
            self._live.update(render(self._snapshot), refresh=True)
        except OSError:
            self._go_quiet()

    def attempt_ended(
        self, trial: PlannedTrial, result: Result, duration_s: float, *, again: str | None, eta_s: float | None
    ) -> None:
        """`again`: why the repeat is tried again, or None."""
        ended = EndedAttempt.of(self._label(trial), result, duration_s)
        line = plain_line(ended, num_done=self._states.total(), total=self._total, eta_s=eta_s)
        self._print(line.append(f"  ({again})") if again else line)
        self._snapshot = replace(self._snapshot, recent=(*self._snapshot.recent, ended)[-NUM_RECENT:])

    def settled(self, state: State) -> None:
        """A repeat needs no more attempts."""
        self._states[state] += 1

    def _print(self, text: Text) -> None:
        try:
            self._console.print(text)
        except OSError:
            self._go_quiet()

    def _go_quiet(self) -> None:
        """The terminal was closed, or who read our lines has gone: the sweep goes on, and its results are in the database."""
        self._live = None
        silence(sys.stderr, *([sys.stdout] if sys.stdout.isatty() else []))

    def _counts(self, num_running: int) -> Counts:
        return Counts.of(self._states | Counter({State.PENDING: self._total - self._states.total()}), num_running)

    def _view(self, started: Started, now_s: float) -> RunningAttempt:
        return RunningAttempt(
            slots=started.devices,
            label=self._label(started.trial),
            repeat=started.repeat,
            attempt=started.attempt,
            doing=doing_text(started.folder, started.trial.spec),
            elapsed_s=now_s - started.started_s,
            expected_s=started.expected_s,
        )

    def _label(self, trial: PlannedTrial) -> str:
        """The trial, with what tells it from its neighbors."""
        told = (f"{axis}={getattr(trial.spec, axis)}" for axis in self._varying)
        return " ".join([trial.label, *told])


def doing_text(folder: RunFolder, spec: TrialSpec) -> str:
    """What a trainer is at, for people."""
    try:
        doing, last_step = folder.read_doing(), folder.last_step()
    except (OSError, ValueError):  # its deadlines decide what comes of it
        return "unknown"
    if doing is not Doing.STEPPING or last_step is None:
        return str(doing)
    step, about = last_step + 1, spec.min_warm_up_steps + spec.num_steps
    return f"step {step} of about {about}" if step <= about else f"step {step}"  # min_window_s decides, or warm-up
