"""The seam between the output of a training program and what is measured by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


class ReadError(Exception):
    """Raised for a `read=` that names no reader or has an unusable pattern; says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The numbers of one line of output, or of one entry of a file."""

    throughput: float | None = None  # items/s; None where a line has a step and no rate
    step: int | None = None  # steps done so far, where the program says
    time_s: float | None = None  # on the program's own clock; None: the line's arrival counts
    step_s: float | None = None  # seconds per step, where that is what the program prints
    is_total: bool = False  # of the whole run: kept as reported by the program
    item: str = ""  # what is counted (images, tokens, samples), where the output says
    per_gpu: bool | None = None  # None: the output does not say
    metrics: Mapping[str, float] = field(default_factory=dict)  # others, as loss


class Reader(Protocol):
    """Reads the output of one kind of program. It keeps state: use a new one for each attempt."""

    def read_line(self, line: str) -> Reading | None:
        """Return what a line says, without its newline and of bounded length; None: nothing."""

    def read_files(self, folder: Path) -> Iterator[Reading]:
        """Yield what the files say that the program left in its run folder once it has ended."""
