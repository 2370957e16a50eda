"""Draws a sweep that runs: for a terminal, redrawn once a second, and as one plain line per attempt
that has ended.

sweep night on host7
━━━━━━━━━━──────────────  12/40  ETA 1:02:10
9 completed   3 failed: 2 out_of_memory, 1 hung   3 running   25 pending
8 GPUs, 6 in use
■■■■····  0-3  resnet50-replicated_nccl-x4  repeat 2: step 12 of about 40  0:34 of about 1:20
······□□  6-7  free
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from scalemark.records.devices import DeviceKind
from scalemark.records.outcomes import Outcome, Verdict
from scalemark.text.untrusted import quoted
from sweeper.live.snapshot import Counts, EndedAttempt, RunningAttempt, Snapshot

WIDE = 100  # columns; with fewer an attempt takes two lines
MOST_SLOTS_DRAWN = 16  # one character each; more are told by number alone
BAR_WIDTH = 40
LABEL_WIDTH = 36  # of lines in a log, where no label is known to be longer

FAILED = "bold red"


def render(snapshot: Snapshot) -> RenderableType:
    """Fits any width; text in it is never read as markup. With too little height the attempts are
    cut, not the counts.
    """
    return _View(snapshot)


def plain_line(
    ended: EndedAttempt,
    *,
    num_done: int,
    total: int,
    eta_s: float | None,
    label_width: int = LABEL_WIDTH,
) -> Text:
    """One line for a log, never cut: what ended, how fast it was or what was wrong, and when the
    sweep will be through.
    """
    width = len(str(total))
    line = Text(f"[{num_done:>{width}}/{total}] ").append_text(ended_line(ended, label_width))
    if eta_s is not None and num_done < total:
        line.append(f"  ETA {clock_text(eta_s)}")
    return line


def ended_line(ended: EndedAttempt, label_width: int = LABEL_WIDTH) -> Text:
    """What ended, how fast it was or what was wrong, and how long it took; never cut."""
    line = Text(f"{_one_line(ended.label):<{label_width}} ")
    if ended.outcome == Outcome.COMPLETED:
        line.append(f"{ended.throughput or 0:9.2f} images/s")
        line.append(
            f"  step {(ended.median_step_s or 0) * 1e3:8.1f} ± {(ended.jitter_s or 0) * 1e3:.1f} ms"
        )
        line.append(f"  ({_one_line(ended.message)})" if ended.message else "")
        line.append(_doubt(ended))
    else:
        line.append(f"{ended.outcome}: {_one_line(ended.message)}", style=FAILED)
    return line.append(f"  took {ended.duration_s:.1f} s")


def clock_text(seconds: float) -> str:
    """Minutes and seconds, with hours and days where there are any."""
    minutes, rest_s = divmod(round(max(0.0, seconds)), 60)
    hours, rest_min = divmod(minutes, 60)
    if not hours:
        return f"{minutes}:{rest_s:02d}"
    days = f"{hours // 24} d " if hours >= 24 else ""
    return f"{days}{hours % 24}:{rest_min:02d}:{rest_s:02d}"


@dataclass(frozen=True, slots=True)
class _View:
    snapshot: Snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = options.max_width
        head = [
            *_head(self.snapshot, width),
            *(Text(_one_line(note), style="bold yellow") for note in self.snapshot.notes),
        ]
        tail = [_recent(ended) for ended in self.snapshot.recent]
        room = max(1, options.max_height - len(head) - 1) if console.is_terminal else None
        body = _body(self.snapshot, width, room)
        if room is not None:
            tail = tail[-max(0, room - len(body)) :] if room > len(body) else []
        for line in [*head, *body, *tail]:
            yield fitted(line, width, ascii_only=options.ascii_only)


def _head(snapshot: Snapshot, width: int) -> list[Text]:
    counts = snapshot.counts
    through = counts.done + counts.skipped
    line = _bar(counts, min(BAR_WIDTH, max(4, width - 30)))
    line.append(f"  {through}/{counts.total}")
    if through < counts.total:
        line.append(
            f"  ETA {clock_text(snapshot.eta_s)}" if snapshot.eta_s is not None else "  no ETA yet"
        )
    title = Text.assemble("sweep ", (_one_line(snapshot.sweep), "bold"))
    return [
        title,
        Text(_one_line(snapshot.machine), style="dim"),
        line,
        *_flow(_told(counts), width),
    ]


def _bar(counts: Counts, width: int) -> Text:
    failed = _share(counts.num_failed, counts.total, width)
    through = _share(counts.done + counts.skipped, counts.total, width)
    return Text.assemble(
        ("━" * (through - failed), "green"), ("━" * failed, "red"), ("─" * (width - through), "dim")
    )


def _share(count: int, total: int, width: int) -> int:
    """Of the width. What is not nothing is seen, what is not all is not full."""
    if count in (0, total):
        return width if total and count else 0
    return min(width - 1, max(1, round(width * count / total)))


def _told(counts: Counts) -> list[Text]:
    told = [Text(f"{counts.completed} completed", style="green" if counts.completed else "")]
    if counts.num_failed:
        how = ", ".join(f"{count} {outcome}" for outcome, count in counts.failed.items() if count)
        told.append(Text(f"{counts.num_failed} failed: {how}", style=FAILED))
    told += [Text(f"{counts.running} running"), Text(f"{counts.pending} pending")]
    if counts.skipped:
        told.append(Text(f"{counts.skipped} skipped", style="yellow"))
    return told


def _flow(parts: Sequence[Text], width: int) -> list[Text]:
    """As many to a line as fit."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + 3 + part.cell_len <= width:
            lines[-1].append("   ").append_text(part)
        else:
            lines.append(part.copy())
    return lines


def _body(snapshot: Snapshot, width: int, room: int | None) -> list[Text]:
    """The slots: a line or two for each attempt, one for all that are free; no more lines than
    there is room for.
    """
    if not snapshot.slots:
        return []
    held = {slot for attempt in snapshot.running for slot in attempt.slots}
    free = [slot.number for slot in snapshot.slots if slot.number not in held]
    is_one = len(snapshot.slots) == 1 and snapshot.kind is not DeviceKind.CPU_STAND_IN
    kind = snapshot.kind.singular if is_one else snapshot.kind.plural
    lines = [
        Text(
            f"{len(snapshot.slots)} {kind}, {len(held)} in use"
            if free
            else f"{len(held)} {kind} in use"
        )
    ]
    last = [_free(snapshot, free)] if free else []
    attempts = sorted(snapshot.running, key=lambda attempt: attempt.slots)
    room = None if room is None else room - len(lines) - len(last)
    if width >= WIDE:
        rows = _columns(snapshot, attempts, width)
    elif room is None or 2 * len(attempts) <= room:
        rows = [line for attempt in attempts for line in _two_lines(snapshot, attempt, width)]
    else:
        rows = _short_columns(snapshot, attempts, width)
    if room is not None and len(rows) > room:
        shown = max(0, room - 1)
        rows = [
            *rows[:shown],
            Text(f"and {len(rows) - shown} more attempts; a higher window shows them", style="dim"),
        ]
    return [*lines, *rows, *last]


def _free(snapshot: Snapshot, free: Sequence[int]) -> Text:
    return Text.assemble((_map(snapshot, free, "□"), "dim"), f"{_names(snapshot, free)} free")


def _two_lines(snapshot: Snapshot, attempt: RunningAttempt, width: int) -> Iterator[Text]:
    where = _map(snapshot, attempt.slots, "■")
    yield Text.assemble(
        (where, "cyan"), (_cut_middle(_one_line(attempt.label), width - len(where)), "bold")
    )
    yield Text(
        f"  {_names(snapshot, attempt.slots)}  {_repeat(attempt)}: "
        f"{_one_line(attempt.doing)}  {_times(attempt)}"
    )


def _columns(snapshot: Snapshot, attempts: Sequence[RunningAttempt], width: int) -> list[Text]:
    """One line each, with all that there is to tell."""
    told = [
        (_names(snapshot, one.slots), f"{_repeat(one)}: {_one_line(one.doing)}  {_times(one)}")
        for one in attempts
    ]
    maps = [_map(snapshot, one.slots, "■") for one in attempts]
    return [
        Text.assemble((where, "cyan"), line)
        for where, line in zip(maps, _aligned(attempts, told, width, maps), strict=True)
    ]


def _short_columns(
    snapshot: Snapshot, attempts: Sequence[RunningAttempt], width: int
) -> list[Text]:
    """One line each where there is room for no more: what, where, and since when."""
    told = [
        (_names(snapshot, one.slots), f"{_one_line(one.doing)}  {clock_text(one.elapsed_s)}")
        for one in attempts
    ]
    return _aligned(attempts, told, width)


def _aligned(
    attempts: Sequence[RunningAttempt],
    told: Sequence[tuple[str, str]],
    width: int,
    before: Sequence[str] = (),
) -> list[Text]:
    """Columns of names, labels and the rest; labels are cut to what the others leave."""
    names, rest = (max((cell_len(row[column]) for row in told), default=0) for column in range(2))
    labels = [_one_line(attempt.label) for attempt in attempts]
    room = width - names - rest - 4 - max(map(len, before), default=0)
    label_width = max(12, min(room, max(map(cell_len, labels), default=0)))
    return [
        Text.assemble(
            f"{set_cell_size(name, names)}  ",
            (set_cell_size(_cut_middle(label, label_width), label_width), "bold"),
            f"  {text}",
        )
        for label, (name, text) in zip(labels, told, strict=True)
    ]


def _map(snapshot: Snapshot, slots: Iterable[int], mark: str) -> str:
    """All slots as characters, some of them marked; nothing where there is one, or too many."""
    if not 1 < len(snapshot.slots) <= MOST_SLOTS_DRAWN:
        return ""
    marked = set(slots)
    return "".join(mark if slot.number in marked else "·" for slot in snapshot.slots) + "  "


def _names(snapshot: Snapshot, slots: Sequence[int]) -> str:
    """One by its name, several by their numbers, as 0-3,6."""
    if len(slots) == 1:
        return _one_line(
            next((slot.name for slot in snapshot.slots if slot.number == slots[0]), str(slots[0]))
        )
    ranges: list[list[int]] = []
    for slot in sorted(slots):
        if ranges and slot == ranges[-1][-1] + 1:
            ranges[-1].append(slot)
        else:
            ranges.append([slot])
    return ",".join(f"{one[0]}-{one[-1]}" if len(one) > 1 else str(one[0]) for one in ranges)


def _repeat(attempt: RunningAttempt) -> str:
    return (
        f"repeat {attempt.repeat}, attempt {attempt.attempt}"
        if attempt.attempt > 1
        else f"repeat {attempt.repeat}"
    )


def _times(attempt: RunningAttempt) -> str:
    elapsed = clock_text(attempt.elapsed_s)
    return (
        elapsed
        if attempt.expected_s is None
        else f"{elapsed} of about {clock_text(attempt.expected_s)}"
    )


def _recent(ended: EndedAttempt) -> Text:
    label = _one_line(ended.label)
    if ended.outcome == Outcome.COMPLETED:
        return Text(f"{ended.throughput or 0:9.2f} images/s  {label}{_doubt(ended)}")
    return Text.assemble(
        (f"{ended.outcome:>18}", FAILED),
        f"  {label}",
        f": {_one_line(ended.message)}" if ended.message else "",
    )


def _doubt(ended: EndedAttempt) -> str:
    if ended.verdict in (None, Verdict.VALID):
        return ""
    reasons = _one_line("; ".join(ended.verdict_reasons))
    return f"  ({ended.verdict}: {reasons})" if reasons else f"  ({ended.verdict})"


def _one_line(text: str) -> str:
    """Without line ends and other characters that would move the cursor, and without secrets."""
    return quoted(" ".join(text.split()))


def _cut_middle(text: str, width: int) -> str:
    """Trials differ at the beginning and at the end of their labels."""
    if cell_len(text) <= width:
        return text
    begin = set_cell_size(text, width // 2)
    return begin + "…" + set_cell_size(text[::-1], width - cell_len(begin) - 1)[::-1]


_ASCII = str.maketrans(
    {"■": "#", "□": ".", "·": ".", "━": "=", "─": "-", "–": "-", "…": "~", "±": "~", "≈": "~"}
)


def fitted(line: Text, width: int, *, ascii_only: bool) -> Text:
    """No wider than the terminal, and of characters that it has."""
    line.no_wrap = True
    line.truncate(width, overflow="ellipsis")
    if ascii_only:
        line.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
    return line
