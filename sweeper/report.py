"""Reports how a sweep ended: what failed, and what its command prints."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from scalemark.readers.log_text import LogError, log_text, ranks_of
from scalemark.readers.opening import ReadError, Reading
from scalemark.readers.search import readings_of, search
from scalemark.records.measurement import LAST_LINES, State, without_last_lines
from sweeper.early_stopping.contests import Saved

MOST_SHOWN = 30  # nobody looks through more
MOST_LAST_LINES = 5  # of a program, per reason; the log has the others


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A repeat that did not complete."""

    label: str  # of its trial
    ended: str  # an Outcome, or skipped
    why: str  # with the last lines of a program, may have several lines
    log: str = ""  # path; empty where nothing ran

    @property
    def line(self) -> str:
        text = f"{self.label} {self.ended}: {self.why}"
        if self.log:
            text += f" ({self.log})"
        return text


def in_lines(failures: Sequence[Failure]) -> Iterator[str]:
    """Yield lines: each reason with the repeats that ended so, each of them with its log."""
    by_reason: dict[tuple[str, str], list[Failure]] = defaultdict(list)
    for failure in failures[:MOST_SHOWN]:
        by_reason[failure.ended, without_last_lines(failure.why)].append(failure)
    for (ended, why), group in by_reason.items():
        indented = why.replace("\n", "\n  ")
        yield f"{len(group)} {ended}: {indented}"
        for failure in group:
            yield f"  {failure.label}  {failure.log}".rstrip()
        last = group[0].why.partition(f"\n{LAST_LINES}\n")[2].splitlines()[-MOST_LAST_LINES:]
        if last:
            yield f"  the last lines of {group[0].label}:"
            yield from (f"    {line}" for line in last)
    if failures[MOST_SHOWN:]:
        yield f"and {len(failures) - MOST_SHOWN} more"


def first_unread(log: str, read: str, again: str) -> list[str]:
    """Return what to ask where the first trial of a program has no number: how to read its log.

    `again` is the command that reads it again, which lacks the settings.
    """
    said = "the first trial has no number, and nothing more is started; "
    choices: list[str] = []
    refused: list[tuple[float | None, float | None]] = []
    with suppress(LogError):
        lines = log_text(Path(log)).lines
        with suppress(ReadError):  # its pattern takes too long for this log
            refused = _numbers(readings_of(read, lines, Path(log).parent, ranks_of(lines)))
        for choice in search(lines).choices:
            if choice.read != read and _numbers(choice.readings) != refused:
                choices.append(f"{again} {choice.overrides}")
    then = "then repeat the command with the same settings"
    if any(map(any, refused)) and not choices:  # why these do not count was said
        return [f"{said}do what its message asks, as {again} command.items_per_step=64 or read=..."]
    if not choices:
        return [
            f"{said}write a pattern for its last lines, as {again} 'read=regex:img/s ([0-9.,]+)'"
        ]
    return [f"{said}read its log by one of these, {then}", *choices]


def _numbers(readings: Sequence[Reading]) -> list[tuple[float | None, float | None]]:
    return [(reading.throughput, reading.step_s) for reading in readings]


@dataclass(slots=True, kw_only=True)
class Ran:
    """Counts of what came of running a sweep, so far or in the end."""

    states: Counter[State] = field(default_factory=Counter)  # of repeats, the last of each
    num_retries: int = 0  # attempts beyond the first of a repeat
    num_not_started: int = 0  # repeats that a stop left over
    num_cut_off: int = 0  # repeats whose end could not be written
    was_interrupted: bool = False
    failures: list[Failure] = field(default_factory=list)
    # why results could no longer be written; what ran then is in its run folders
    failure: str | None = None
    num_finished_elsewhere: int = 0  # repeats that another sweep completed meanwhile
    saved: Saved = field(default_factory=Saved)  # by racing


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that is printed when a sweep has ended."""

    name: str
    store_url: str
    is_simulated: bool
    num_finished_earlier: int  # trials that needed no attempt
    num_decided_earlier: int  # trials that were not worth one, by what others reached
    ran: Ran
    conclusions: Sequence[str] = ()  # of a budget: what is the fastest, and what was not tried

    @property
    def num_finished_otherwise(self) -> int:
        """Count trials and repeats that others had completed, before or meanwhile."""
        return self.num_finished_earlier + self.ran.num_finished_elsewhere

    @property
    def summary(self) -> str:
        """Say in one line what came of the repeats."""
        ran = self.ran
        parts = [f"{count} {state}" for state, count in sorted(ran.states.items())]
        others = {
            "tried again": ran.num_retries,
            "not started": ran.num_not_started,
            "cut off": ran.num_cut_off,
            "finished earlier": self.num_finished_otherwise,
            "not worth running": self.num_decided_earlier,
        }
        parts += [f"{count} {what}" for what, count in others.items() if count]
        text = ", ".join(parts) or "nothing to run"
        if ran.saved != Saved():
            text += f"; racing {ran.saved}"
        return text

    @property
    def all_completed(self) -> bool:
        """Say whether all completed, apart from what racing made not worth running."""
        ran = self.ran
        return (
            ran.states[State.COMPLETED] + ran.saved.num_spared == ran.states.total()
            and not ran.num_not_started
        )
