"""Shows how a sweep goes, on stderr: the plan, a live view on a terminal, one line per finished attempt everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from store.records import STAND_INS_NOTE, DeviceKind, Machine, Outcome, Result, RunFolder, Verdict, unusual_axes
from store.terminal import make_console, print_columns
from sweeper.machine import Inventory
from sweeper.plan import Plan, PlannedTrial

_SHOWN = {
    "model": "model",
    "strategy": "strategy",
    "num_gpus": "GPUs",
    "batch_size": "batch",
    "image_px": "px",
    "precision": "precision",
    "data": "data",
    "num_steps": "steps",
}
"""Axes that every plan shows, with their headings; others are shown when they vary."""


class Progress:
    """One sweep's progress. `clock` counts seconds."""

    def __init__(
        self, inventory: Inventory, plan: Plan, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console or make_console(stderr=True)
        self._inventory, self._plan, self._clock = inventory, plan, clock
        self._total = plan.num_attempts
        unusual = {axis for trial in plan.trials for axis in unusual_axes(asdict(trial.spec))}
        self._varying = sorted(plan.varying_axes())
        self._named = sorted({*self._varying, *unusual})
        self._done = 0
        self._durations_s: list[float] = []
        self._live = Live(console=self._console, auto_refresh=False, transient=True) if self._console.is_terminal else None

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def print_plan(self, machine: Machine) -> None:
        """Machine, resolved trials, what is left out and why."""
        self._console.print(machine_line(machine, self._inventory), markup=False)
        axes = [*_SHOWN, *(axis for axis in self._named if axis not in _SHOWN)]
        rows = [
            [*(_shown(trial, axis) for axis in axes), f"{trial.num_repeats} to run" if trial.num_repeats else "finished earlier"]
            for trial in self._plan.trials
        ]
        print_columns(self._console, [*(_SHOWN.get(axis, axis) for axis in axes), "repeats"], rows)
        for reason, cells in self._plan.left_out_by_reason().items():
            self._console.print(f"left out: {reason}", markup=False)
            self._console.print(f"          {'; '.join(cells)}", markup=False)

    def attempt_started(self, trial: PlannedTrial, folder: RunFolder) -> Callable[[], None]:
        """Returns what to call now and then while the attempt runs."""
        started = self._clock()

        def look() -> None:
            if self._live:
                self._live.update(self._view(trial, folder, self._clock() - started), refresh=True)

        look()
        return look

    def attempt_ended(self, trial: PlannedTrial, result: Result, duration_s: float) -> None:
        self._done += 1
        self._durations_s.append(duration_s)
        self._console.print(self._line(trial, result, duration_s))

    def _line(self, trial: PlannedTrial, result: Result, duration_s: float) -> Text:
        width = len(str(self._total))
        line = Text(f"[{self._done:>{width}}/{self._total}] {self._label(trial):<36} ")
        if result.measurement and result.outcome == Outcome.COMPLETED:
            measured = result.measurement
            line.append(f"{measured.images_per_second:9.2f} images/s")
            line.append(f"  step {measured.median_step_s * 1e3:8.1f} ± {measured.jitter_s * 1e3:.1f} ms")
            line.append(f"  ({result.message})" if result.message else "")
            line.append("" if result.verdict == Verdict.VALID else f"  ({result.verdict}: {'; '.join(result.verdict_reasons)})")
        else:
            line.append(f"{result.outcome}: {result.message}", style="red")
        line.append(f"  took {duration_s:.1f} s")
        if result.outcome == Outcome.COMPLETED and self._done < self._total:
            line.append(f"  ETA {_clock_text(self._eta_s())}")
        return line

    def _view(self, trial: PlannedTrial, folder: RunFolder, elapsed_s: float) -> Group:
        spec = trial.spec
        last_step = folder.last_step()
        about = spec.min_warm_up_steps + spec.num_steps
        doing = "building" if last_step is None else f"step {last_step + 1} of about {about}"
        eta = f"ETA {_clock_text(max(0.0, self._eta_s() - elapsed_s))}" if self._durations_s else "ETA after the first attempt"
        slots = Text("".join("■" if slot < spec.num_gpus else "□" for slot in range(self._inventory.num_devices)))
        kind = "stand-ins" if self._inventory.kind is DeviceKind.CPU_STAND_IN else "GPUs"
        return Group(
            Text(f"{kind} ") + slots + Text(f"  {self._label(trial)}: {doing}, {elapsed_s:.0f} s"),
            Text(f"{self._done}/{self._total} done, {eta}"),
        )

    def _label(self, trial: PlannedTrial) -> str:
        """The trial, with what tells it from its neighbors."""
        told = (f"{axis}={getattr(trial.spec, axis)}" for axis in self._varying if axis != "num_gpus")
        return " ".join([trial.label, *told])

    def _eta_s(self) -> float:
        return (self._total - self._done) * sum(self._durations_s) / max(1, len(self._durations_s))


def _shown(trial: PlannedTrial, axis: str) -> str:
    return str(trial.strategy if axis == "strategy" else getattr(trial.spec, axis))


def machine_line(machine: Machine, inventory: Inventory) -> str:
    """One line for people: what the numbers will be made on."""
    where = f"{machine.host}: {machine.num_cores} cores {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB"
    if inventory.kind is DeviceKind.CPU_STAND_IN:
        return f"{where}; {inventory.num_devices} {STAND_INS_NOTE}"
    names = ", ".join(dict.fromkeys(gpu.name for gpu in inventory.gpus))
    return f"{where}; {len(inventory.gpus)} usable GPUs: {names}, driver {machine.driver}"


def _clock_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
