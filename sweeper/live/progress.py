"""Says on stderr how a sweep goes: a line per attempt that has ended and, on a terminal, the table
of `sweeper/live/view.py` below them, redrawn while the sweep runs.
"""

import sys
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

from scalemark.cli.terminal import make_console, silence
from scalemark.records.axes import INHERITED, Engine, bare_name, is_env_variable
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import AttemptResult, State
from scalemark.records.trial import strategy_axes, width_name
from scalemark.text.untrusted import quoted
from sweeper.devices.machine import Inventory
from sweeper.grid.plan import Plan, PlannedTrial, varying_axes
from sweeper.live import view
from sweeper.loop.backlog import Given


class Progress:
    """Hears from the loop how a sweep goes, and shows it."""

    def __init__(
        self,
        sweep: str,
        machine: str,
        inventory: Inventory,
        plan: Plan,
        console: Console | None = None,
    ) -> None:
        self._sweep, self._machine, self._kind = sweep, machine, inventory.kind
        self._varying = sorted(varying_axes(plan.specs) - {"num_gpus", "hosts"})
        self._console = console or make_console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self.is_live = self._console.is_terminal  # whether `show` draws anything
        self._total = plan.num_attempts
        # nothing runs before a fork server has done so once
        self._first = ""
        if any(spec.engine == Engine.tensorflow for spec in plan.specs):
            self._first = "loading TensorFlow"
        self._states: Counter[State] = Counter()
        labels = [self.label(trial) for trial in plan.trials if trial.num_repeats]
        self._label_width = max([view.LABEL_WIDTH, *map(len, labels)])

    def __enter__(self) -> "Progress":
        if self.is_live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_live:
            self._live.stop()

    def note(self, text: str) -> None:
        """Print something that people should know, once."""
        self._print(Text(f"sweep: {quoted(text)}"))

    def show(
        self, running: Sequence[Given], now_s: float, eta_s: float | None, note: str = ""
    ) -> None:
        """Draw the sweep as it is, where `is_live`; `note` is what it waits for."""
        if not self.is_live:
            return
        if running:
            self._first = ""
        notes = filter(None, (note or self._first,))
        states = self._states | Counter({State.PENDING: self._total - self._states.total()})
        snapshot = view.Snapshot(
            sweep=self._sweep,
            machine=self._machine,
            kind=self._kind,
            running=tuple(self._view(given, now_s) for given in running),
            counts=view.counts_of(states, len(running)),
            eta_s=eta_s,
            notes=tuple(notes),
        )
        try:
            self._live.update(view.render(snapshot), refresh=True)
        except OSError:
            self._go_quiet()

    def attempt_ended(
        self,
        trial: PlannedTrial,
        result: AttemptResult,
        duration_s: float,
        *,
        again: str | None,
        eta_s: float | None,
    ) -> None:
        """`again` is why the repeat is tried again, or None."""
        num_done = self._states.total() - self._states[State.INTERRUPTED]
        line = view.plain_line(
            self.label(trial),
            result,
            duration_s,
            num_done=num_done,
            total=self._total,
            eta_s=eta_s,
            label_width=self._label_width,
        )
        if again:
            line.append(f"  ({again})")
        self._print(line)

    def settled(self, state: State) -> None:
        """A repeat needs no more attempts."""
        self._states[state] += 1

    def label(self, trial: PlannedTrial) -> str:
        """Return the trial, with what tells it from its neighbors."""
        words, named = [trial.label], strategy_axes(trial.spec.axes)  # by the label
        if trial.spec.engine == Engine.command:  # of its axes, which may be many, those that vary
            width = width_name(trial.spec.num_gpus, trial.spec.hosts)
            words, named = [f"{trial.spec.model}-{width}"], ()
        if self._kind is DeviceKind.SIMULATED_GPU:
            words.insert(0, "simulated")
        for axis in self._varying:
            if axis in named:
                continue
            value = trial.spec.axes.get(axis)
            if value in ("", None):
                value = "nothing"
                if is_env_variable(axis):
                    value = INHERITED
            words.append(f"{bare_name(axis)}={value}")
        return " ".join(words)

    def _view(self, given: Given, now_s: float) -> view.RunningAttempt:
        repeat = given.repeat
        return view.RunningAttempt(
            slots=given.placement.devices,
            label=self.label(repeat.trial),
            repeat=repeat.open.repeat,
            attempt=repeat.open.num_attempts,
            doing=view.doing_text(given.folder, repeat.trial.spec),
            elapsed_s=now_s - given.started_s,
            expected_s=repeat.task.expected_s,
        )

    def _print(self, text: Text) -> None:
        try:
            self._console.print(text)
        except OSError:
            self._go_quiet()

    def _go_quiet(self) -> None:
        """Print no more, as nobody reads it. The sweep goes on, and its results are stored."""
        self.is_live = False
        silence(sys.stderr)
        if sys.stdout.isatty():
            silence(sys.stdout)
