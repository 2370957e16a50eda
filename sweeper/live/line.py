"""Draws a sweep that runs in one line of its own terminal, redrawn once a second.

3 of 16  resnet50-replicated_nccl-x4: measuring, step 12 of about 40  0:34  ETA 1:02:10
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType
from rich.text import Text

from scalemark.text.untrusted import visible
from sweeper.live.snapshot import Snapshot
from sweeper.live.view import FAILED, LEAST_LABEL_WIDTH, clock_text, cut_middle, fitted, one_line


def progress_line(snapshot: Snapshot) -> RenderableType:
    """Fit any width: the label is cut first, then what it does."""
    return _Line(snapshot)


@dataclass(frozen=True, slots=True)
class _Line:
    snapshot: Snapshot

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = options.max_width - 1  # the last place is the cursor's
        start, end = _counts(self.snapshot), _end(self.snapshot)
        room = width - start.cell_len - end.cell_len
        middle = _middle(self.snapshot, room)
        middle.truncate(max(0, room), overflow="ellipsis")
        line = start.append_text(middle).append_text(end)
        yield fitted(line, width, ascii_only=options.ascii_only)


def _counts(snapshot: Snapshot) -> Text:
    counts = snapshot.counts
    line = Text(f"{counts.done + counts.skipped} of {counts.total}")
    if counts.num_failed:
        line.append(f", {counts.num_failed} failed", style=FAILED)
    return line.append("  ")


def _middle(snapshot: Snapshot, room: int) -> Text:
    """Return the attempt that runs longest, and how many run beside it; or what it waits for."""
    note = "; ".join(visible(note) for note in snapshot.notes)
    if not snapshot.running:
        return Text(note or "starting", style="bold yellow" if note else "")
    attempt = max(snapshot.running, key=lambda one: one.elapsed_s)
    doing = f": {one_line(attempt.doing)}  {clock_text(attempt.elapsed_s)}"
    if others := len(snapshot.running) - 1:
        doing += f", and {others} more"
    label = cut_middle(one_line(attempt.label), max(LEAST_LABEL_WIDTH, room - len(doing)))
    line = Text.assemble((label, "bold"), doing)
    return line.append(f"  {note}", style="bold yellow") if note else line


def _end(snapshot: Snapshot) -> Text:
    return Text("" if snapshot.eta_s is None else f"  ETA {clock_text(snapshot.eta_s)}")
