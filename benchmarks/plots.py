"""How fast tables, charts and the report are, as commands of their own, from the start of the
process to its end.

`python -m benchmarks.plots [--rounds N] [--scale S] [--only QUESTION] [--json FILE]` prints a
Markdown table. The databases are written in bulk, and kept in benchmarks/.store/ for the next call.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks import made_up_results as results
from benchmarks.asking import parser
from benchmarks.ratio import Row, figures_table, machine, write_json

FOLDER = Path(__file__).parent / ".store"
NUM_STEPS = 34


def main(arguments: Sequence[str]) -> int:
    asked = parser(__doc__, only=QUESTIONS, rounds="of each figure (default 5)", writes_json=True)
    asked.add_argument("--scale", type=float, default=1.0, help="of all databases (default 1)")
    about = "folder of them (default benchmarks/.store)"
    asked.add_argument("--databases", type=Path, default=FOLDER, help=about)
    options = asked.parse_args(arguments)
    rounds = options.rounds or 5
    options.databases.mkdir(exist_ok=True)
    rows: list[Row] = []
    for name in options.only or QUESTIONS:
        print(name, file=sys.stderr)
        rows += QUESTIONS[name](rounds, options.scale, options.databases)
    print(figures_table(rows))
    print(f"\n{machine()}; scale {options.scale:g}, {rounds} rounds.")
    write_json(options.json, [asdict(row) for row in rows])
    return 0


def tables(rounds: int, scale: float, folder: Path) -> list[Row]:
    """Print those of 10,000 trials, each run once, and each run three times."""
    num_trials = round(10_000 * scale)
    rows = []
    for num_repeats, most_s in ((1, 1.0), (3, None)):
        database = _filled(folder, "tables", num_trials, results.GRID, num_repeats)
        for form in ("terminal", "tidy"):
            took_s = _seconds(rounds, "table", "--db", str(database), "--format", form)
            num_attempts = num_repeats * num_trials
            what = f"tables of {num_trials:,} trials, {num_attempts:,} attempts, --format {form}"
            rows.append(Row(what=what, figures=took_s, unit="s", most=most_s))
    return rows


def growth(rounds: int, scale: float, folder: Path) -> list[Row]:
    """Print tables of four times as many trials: more than five times the CPU time, without that of
    a start, shows something quadratic.
    """
    num_trials = round(5_000 * scale)
    few = _filled(folder, "tables", num_trials, results.GRID, 3)
    many = _filled(folder, "tables", 4 * num_trials, results.GRID, 3)
    ratios = []
    for _ in range(rounds):
        start_s = _cpu_s("--help")
        few_s, many_s = (_cpu_s("table", "--db", str(database)) for database in (few, many))
        least_s = 0.01  # the resolution, where there are few trials
        ratios.append((many_s - start_s) / max(few_s - start_s, least_s))
    what = f"CPU time of tables of {4 * num_trials:,} trials / of {num_trials:,}"
    return [Row(what=what, figures=tuple(ratios), unit="", most=5)]


def charts(rounds: int, scale: float, folder: Path) -> list[Row]:
    """Draw all of one sweep: 5 models x 5 strategies x 1, 2, 4, 8 devices."""
    database = _filled(folder, "charts", len(results.ARTICLE), results.ARTICLE, 1)
    with tempfile.TemporaryDirectory() as out:
        command = ["chart", "--db", str(database), "--out", out]
        took_s = _seconds(rounds, *command)
        num_pictures = len(list(Path(out).iterdir()))
        both_s = _seconds(rounds, *command, "--format", "png", "--format", "svg")
    what = f"all charts of a sweep of 100 trials, {num_pictures} pictures"
    return [
        Row(what=what, figures=took_s, unit="s", most=10),
        Row(what="the same as PNG and SVG", figures=both_s, unit="s", most=None),
    ]


def report(rounds: int, scale: float, folder: Path) -> list[Row]:
    """Write that of 2,000 trials."""
    num_trials = round(2_000 * scale)
    database = _filled(folder, "report", num_trials, results.GRID, 1)
    with tempfile.TemporaryDirectory() as out:
        file = Path(out) / "report.html"
        took_s = _seconds(rounds, "report", "--db", str(database), "--out", str(file))
        megabytes = file.stat().st_size / 1e6
    return [
        Row(what=f"report of {num_trials:,} trials", figures=took_s, unit="s", most=15),
        Row(what="its size", figures=(megabytes,), unit="MB", most=2),
    ]


def start(rounds: int, scale: float, folder: Path) -> list[Row]:
    """Measure what every command pays: Python, our imports, the command line."""
    took_s = _seconds(rounds, "table", "--help")
    return [Row(what="`scalemark table --help`", figures=took_s, unit="s", most=None)]


QUESTIONS: dict[str, Callable[[int, float, Path], list[Row]]] = {
    "start": start,
    "tables": tables,
    "growth": growth,
    "charts": charts,
    "report": report,
}


def _filled(
    folder: Path, name: str, num_trials: int, grid: Sequence[results.Axes], num_repeats: int
) -> Path:
    database = folder / f"plots-{name}-{num_trials}-{num_repeats}.db"
    if not database.exists():
        results.write(database, num_trials, NUM_STEPS, grid=grid, num_repeats=num_repeats)
    return database


def _seconds(rounds: int, *arguments: str) -> tuple[float, ...]:
    command = [sys.executable, "-m", "scalemark", *arguments]
    took_s = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took_s.append(time.perf_counter() - began)
    return tuple(took_s[1:])  # without the first, which fills the file cache


def _cpu_s(*arguments: str) -> float:
    before = os.times()
    command = [sys.executable, "-m", "scalemark", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    user_s = after.children_user - before.children_user
    return user_s + after.children_system - before.children_system


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
