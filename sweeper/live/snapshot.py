"""Describes a running sweep at one moment, for the live view and `status --json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import AttemptResult
from scalemark.records.outcomes import Doing, Outcome, Phase, State
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from store.reading.sweeps import SweepState


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningAttempt:
    """An attempt, and the slots it holds."""

    slots: tuple[int, ...]  # numbers of devices
    label: str  # the trial, with what tells it from its neighbors
    repeat: int
    attempt: int  # 1 = the first try of the repeat
    doing: str  # for people, as "building" or "step 12 of about 40"
    elapsed_s: float
    expected_s: float | None  # of the whole attempt; none = never ran here


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempt:
    """An attempt that has ended, and what came of it."""

    label: str
    outcome: str  # an Outcome
    message: str  # why it did not complete, or what else is missing; may be empty
    duration_s: float
    throughput: float | None = None  # none = not measured, as all below
    item: str | None = None  # what is counted per second
    median_step_s: float | None = None
    jitter_s: float | None = None
    verdict: str | None = None  # a Verdict
    verdict_reasons: tuple[str, ...] = ()

    @classmethod
    def of(cls, label: str, result: AttemptResult, duration_s: float) -> EndedAttempt:
        measured = None
        if result.outcome == Outcome.COMPLETED:
            measured = result.measurement
        names = ("throughput", "item", "median_step_s", "jitter_s")
        return cls(
            label=label,
            outcome=result.outcome,
            message=result.message,
            duration_s=duration_s,
            verdict=result.verdict,
            verdict_reasons=result.verdict_reasons,
            **{name: getattr(measured, name, None) for name in names},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Repeats of a sweep, each counted once."""

    completed: int = 0
    # Outcome -> repeats that ended so and are not tried again
    failed: Mapping[str, int] = field(default_factory=dict)
    running: int = 0
    pending: int = 0  # to be run, or to be tried again
    skipped: int = 0
    interrupted: int = 0  # not tried again by this sweep; the same command runs them

    @classmethod
    def of(cls, states: Mapping[State, int], num_running: int) -> Counts:
        """Count all repeats of the sweep by their states; those that it takes for running and are
        not are to be run again.
        """
        waiting = (State.PENDING, State.CLAIMED, State.RUNNING)
        others = (*waiting, State.COMPLETED, State.SKIPPED, State.INTERRUPTED)
        return cls(
            completed=states.get(State.COMPLETED, 0),
            failed={state.value: num for state, num in states.items() if state not in others},
            running=num_running,
            pending=sum(states.get(state, 0) for state in waiting) - num_running,
            skipped=states.get(State.SKIPPED, 0),
            interrupted=states.get(State.INTERRUPTED, 0),
        )

    @property
    def num_failed(self) -> int:
        return sum(self.failed.values())

    @property
    def done(self) -> int:
        return self.completed + self.num_failed

    @property
    def total(self) -> int:
        return self.done + self.running + self.pending + self.skipped + self.interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A sweep at one moment."""

    sweep: str  # its name
    state: SweepState = SweepState.RUNNING
    machine: str  # one line: what the numbers are made on
    kind: DeviceKind
    slots: tuple[int, ...]  # devices that trials may use; of a status, those in use
    running: tuple[RunningAttempt, ...]
    counts: Counts
    recent: tuple[EndedAttempt, ...] = ()  # the last few, oldest first
    eta_s: float | None = None  # none = nothing to estimate it from
    notes: tuple[str, ...] = ()  # what people should know now, as "stopping: waits for 3 attempts"

    def to_json(self) -> dict[str, Any]:
        counts, values = self.counts, asdict(self)
        failed, done, total = dict(counts.failed), counts.done, counts.total
        values["counts"] |= {"failed": failed, "done": done, "total": total}
        return values


def doing_text(folder: RunFolder, spec: TrialSpec) -> str:
    """Say it to people, as "loading TensorFlow", "tracing" or "measuring, step 12 of about 40"."""
    try:
        doing, newest = folder.read_doing(), folder.newest_step()
        is_loaded = folder.loaded.exists()
    except (OSError, ValueError):  # its deadlines decide what comes of it
        return "unknown"
    if doing is Doing.BUILDING and spec.engine == Engine.tensorflow:
        return "tracing" if is_loaded else "loading TensorFlow"
    if doing is not Doing.STEPPING or newest is None:
        return str(doing)
    step, about = newest.step + 1, spec.min_warm_up_steps + spec.num_steps
    phase = "warming up" if newest.phase == Phase.WARM_UP else "measuring"
    # min_window_s decides, or warm-up
    return f"{phase}, step {step} of about {about}" if step <= about else f"{phase}, step {step}"
