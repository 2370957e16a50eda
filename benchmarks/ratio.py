"""Compares ours with a peer, or with a limit: a ratio per round, their median, and its 95 %
interval, by the bootstrap; of fewer than 6 rounds by Student's t of their logarithms, because
there the bootstrap's lowest and highest medians are those of the rounds, which hold less.
"""

from __future__ import annotations

import json
import math
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

SEED = 1  # of the bootstrap
LEAST_ROUNDS = 6  # of the bootstrap: 1 - 2 / 2**6 = 97 % of medians are between the extremes


class Want(StrEnum):
    """What the ratio shall be, seen from its target."""

    AT_LEAST = ">="
    AT_MOST = "<="
    EQUAL = "="  # the interval shall be within 5 % of the target


HEADING = (
    "| name | ours | peer | metric | ours, median | peer, median | ratio | 95 % interval | target "
    "| verdict |\n|---|---|---|---|---:|---:|---:|---|---|---|"
)
EQUAL_WITHIN = 0.05  # of the target, on either side


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A row of the table."""

    name: str
    ours: str
    peer: str
    metric: str
    pairs: list[tuple[float, float]]  # ours and the peer's, one per round
    target: float | None
    want: Want = Want.AT_LEAST
    ratio: float = field(init=False)  # median over rounds of ours / peer
    low: float = field(init=False)  # 95 % interval of the ratio
    high: float = field(init=False)

    def __post_init__(self) -> None:
        ratios = [ours / peer for ours, peer in self.pairs]
        low, high = _interval(ratios)
        for name, value in (("ratio", statistics.median(ratios)), ("low", low), ("high", high)):
            object.__setattr__(self, name, value)

    @property
    def verdict(self) -> str:
        """Met or missed where the whole interval is on one side of the target, else open; open
        where there is no interval.

        Equal is what has all of its interval near the target (an equivalence test), unequal what
        has none of it there.
        """
        if self.target is None:
            return ""
        if len(self.pairs) < 2:
            return "open"
        if self.want is Want.EQUAL:
            return self._near(EQUAL_WITHIN * self.target)
        if self.low < self.target < self.high:
            return "open"
        return (
            "met"
            if (self.high <= self.target if self.want is Want.AT_MOST else self.low >= self.target)
            else "missed"
        )

    def _near(self, margin: float) -> str:
        assert self.target is not None
        lowest, highest = self.target - margin, self.target + margin
        if lowest <= self.low and self.high <= highest:
            return "met"
        return "missed" if self.high < lowest or highest < self.low else "open"

    def line(self) -> str:
        """Return the row of a Markdown table."""
        cells = [self.name, self.ours, self.peer, self.metric]
        cells += [f"{statistics.median(values):.3g}" for values in zip(*self.pairs, strict=True)]
        cells += [f"{self.ratio:.3f}", f"{self.low:.3f}..{self.high:.3f}"]
        cells += ["" if self.target is None else f"{self.want} {self.target:.2f}", self.verdict]
        return "| " + " | ".join(cells) + " |"

    def reported(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self) | {"verdict": self.verdict}


def table(rows: Sequence[Ratio]) -> str:
    """Return the rows as Markdown."""
    return "\n".join([HEADING, *(row.line() for row in rows)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure, with the limit that it shall keep."""

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


def figures_table(rows: Sequence[Row]) -> str:
    """Return figures as Markdown."""
    heading = "| what | median | of rounds | unit | wanted | verdict |\n|---|---:|---|---|---|---|"
    return "\n".join([heading, *map(str, rows)])


def machine(gpu: str = "no GPU used") -> str:
    """What the numbers were made on."""
    processors = [
        line.split(":", 1)[1].strip()
        for line in _lines(Path("/proc/cpuinfo"))
        if line.startswith("model name")
    ]
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"{os.cpu_count()} x {processors[0] if processors else platform.machine()}, {gpu}, "
        f"load {load}"
    )


def write_json(
    path: Path | None, rows: Sequence[Mapping[str, Any]], where: str = "", **about: object
) -> None:
    """Write rows, with the machine and what else is to be known of them, where a file is wanted."""
    if path is None:
        return
    written = {"machine": where or machine(), **about, "rows": rows}
    path.write_text(json.dumps(written, indent=1) + "\n")


def _interval(ratios: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the median over rounds."""
    if 1 < len(ratios) < LEAST_ROUNDS and min(ratios) > 0:
        from scipy.stats import t as student_t  # an environment of PyTorch need not have it

        logs = np.log(ratios)
        half = student_t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
        return math.exp(logs.mean() - half), math.exp(logs.mean() + half)
    drawn = np.random.default_rng(SEED).choice(ratios, (10_000, len(ratios)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
