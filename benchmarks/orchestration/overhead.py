"""Measures what an attempt costs besides its trial: attempts that do nothing, with fork start,
every state recorded in the database.

Measured between two numbers of attempts, so that what a sweep costs once, the start of the fork
server among it, is not in it. The peer is a shell that starts a bare Python for the same program,
records nothing, and has no TensorFlow loaded.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.orchestration import trial_folders
from benchmarks.orchestration.cost import Cost, module, run, tail
from benchmarks.orchestration.noop_sweep import TRAINER
from benchmarks.orchestration.settings import Settings, rounds
from benchmarks.ratio import Ratio, Want

LIMIT_S = 0.1


def measure(settings: Settings) -> list[Ratio]:
    few, many = settings.num_noops
    runs = {
        f"{side} {count}": (side, count) for side in ("ours", "shell loop") for count in (few, many)
    }
    seen: dict[str, list[Cost]] = {name: [] for name in runs}
    for order in rounds(settings.num_rounds, list(runs)):
        for name in order:
            side, count = runs[name]
            with tempfile.TemporaryDirectory() as folder:
                seen[name].append((_ours if side == "ours" else _shell_loop)(count, Path(folder)))

    def per_attempt(side: str) -> list[tuple[float, float]]:
        """Wall and CPU seconds of each round."""
        pairs = zip(seen[f"{side} {few}"], seen[f"{side} {many}"], strict=True)
        return [
            ((b.wall_s - a.wall_s) / (many - few), (b.cpu_s - a.cpu_s) / (many - few))
            for a, b in pairs
        ]

    ours, theirs = per_attempt("ours"), per_attempt("shell loop")
    rows = []
    for column, metric in enumerate(("wall s per attempt", "CPU s per attempt")):
        pairs = [(a[column], b[column]) for a, b in zip(ours, theirs, strict=True)]
        rows.append(
            Ratio(
                name="overhead",
                ours="ours fork",
                peer="shell loop",
                metric=metric,
                pairs=pairs,
                target=None,
            )
        )
    limit = [(wall_s, LIMIT_S) for wall_s, _ in ours]
    names = {
        "name": "overhead",
        "ours": "ours fork",
        "peer": "limit",
        "metric": "wall s per attempt",
    }
    return [*rows, Ratio(**names, pairs=limit, target=1.0, want=Want.AT_MOST)]


def _ours(num_attempts: int, folder: Path) -> Cost:
    return run(module("benchmarks.orchestration.noop_sweep", str(num_attempts)), folder)


def _shell_loop(num_attempts: int, folder: Path) -> Cost:
    folders = trial_folders.prepare(folder, num_attempts)
    trial = f'{sys.executable} -m {TRAINER} "$folder/trial.json" "$folder"'
    script = f'for folder; do {trial} >>"$folder/log.txt" 2>&1 || exit; done'
    cost = run(["sh", "-c", script, "loop", *map(str, folders)], folder)
    trial_folders.check_completed(folders, tail(folder / "output.txt"))
    return cost
