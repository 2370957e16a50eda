"""How fast tables, charts and the report are, as commands of their own, from the start of the
process to its end.

`python benchmarks/plots.py [--rounds N] [--only QUESTION] [--json FILE]` prints a Markdown table.
The databases are written in bulk, and kept in benchmarks/.store/ for the next call.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)  # beside this file lies a `store.py`

from benchmarks.figures import Row, table
from benchmarks.ratio import machine, write_json
from benchmarks.storing import results
from store.database import open_for_writing

FOLDER = Path(__file__).parent / ".store"
NUM_STEPS = 34


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    FOLDER.mkdir(exist_ok=True)
    rows: list[Row] = []
    for name in options.only or QUESTIONS:
        print(name, file=sys.stderr)
        rows += QUESTIONS[name](options.rounds)
    print(table(rows))
    print(f"\n{machine()}; {options.rounds} rounds.")
    write_json(options.json, [asdict(row) for row in rows])
    return 0


def tables(rounds: int) -> list[Row]:
    """Of 10,000 trials, each run once, and each run three times."""
    found = []
    for num_repeats in (1, 3):
        database = _filled("plots-tables", 10_000, results.GRID, num_repeats)
        for form in ("terminal", "csv"):
            seconds = _seconds(rounds, "tables", "--db", str(database), "--format", form)
            what = f"tables of 10,000 trials, {num_repeats * 10_000:,} attempts, --format {form}"
            found.append(
                Row(what=what, figures=seconds, unit="s", most=1.0 if num_repeats == 1 else None)
            )
    return found


def charts(rounds: int) -> list[Row]:
    """All of one sweep: 5 models x 5 strategies x 1, 2, 4, 8 devices."""
    database = _filled("plots-charts", 100, results.ARTICLE, 1)
    with _folder() as folder:
        seconds = _seconds(rounds, "charts", "--db", str(database), "--out", str(folder))
        num_pictures = len(list(folder.iterdir()))
        both = _seconds(
            rounds, "charts", "--db", str(database), "--out", str(folder), "--format", "png,svg"
        )
    return [
        Row(
            what=f"all charts of a sweep of 100 trials, {num_pictures} pictures",
            figures=seconds,
            unit="s",
            most=10,
        ),
        Row(what="the same as PNG and SVG", figures=both, unit="s", most=None),
    ]


def report(rounds: int) -> list[Row]:
    """Of 2,000 trials."""
    database = _filled("plots-report", 2_000, results.GRID, 1)
    with _folder() as folder:
        file = folder / "report.html"
        seconds = _seconds(rounds, "report", "--db", str(database), "--out", str(file))
        megabytes = file.stat().st_size / 1e6
    return [
        Row(what="report of 2,000 trials", figures=seconds, unit="s", most=15),
        Row(what="its size", figures=(megabytes,), unit="MB", most=2),
    ]


def start(rounds: int) -> list[Row]:
    """What every command pays: Python, our imports, the command line."""
    return [
        Row(
            what="`python -m plots --help`", figures=_seconds(rounds, "--help"), unit="s", most=None
        )
    ]


QUESTIONS = {"start": start, "tables": tables, "charts": charts, "report": report}


def _filled(name: str, num_trials: int, grid: Sequence[results.Axes], num_repeats: int) -> Path:
    database = FOLDER / f"{name}-{num_repeats}.db"
    if not database.exists():
        engine = open_for_writing(str(database))
        results.add(
            engine, results.attempts(num_trials, NUM_STEPS, grid=grid, num_repeats=num_repeats)
        )
        engine.dispose()
    return database


def _seconds(rounds: int, *arguments: str) -> tuple[float, ...]:
    command = [sys.executable, "-m", "plots", *arguments]
    found = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found.append(time.perf_counter() - began)
    return tuple(found[1:])  # without the first, which fills the file cache


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="of each figure (default 5)")
    parser.add_argument(
        "--only", action="append", choices=QUESTIONS, help="only this; may be given several times"
    )
    parser.add_argument("--json", type=Path, help="file for the figures")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
