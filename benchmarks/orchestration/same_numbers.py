"""Measures whether a trial that was forked trains as fast as one that was spawned: in turns, each
into a database of its own.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from benchmarks.orchestration.cost import run, sweep, tail
from benchmarks.orchestration.settings import BrokenError, Settings, rounds
from benchmarks.ratio import Ratio, Want

STARTS = ("fork", "spawn")
_QUERY = """
SELECT trials.num_gpus * trials.batch_size * measurements.num_steps / measurements.cpu_s,
    measurements.throughput
FROM measurements JOIN attempts ON attempts.id = measurements.attempt_id
JOIN trials ON trials.id = attempts.trial_id
WHERE attempts.outcome = 'completed' ORDER BY attempts.id
"""


def measure(settings: Settings) -> list[Ratio]:
    """The ratio's interval shall contain 1."""
    with tempfile.TemporaryDirectory() as folder:
        for number, starts in enumerate(rounds(settings.num_rounds, STARTS), start=1):
            for start in starts:
                _run(start, settings.num_same_steps, Path(folder))
                seen = _seen(start, Path(folder))
                if len(seen) != number:
                    raise BrokenError(
                        f"{start}: {len(seen)} of {number} "
                        f"completed\n{tail(Path(folder) / 'output.txt')}"
                    )
                print(
                    f"  {start}: {seen[-1][0]:.1f} images per CPU s, {seen[-1][1]:.1f} per s",
                    file=sys.stderr,
                )
        forked, spawned = (_seen(start, Path(folder)) for start in STARTS)
    rows = []
    for column, metric in enumerate(("images per CPU s", "images per s")):
        pairs = [(a[column], b[column]) for a, b in zip(forked, spawned, strict=True)]
        names = {"name": "same_numbers", "ours": "fork", "peer": "spawn", "metric": metric}
        rows.append(Ratio(**names, pairs=pairs, target=1.0, want=Want.EQUAL))
    return rows


def _run(start: str, num_steps: int, folder: Path) -> None:
    trial = ("model=resnet18_cifar", "hardware=cpu", f"num_steps={num_steps}")
    run(
        sweep(
            *trial,
            f"launcher.start={start}",
            "sweep.rerun=true",
            f"store.url={start}.db",
            f"store.runs_dir={start}",
        ),
        folder,
    )


def _seen(start: str, folder: Path) -> list[tuple[float, float]]:
    """Images per CPU second and per second of each repeat, in order."""
    with closing(sqlite3.connect(folder / f"{start}.db")) as database:
        return list(database.execute(_QUERY))
