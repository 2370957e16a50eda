"""Draws a sweep: as one table for a terminal, and as one plain line per attempt that has ended.

sweep night-1
host7: 64 cores, 503 GiB; 8 usable GPUs
━━━━━━━━━━──────────────  12/40  ETA 1 h 02 min
9 completed   2 out_of_memory   1 hung   2 running   26 pending
GPU 0-3            resnet50-replicated_nccl-x4  step 12 of about 40  34 s of about 80 s
GPU 4              vgg16-ps_cpu-x1              attempt 2: building  5 s
1234.50 images/s   vgg16-ps_cpu-x2 0123abcd     (in doubt)
out_of_memory      vgg16-ps_cpu-x8 4567cdef     no room for it
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import (
    IMAGES,
    AttemptResult,
    Doing,
    Outcome,
    Phase,
    State,
    Verdict,
    unit_of,
    without_last_lines,
)
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from scalemark.text import untrusted, wording
from store.reading.sweeps import FinishedRepeat, SweepState

BAR_WIDTH = 40
LABEL_WIDTH = 36  # of lines in a log, where no label is known to be longer
MOST_OF_MESSAGE = 200  # characters in a line; the report in the end has all of it

FAILED = "bold red"
_NOT_STARTED = (State.PENDING, State.CLAIMED, State.RUNNING)
_NOT_DONE = (State.RUNNING, State.PENDING, State.SKIPPED, State.INTERRUPTED)


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
class Snapshot:
    """A sweep at one moment, as `status --json` prints it."""

    sweep: str  # its name
    state: SweepState = SweepState.RUNNING
    machine: str  # one line: what the numbers are made on
    kind: DeviceKind
    running: tuple[RunningAttempt, ...]
    counts: Mapping[State, int]  # see `counts_of`
    recent: tuple[FinishedRepeat, ...] = ()  # the last few, oldest first
    eta_s: float | None = None  # none = nothing to estimate it from
    notes: tuple[str, ...] = ()  # what people should know now, as "stopping: waits for 3 attempts"


def counts_of(states: Mapping[State, int], num_running: int) -> dict[State, int]:
    """Count the repeats of a sweep: those that it takes for running and are not are to be run
    again.
    """
    counts = {State.COMPLETED: states.get(State.COMPLETED, 0)}
    for state, num in states.items():
        if state not in _NOT_STARTED and num:
            counts[state] = num
    waiting = sum(states.get(state, 0) for state in _NOT_STARTED)
    return counts | {State.RUNNING: num_running, State.PENDING: waiting - num_running}


def render(snapshot: Snapshot) -> RenderableType:
    """Fit any width; text in it is never read as markup."""
    counts = snapshot.counts
    total = sum(counts.values())
    num_left = counts.get(State.RUNNING, 0) + counts.get(State.PENDING, 0)
    num_through = total - num_left - counts.get(State.INTERRUPTED, 0)
    progress = f"{num_through}/{total}"
    if num_through < total and snapshot.state is SweepState.RUNNING:
        eta = "no ETA yet"
        if snapshot.eta_s is not None:
            eta = f"ETA {wording.duration_text(snapshot.eta_s)}"
        progress += f"  {eta}"
    bar = ProgressBar(total=max(1, total), completed=num_through, width=BAR_WIDTH)
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_row(bar, Text(progress))
    parts = []
    for state, num in counts.items():
        style = ""
        if state not in (*_NOT_DONE, State.COMPLETED):
            style = FAILED
        parts.append(Text(f"{num} {state}", style=style))
    body = Table.grid(padding=(0, 2, 0, 0))
    body.add_column(no_wrap=True)
    body.add_column(overflow="fold")
    body.add_column(overflow="fold")
    for attempt in sorted(snapshot.running, key=lambda attempt: attempt.slots):
        devices = Text(_devices(snapshot.kind, attempt.slots), style="cyan")
        label = Text(one_line(attempt.label), style="bold")
        body.add_row(devices, label, Text(_doing(attempt)))
    for ended in snapshot.recent:
        if ended.outcome == Outcome.COMPLETED:
            what, why = Text(_speed(ended.throughput, ended.item)), _doubt(ended.verdict)
        else:
            what, why = Text(ended.outcome, style=FAILED), _why(ended.message)
        body.add_row(what, Text(one_line(ended.label)), Text(why))
    return Group(
        Text.assemble("sweep ", (one_line(snapshot.sweep), "bold")),
        Text(one_line(snapshot.machine), style="dim"),
        head,
        Text("   ").join(parts),
        *(Text(untrusted.visible(note), style="bold yellow") for note in snapshot.notes),
        body,
    )


def plain_line(
    label: str,
    result: AttemptResult,
    duration_s: float,
    *,
    num_done: int,
    total: int,
    eta_s: float | None,
    label_width: int = LABEL_WIDTH,
) -> Text:
    """Tell for a log how many repeats are done, what ended, how fast it was or what was wrong, and
    how long it took; never cut.
    """
    line = Text(f"[{num_done:>{len(str(total))}}/{total}] {one_line(label):<{label_width}} ")
    measured = result.measurement
    if measured and result.outcome == Outcome.COMPLETED:
        line.append(f"{_speed(measured.throughput, measured.item):>18}")
        if measured.median_step_s is not None:  # a program may report one number, and no steps
            line.append(f"  step {measured.median_step_s * 1e3:8.1f} ms")
            if measured.jitter_s is not None:
                line.append(f", jitter {measured.jitter_s * 1e3:.1f}")
        if result.message:
            line.append(f"  ({one_line(result.message)})")
        doubt = _doubt(result.verdict, result.verdict_reasons)
        if doubt:
            line.append(f"  {doubt}")
    else:
        why = untrusted.quoted(_why(result.message), MOST_OF_MESSAGE)
        line.append(f"{result.outcome}: {why}", style=FAILED)
    line.append(f"  took {duration_s:.1f} s")
    if eta_s is not None and num_done < total:
        line.append(f"  ETA {wording.duration_text(eta_s)}")
    return line


def doing_text(folder: RunFolder, spec: TrialSpec) -> str:
    """Say it to people, as "loading TensorFlow", "tracing" or "measuring, step 12 of about 40"."""
    try:
        doing, newest = folder.read_doing(), folder.newest_step()
        is_loaded, waits = folder.loaded.exists(), folder.waits_for_host()
    except (OSError, ValueError):  # its deadlines decide what comes of it
        return "unknown"
    if doing is Doing.BUILDING and waits:
        return "waiting for its host"
    if doing is Doing.BUILDING and spec.engine == Engine.tensorflow:
        if not is_loaded:
            return "loading TensorFlow"
        return "tracing"
    if doing is not Doing.STEPPING or newest is None:
        return str(doing)
    step, about = newest.step + 1, spec.min_warm_up_steps + spec.num_steps
    text = f"measuring, step {step}"
    if newest.phase == Phase.WARM_UP:
        text = f"warming up, step {step}"
    if step > about:  # min_window_s decides, or warm-up
        return text
    return f"{text} of about {about}"


def one_line(text: str) -> str:
    """Remove line ends and other characters that would move the cursor, and secrets."""
    return untrusted.quoted(" ".join(text.split()))


def _doing(attempt: RunningAttempt) -> str:
    text = f"{one_line(attempt.doing)}  {wording.duration_text(attempt.elapsed_s)}"
    if attempt.expected_s is not None:
        text += f" of about {wording.duration_text(attempt.expected_s)}"
    if attempt.attempt > 1:
        text = f"attempt {attempt.attempt}: {text}"
    if attempt.repeat > 1:
        text = f"repeat {attempt.repeat}, {text}"
    return text


def _devices(kind: DeviceKind, slots: Sequence[int]) -> str:
    """Return the kind and the numbers of devices, as GPU 0-3,6."""
    ranges: list[list[int]] = []
    for slot in sorted(slots):
        if ranges and slot == ranges[-1][-1] + 1:
            ranges[-1][1:] = [slot]
        else:
            ranges.append([slot])
    numbers = ",".join("-".join(map(str, bounds)) for bounds in ranges)
    return f"{kind.singular.removeprefix('CPU ')} {numbers}"


def _why(message: str) -> str:
    return one_line(without_last_lines(message))


def _speed(throughput: float | None, item: str | None) -> str:
    return f"{wording.fixed(throughput or 0, 2)} {unit_of(item or IMAGES)}"


def _doubt(verdict: str | None, reasons: Sequence[str] = ()) -> str:
    """Return the first reason of a doubt; `show` has the others, and what to do."""
    if verdict in (None, Verdict.VALID):
        return ""
    if not reasons:
        return "(in doubt)"
    first, *others = reasons
    reason = one_line(first.partition("; ")[0])
    if others:
        reason += f", and {len(others)} more"
    return f"({reason})"
