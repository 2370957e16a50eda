"""How big and how fast a results database is that was kept for years.

`python -m benchmarks.store [--scale S] [--rounds N] [--only QUESTION] [--database FILE] [--json
FILE]` prints a Markdown table. At scale 1: 100,000 trials, 300,000 attempts, 10 million steps,
written as `db rebuild` does, and kept in FILE (default benchmarks/.store/SCALE.db) for the next
call.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from benchmarks import made_up_results as results
from benchmarks.asking import parser
from benchmarks.ratio import Row, figures_table, machine, write_json
from scalemark.host.processes import ProcessIdentity
from store.database import open_for_reading, open_for_writing, reading
from store.merge import merge
from store.reading import listing, queries
from store.reading.listing import show
from store.rows import FinishedAttempt
from store.writer import NewSweep, Writer

FOLDER = Path(__file__).parent / ".store"
NUM_TRIALS, NUM_STEPS = 100_000, 34  # a trial has three attempts
NUM_MERGED, MERGED_STEPS = 10_000, 100
NUM_READERS, NUM_READS = 16, 6
FILTERS = ("model=resnet50", "num_gpus>=4", "batch_size=64", "precision=bf16")


def main(arguments: Sequence[str]) -> int:
    asked = parser(__doc__, only=QUESTIONS, rounds="of each question (default 5)", writes_json=True)
    about = "of all sizes (default 1: 300,000 attempts)"
    asked.add_argument("--scale", type=float, default=1.0, help=about)
    about = "where the big database is, or is made"
    asked.add_argument("--database", type=Path, metavar="FILE", help=about)
    options = asked.parse_args(arguments)
    rounds = options.rounds or 5
    FOLDER.mkdir(exist_ok=True)
    database = options.database or FOLDER / f"{options.scale:g}.db"
    rows: list[Row] = []
    for name in options.only or QUESTIONS:
        print(name, file=sys.stderr)
        if name != "size" and not database.exists():  # it says how long that takes
            results.write(database, round(NUM_TRIALS * options.scale), NUM_STEPS)
        found = QUESTIONS[name](database, options.scale, rounds)
        for row in found:
            print(f"  {row}", file=sys.stderr)
        rows += found
        # after each question: the next one may take long
        write_json(options.json, [asdict(row) for row in rows], scale=options.scale)
    print(figures_table(rows))
    print(f"\n{machine()}; scale {options.scale:g}, {rounds} rounds.")
    return 0


def size(database: Path, scale: float, rounds: int) -> list[Row]:
    """Of the file, and how long it took to write; nothing is written when it is there already."""
    found = []
    if not database.exists():
        num_trials = round(NUM_TRIALS * scale)
        took_s = _seconds(lambda: results.write(database, num_trials, NUM_STEPS))
        found.append(Row(what="writing it, in bulk", figures=(took_s,), unit="s", most=None))
    with closing(sqlite3.connect(database)) as connection:
        counts = [
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("trials", "attempts")
        ]
        (num_steps,) = connection.execute(
            "SELECT sum(json_array_length(gap_before)) FROM step_arrays"
        ).fetchone()
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    reported = f"file of {counts[0]:,} trials, {counts[1]:,} attempts, {num_steps:,} steps"
    return [
        *found,
        Row(what=reported, figures=(database.stat().st_size / 1e6,), unit="MB", most=400 * scale),
    ]


def reads(database: Path, scale: float, rounds: int) -> list[Row]:
    """What people and scripts ask, each on a connection of its own."""
    url = str(database)
    middle = str(round(NUM_TRIALS * scale) * results.REPEATS // 2)
    questions: dict[str, tuple[Callable[[], object], float | None]] = {
        f"list {' '.join(FILTERS)}": (lambda: list(_listed(url, FILTERS)), 0.2),
        "show of an attempt": (lambda: show(open_for_reading(url), middle), 0.2),
        "scaling of one curve, in SQL": (
            lambda: queries.rows(open_for_reading(url), _SCALING),
            0.2,
        ),
    }
    rows = []
    for what, (ask, most) in questions.items():
        ask()  # once for the file cache
        rows.append(
            Row(what=what, figures=tuple(_seconds(ask) for _ in range(rounds)), unit="s", most=most)
        )
    command = [sys.executable, "-m", "scalemark", "list", "--db", url, *FILTERS]
    as_command = tuple(
        _seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
        for _ in range(rounds)
    )
    return [
        *rows,
        Row(what="the same list, as a command of its own", figures=as_command, unit="s", most=None),
    ]


_SCALING = (
    "SELECT * FROM scaling WHERE model = 'resnet50' AND batch_size = 64 AND precision = 'bf16'"
)


def _listed(url: str, filters: Sequence[str]) -> Iterator[object]:
    with reading(open_for_reading(url)) as connection:
        statement = listing.listing(connection, filters)
        yield from connection.execute(statement, execution_options=queries.STREAMED)


def merges(database: Path, scale: float, rounds: int) -> list[Row]:
    """Of 10,000 attempts with 100 steps each, into a new database and into one that has them."""
    num_trials = round(NUM_MERGED * scale) // results.REPEATS + 1
    took: dict[str, list[float]] = {"into a new database": [], "again": []}
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "source.db"
        results.write(source, num_trials, MERGED_STEPS)
        for number in range(rounds):
            new = Path(name) / f"new{number}.db"
            for seconds in took.values():
                seconds.append(_seconds(partial(merge, str(new), [str(source)])))
    what = f"merge of {num_trials * results.REPEATS:,} attempts of {MERGED_STEPS} steps"
    return [
        Row(what=f"{what} {how}", figures=tuple(seconds), unit="s", most=20)
        for how, seconds in took.items()
    ]


def ends(database: Path, scale: float, rounds: int) -> list[Row]:
    """From the end of an attempt to its last byte handed to the disk, beside the attempts that are
    there.
    """
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        copy = Path(name) / "copy.db"
        shutil.copy(database, copy)
        given = list(results.attempts(50 * rounds, MERGED_STEPS, name="new"))[:: results.REPEATS]
        writer = Writer(str(copy))
        ledger = writer.begin_sweep(_new_sweep(given), lambda *_: False)
        by_trial = {made.spec.trial_id: made for made in given}
        took = []
        for repeat in ledger.open_repeats():
            made = by_trial[repeat.trial_id]
            now = datetime.now(UTC)
            attempt = made.attempt
            ledger.claim(repeat)
            number = ledger.run(repeat, attempt.run_dir, attempt.placement, now)
            finished = replace(attempt, repeat=repeat.repeat, attempt=number, started_at=now)

            def finish(
                repeat_id: int = repeat.repeat_id, finished: FinishedAttempt = finished
            ) -> None:
                ledger.finish(repeat_id, finished)

            took.append(1000 * _seconds(finish))
        ledger.end(datetime.now(UTC), finished=True)
        writer.close()
    return [
        Row(
            what=f"recording the end of an attempt of {MERGED_STEPS} steps",
            figures=tuple(took),
            unit="ms",
            most=50,
        )
    ]


def _new_sweep(given: Sequence[results.Made]) -> NewSweep:
    return NewSweep(
        name="new",
        reason="",
        command="benchmark",
        started_at=datetime.now(UTC),
        trials=[made.spec for made in given],
        num_repeats={made.spec.trial_id: 1 for made in given},
        left_out=[],
        wanted_repeats=1,
        rerun=True,
        machine=results.MACHINE,
        software_key="benchmark",
        shares_host=False,
        process=ProcessIdentity(host="box", boot_id="b", pid_namespace="p", pid=1, start_ticks=1),
    )


def readers(database: Path, scale: float, rounds: int) -> list[Row]:
    """16 processes ask while one writes: how many are refused, and how long they wait."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        copy = Path(name) / "copy.db"
        shutil.copy(database, copy)
        num_written = num_refused = 0
        engine = open_for_writing(str(copy))
        written = results.attempts(10_000, NUM_STEPS, name="beside")
        waits: list[float] = []
        with ProcessPoolExecutor(NUM_READERS, get_context("spawn")) as pool:
            asked = [pool.submit(_list_seconds, str(copy)) for _ in range(NUM_READERS * NUM_READS)]
            while not all(answer.done() for answer in asked):
                results.add(engine, [next(written) for _ in range(5)])
                num_written += 5
        engine.dispose()
        for answer in asked:
            if answer.exception():
                num_refused += 1
            else:
                waits.append(answer.result())
    beside = f"{NUM_READERS} processes, {len(asked)} lists, beside {num_written} attempts written"
    return [
        Row(what=f"{beside}: refused", figures=(num_refused,), unit="", most=1),
        Row(what=f"{beside}: a list", figures=tuple(waits), unit="s", most=None),
    ]


def _list_seconds(url: str) -> float:
    return _seconds(lambda: list(_listed(url, FILTERS)))


QUESTIONS = {
    "size": size,
    "reads": reads,
    "merges": merges,
    "ends": ends,
    "readers": readers,
}


def _seconds(do: Callable[[], object]) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
