"""Draws a sweep that runs: for a terminal, redrawn once a second, and as one plain line per attempt
that has ended.

sweep night on host7
━━━━━━━━━━──────────────  12/40  ETA 1:02:10
9 completed   3 failed: 2 out_of_memory, 1 hung   3 running   25 pending
8 GPUs, 6 in use
0-3    resnet50-replicated_nccl-x4  repeat 2: step 12 of about 40  0:34 of about 1:20
GPU 4  vgg16-ps_cpu-x1              repeat 1, attempt 2: building  0:05
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, OverflowMethod, RenderableType
from rich.text import Text

from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import IMAGES, unit_of
from scalemark.records.outcomes import Outcome, Verdict, without_last_lines
from scalemark.text.decimals import fixed
from scalemark.text.untrusted import quoted, visible
from scalemark.text.wording import counted
from sweeper.live.snapshot import Counts, EndedAttempt, RunningAttempt, Snapshot

WIDE = 100  # columns; with fewer there is no room for repeats and expected times
BAR_WIDTH = 40
LABEL_WIDTH = 36  # of lines in a log, where no label is known to be longer
LEAST_LABEL_WIDTH = 12
MOST_OF_MESSAGE = 200  # characters in a line; the report in the end has all of it

FAILED = "bold red"


def render(snapshot: Snapshot, *, cuts_notes: bool = True) -> RenderableType:
    """Fit any width; text in it is never read as markup. With too little height attempts are cut,
    not counts. What is printed once and copied, as a command in a note, is not to be cut.
    """
    return _View(snapshot, cuts_notes)


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
        line.append(_speed(ended))
        if ended.median_step_s is not None:  # a program may report one number, and no steps
            step_ms, jitter_ms = ended.median_step_s * 1e3, (ended.jitter_s or 0) * 1e3
            line.append(f"  step {step_ms:8.1f} ± {jitter_ms:.1f} ms")
        if ended.message:
            line.append(f"  ({one_line(ended.message)})")
        line.append(_doubt(ended))
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


@dataclass(frozen=True, slots=True)
class _View:
    snapshot: Snapshot
    cuts_notes: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = options.max_width
        lines = list(_head(self.snapshot, width, cuts_notes=self.cuts_notes))
        body = list(_attempts(self.snapshot, width))
        tail = [_recent(ended) for ended in self.snapshot.recent]
        if console.is_terminal:
            # Live cannot redraw what is higher than the window: attempts are cut first, then what
            # has ended; the last line of the window stays free for the cursor
            room = max(1, options.max_height - len(lines) - 1)
            if len(body) > room:
                num_cut = len(body) - room + 1
                more = f"and {counted(num_cut, 'more attempt')}; a higher window shows them"
                body = [*body[: room - 1], Text(more, style="dim")]
            num_shown = min(len(tail), room - len(body))
            tail = tail[len(tail) - num_shown :]
        for line in [*lines, *body, *tail]:
            own = line.cell_len if line.overflow == "ignore" else width
            yield fitted(line, own, ascii_only=options.ascii_only)


def _head(snapshot: Snapshot, width: int, *, cuts_notes: bool) -> Iterator[Text]:
    yield Text.assemble("sweep ", (one_line(snapshot.sweep), "bold"))
    yield Text(one_line(snapshot.machine), style="dim")
    yield _progress(snapshot, min(BAR_WIDTH, max(4, width - 30)))
    yield from _flow(_counts(snapshot.counts), width)
    for note in snapshot.notes:
        overflow: OverflowMethod = "ellipsis" if cuts_notes else "ignore"
        yield Text(visible(note), style="bold yellow", overflow=overflow)
    if snapshot.slots:
        yield Text(_slots_text(snapshot))


def _progress(snapshot: Snapshot, width: int) -> Text:
    counts = snapshot.counts
    num_through = counts.done + counts.skipped
    failed = _share(counts.num_failed, counts.total, width)
    through = _share(num_through, counts.total, width)
    line = Text.assemble(
        ("━" * (through - failed), "green"), ("━" * failed, "red"), ("─" * (width - through), "dim")
    )
    line.append(f"  {num_through}/{counts.total}")
    if num_through == counts.total:
        return line
    if snapshot.eta_s is None:
        return line.append("  no ETA yet")
    return line.append(f"  ETA {clock_text(snapshot.eta_s)}")


def _share(count: int, total: int, width: int) -> int:
    """Return characters of a bar: what is not nothing is seen, what is not all is not full."""
    if count == 0 or total == 0:
        return 0
    if count == total:
        return width
    return min(width - 1, max(1, round(width * count / total)))


def _counts(counts: Counts) -> Iterator[Text]:
    yield Text(f"{counts.completed} completed", style="green" if counts.completed else "")
    if counts.num_failed:
        how = ", ".join(f"{count} {outcome}" for outcome, count in counts.failed.items() if count)
        yield Text(f"{counts.num_failed} failed: {how}", style=FAILED)
    if counts.interrupted:
        yield Text(f"{counts.interrupted} interrupted", style="yellow")
    yield Text(f"{counts.running} running")
    yield Text(f"{counts.pending} pending")
    if counts.skipped:
        yield Text(f"{counts.skipped} skipped", style="yellow")


def _flow(parts: Iterator[Text], width: int) -> Iterator[Text]:
    """Put as many parts on a line as fit, none of them broken."""
    line = next(parts)
    for part in parts:
        if line.cell_len + 3 + part.cell_len > width:
            yield line
            line = part
        else:
            line = line.append("   ").append_text(part)
    yield line


def _slots_text(snapshot: Snapshot) -> str:
    num = len(snapshot.slots)
    num_held = len({slot for attempt in snapshot.running for slot in attempt.slots})
    kind = snapshot.kind.plural
    if num == 1 and snapshot.kind is not DeviceKind.CPU_DEVICE:
        kind = snapshot.kind.singular
    return f"{num} {kind}, {num_held} in use"


def _attempts(snapshot: Snapshot, width: int) -> Iterator[Text]:
    """Draw a line for each: its devices, its label, and what it does. Labels are cut to what the
    others leave.
    """
    attempts = sorted(snapshot.running, key=lambda attempt: attempt.slots)
    names = [_names(snapshot.kind, attempt.slots) for attempt in attempts]
    doing = [_doing(attempt, is_wide=width >= WIDE) for attempt in attempts]
    labels = [one_line(attempt.label) for attempt in attempts]
    names_width, doing_width, label_width = map(_widest, (names, doing, labels))
    room = width - names_width - doing_width - 4
    label_width = max(LEAST_LABEL_WIDTH, min(room, label_width))
    for name, label, text in zip(names, labels, doing, strict=True):
        shown = set_cell_size(cut_middle(label, label_width), label_width)
        yield Text.assemble(
            (set_cell_size(name, names_width), "cyan"), "  ", (shown, "bold"), f"  {text}"
        )


def _widest(texts: Sequence[str]) -> int:
    return max(map(cell_len, texts), default=0)


def _doing(attempt: RunningAttempt, *, is_wide: bool) -> str:
    doing, elapsed = one_line(attempt.doing), clock_text(attempt.elapsed_s)
    if not is_wide:
        return f"{doing}  {elapsed}"
    text = f"repeat {attempt.repeat}"
    if attempt.attempt > 1:
        text += f", attempt {attempt.attempt}"
    text += f": {doing}  {elapsed}"
    if attempt.expected_s is not None:
        text += f" of about {clock_text(attempt.expected_s)}"
    return text


def _names(kind: DeviceKind, slots: Sequence[int]) -> str:
    """Return one device by its name, several by their numbers, as 0-3,6."""
    if len(slots) == 1:
        return f"{kind.singular.removeprefix('CPU ')} {slots[0]}"
    ranges: list[list[int]] = []
    for slot in sorted(slots):
        if ranges and slot == ranges[-1][-1] + 1:
            ranges[-1][1:] = [slot]
        else:
            ranges.append([slot])
    return ",".join("-".join(map(str, one)) for one in ranges)


def _recent(ended: EndedAttempt) -> Text:
    label = one_line(ended.label)
    if ended.outcome == Outcome.COMPLETED:
        return Text(f"{_speed(ended)}  {label}{_doubt(ended)}")
    line = Text.assemble((f"{ended.outcome:>18}", FAILED), f"  {label}")
    if ended.message:
        line.append(f": {_why(ended)}")
    return line


def _why(ended: EndedAttempt) -> str:
    return one_line(without_last_lines(ended.message))


def _speed(ended: EndedAttempt) -> str:
    return f"{fixed(ended.throughput or 0, 2):>9} {unit_of(ended.item or IMAGES)}"


def _doubt(ended: EndedAttempt) -> str:
    """Return the verdict with its first reason; `store show` has the others, and what to do."""
    if ended.verdict in (None, Verdict.VALID):
        return ""
    if not ended.verdict_reasons:
        return f"  ({ended.verdict})"
    first, *others = ended.verdict_reasons
    more = f", and {len(others)} more" if others else ""
    return f"  ({ended.verdict}: {one_line(first.partition('; ')[0])}{more})"


def one_line(text: str) -> str:
    """Remove line ends and other characters that would move the cursor, and secrets."""
    return quoted(" ".join(text.split()))


def cut_middle(text: str, width: int) -> str:
    """Cut in the middle: trials differ at the beginning and at the end of their labels."""
    if cell_len(text) <= width:
        return text
    begin = set_cell_size(text, width // 2)
    return begin + "…" + set_cell_size(text[::-1], width - cell_len(begin) - 1)[::-1]


_ASCII = str.maketrans({"━": "=", "─": "-", "–": "-", "…": "~", "±": "~", "≈": "~"})


def fitted(line: Text, width: int, *, ascii_only: bool) -> Text:
    """Cut a line to the width of the terminal, and to characters that it has."""
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    if ascii_only:
        line.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
    return line
