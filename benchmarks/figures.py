"""Figures of a benchmark, each against the limit that it shall keep: one per round, and their
median.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure."""

    what: str
    figures: tuple[float, ...]  # one per round
    unit: str
    most: float | None  # that is wanted

    @property
    def median(self) -> float:
        return statistics.median(self.figures)

    def __str__(self) -> str:
        between = (
            f"{min(self.figures):.3g}..{max(self.figures):.3g}" if len(self.figures) > 1 else ""
        )
        wanted = "" if self.most is None else f"under {self.most:g}"
        verdict = "" if self.most is None else "met" if self.median < self.most else "missed"
        return (
            f"| {self.what} | {self.median:.3g} | {between} | {self.unit} | {wanted} | {verdict} |"
        )


def table(rows: Sequence[Row]) -> str:
    """In Markdown."""
    return "\n".join(
        [
            "| what | median | of rounds | unit | wanted | verdict |\n|---|---:|---|---|---|---|",
            *map(str, rows),
        ]
    )
