"""Says what did not complete when a sweep has ended, equal reasons once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scalemark.records.outcomes import LAST_LINES, without_last_lines

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
        log = f" ({self.log})" if self.log else ""
        return f"{self.label} {self.ended}: {self.why}{log}"


def in_lines(failures: Sequence[Failure]) -> Iterator[str]:
    """Yield lines: each reason with the repeats that ended so, each of them with its log."""
    by_reason: dict[tuple[str, str], list[Failure]] = defaultdict(list)
    for one in failures[:MOST_SHOWN]:
        by_reason[one.ended, without_last_lines(one.why)].append(one)
    for (ended, why), found in by_reason.items():
        indented = why.replace("\n", "\n  ")
        yield f"{len(found)} {ended}: {indented}"
        for one in found:
            yield f"  {one.label}  {one.log}".rstrip()
        last = found[0].why.partition(f"\n{LAST_LINES}\n")[2].splitlines()[-MOST_LAST_LINES:]
        if last:
            yield f"  the last lines of {found[0].label}:"
            yield from (f"    {line}" for line in last)
    if failures[MOST_SHOWN:]:
        yield f"and {len(failures) - MOST_SHOWN} more"


def first_unread(log: str) -> str:
    """Return what to say at once where the first trial of a program has no number."""
    return (
        "the first trial has no number; where the others print the same, press Ctrl-C, and "
        f"`scalemark read {log}` says how to read it"
    )
