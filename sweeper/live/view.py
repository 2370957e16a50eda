"""Draws a sweep: as one table for a terminal, and as one plain line per attempt that has ended.

sweep night-1
host7: 64 cores, 503 GiB; 8 usable GPUs
━━━━━━━━━━──────────────  12/40  ETA 1:02:10
9 completed   3 failed: 2 out_of_memory, 1 hung   2 running   26 pending
GPU 0-3            resnet50-replicated_nccl-x4  step 12 of about 40  0:34 of about 1:20
GPU 4              vgg16-ps_cpu-x1              attempt 2: building  0:05
1234.50 images/s   vgg16-ps_cpu-x2              (suspect: jitter 12 %)
out_of_memory      vgg16-ps_cpu-x8              no room for it
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import IMAGES, unit_of
from scalemark.records.outcomes import Outcome, Verdict, without_last_lines
from scalemark.text.untrusted import quoted, visible
from scalemark.text.wording import fixed
from sweeper.live.snapshot import Counts, EndedAttempt, RunningAttempt, Snapshot

BAR_WIDTH = 40
LABEL_WIDTH = 36  # of lines in a log, where no label is known to be longer
MOST_OF_MESSAGE = 200  # characters in a line; the report in the end has all of it

FAILED = "bold red"


def render(snapshot: Snapshot) -> RenderableType:
    """Fit any width; text in it is never read as markup."""
    counts = snapshot.counts
    num_through = counts.done + counts.skipped
    progress = f"{num_through}/{counts.total}"
    if num_through < counts.total:
        known = snapshot.eta_s is not None
        progress += f"  ETA {clock_text(snapshot.eta_s or 0)}" if known else "  no ETA yet"
    bar = ProgressBar(total=max(1, counts.total), completed=num_through, width=BAR_WIDTH)
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_row(bar, Text(progress))
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
            what, why = Text(_speed(ended)), _doubt(ended)
        else:
            what, why = Text(ended.outcome, style=FAILED), _why(ended)
        body.add_row(what, Text(one_line(ended.label)), Text(why))
    return Group(
        Text.assemble("sweep ", (one_line(snapshot.sweep), "bold")),
        Text(one_line(snapshot.machine), style="dim"),
        head,
        _counts(counts),
        *(Text(visible(note), style="bold yellow") for note in snapshot.notes),
        body,
    )


def plain_line(
    ended: EndedAttempt,
    *,
    num_done: int,
    total: int,
    eta_s: float | None,
    label_width: int = LABEL_WIDTH,
) -> Text:
    """Return `ended_line` for a log, with the number of repeats that are done, and the ETA."""
    width = len(str(total))
    line = Text(f"[{num_done:>{width}}/{total}] ").append_text(ended_line(ended, label_width))
    if eta_s is not None and num_done < total:
        line.append(f"  ETA {clock_text(eta_s)}")
    return line


def ended_line(ended: EndedAttempt, label_width: int = LABEL_WIDTH) -> Text:
    """Tell what ended, how fast it was or what was wrong, and how long it took; never cut."""
    line = Text(f"{one_line(ended.label):<{label_width}} ")
    if ended.outcome == Outcome.COMPLETED:
        line.append(f"{_speed(ended):>18}")
        if ended.median_step_s is not None:  # a program may report one number, and no steps
            step_ms, jitter_ms = ended.median_step_s * 1e3, (ended.jitter_s or 0) * 1e3
            line.append(f"  step {step_ms:8.1f} ± {jitter_ms:.1f} ms")
        if ended.message:
            line.append(f"  ({one_line(ended.message)})")
        if doubt := _doubt(ended):
            line.append(f"  {doubt}")
    else:
        why = quoted(_why(ended), MOST_OF_MESSAGE)
        line.append(f"{ended.outcome}: {why}", style=FAILED)
    return line.append(f"  took {ended.duration_s:.1f} s")


def clock_text(seconds: float) -> str:
    """Return minutes and seconds, with hours and days where there are any."""
    minutes, rest_s = divmod(round(max(0.0, seconds)), 60)
    hours, rest_min = divmod(minutes, 60)
    if not hours:
        return f"{minutes}:{rest_s:02d}"
    days = f"{hours // 24} d " if hours >= 24 else ""
    return f"{days}{hours % 24}:{rest_min:02d}:{rest_s:02d}"


def one_line(text: str) -> str:
    """Remove line ends and other characters that would move the cursor, and secrets."""
    return quoted(" ".join(text.split()))


def _counts(counts: Counts) -> Text:
    line = Text(f"{counts.completed} completed")
    if counts.num_failed:
        how = ", ".join(f"{count} {outcome}" for outcome, count in counts.failed.items() if count)
        line.append("   ").append(f"{counts.num_failed} failed: {how}", style=FAILED)
    if counts.interrupted:
        line.append(f"   {counts.interrupted} interrupted")
    line.append(f"   {counts.running} running   {counts.pending} pending")
    if counts.skipped:
        line.append(f"   {counts.skipped} skipped")
    return line


def _doing(attempt: RunningAttempt) -> str:
    text = f"{one_line(attempt.doing)}  {clock_text(attempt.elapsed_s)}"
    if attempt.expected_s is not None:
        text += f" of about {clock_text(attempt.expected_s)}"
    if attempt.attempt > 1:
        text = f"attempt {attempt.attempt}: {text}"
    return text if attempt.repeat == 1 else f"repeat {attempt.repeat}, {text}"


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


def _why(ended: EndedAttempt) -> str:
    return one_line(without_last_lines(ended.message))


def _speed(ended: EndedAttempt) -> str:
    return f"{fixed(ended.throughput or 0, 2)} {unit_of(ended.item or IMAGES)}"


def _doubt(ended: EndedAttempt) -> str:
    """Return the verdict with its first reason; `store show` has the others, and what to do."""
    if ended.verdict in (None, Verdict.VALID):
        return ""
    if not ended.verdict_reasons:
        return f"({ended.verdict})"
    first, *others = ended.verdict_reasons
    more = f", and {len(others)} more" if others else ""
    return f"({ended.verdict}: {one_line(first.partition('; ')[0])}{more})"
