"""What agents of a shared sweep cost, through a PostgreSQL of its own.

`python -m benchmarks.agents [--only QUESTION] [--trials 200] [--repeats 6400] [--rounds 3] [--json
FILE]` prints a Markdown table.

- `trials`: trials that do nothing (tests/tiny_trainer.py), one after another by one agent. Per
  trial, from the claim to the start of its process, and from its end to its record.
- `claims`: how fast 32 agents, threads of 8 processes, claim, and whether a repeat is ever claimed
  twice.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import TypeAlias

from benchmarks.ratio import Row, figures_table, write_json
from store.database import open_for_reading
from store.reading import queries
from store.sweeps.ledger import Claim, OpenRepeat
from store.sweeps.shared import SharedLedger
from store.writer import Writer
from tests import postgresql
from tests.filled import PLACEMENT, attempt
from tests.specs import small
from tests.store.agents import join, share
from tests.sweeper.sharing import agent, begin

MOST_S = 0.3  # that an agent adds to a trial
LEAST_CLAIMS_PER_S = 300  # of all agents together
NUM_PROCESSES, NUM_THREADS = 8, 4
REPEATS_OF_A_TRIAL = 4

# begin, end, seconds of each take, ids of claimed repeats
Reported: TypeAlias = tuple[float, float, list[float], list[int]]


def trials(server: str, options: argparse.Namespace) -> list[Row]:
    """Measure what an agent adds to each trial."""
    with tempfile.TemporaryDirectory() as folder, postgresql.new_database(server) as url:
        os.chdir(folder)
        begin(url, [small(seed=seed) for seed in range(options.trials)])
        _, said = agent(url, locks=f"{folder}/locks").communicate()
        spans = _spans(url)
        os.chdir("/")
    if len(spans) != options.trials:
        sys.exit(f"{len(spans)} of {options.trials} trials completed:\n{said}")
    before_s, after_s = zip(*spans, strict=True)
    together_s = tuple(map(sum, spans))
    return [
        Row(what="before each trial", figures=before_s, unit="s", most=None),
        Row(what="after it", figures=after_s, unit="s", most=None),
        Row(what="together", figures=together_s, unit="s", most=MOST_S),
    ]


def _spans(url: str) -> list[tuple[float, float]]:
    """Return the seconds before and after each trial, by events and the files of its folder."""
    sql = """
        SELECT attempts.run_dir AS run_dir, sweeps.run_dir AS parent, repeats.id AS repeat_id
        FROM attempts JOIN sweeps ON sweeps.id = attempts.sweep_id
        JOIN repeats ON repeats.trial_id = attempts.trial_id
            AND repeats.sweep_id = attempts.sweep_id
        WHERE attempts.outcome = 'completed'"""
    engine = open_for_reading(url)
    at_s = {}
    for row in queries.rows(engine, "SELECT repeat_id, state, at_unix_us FROM events"):
        at_s[row["repeat_id"], row["state"]] = row["at_unix_us"] / 1e6
    spans = []
    for row in queries.rows(engine, sql):
        folder = Path(row["parent"] or "") / row["run_dir"]
        began_s = (folder / "environment.json").stat().st_mtime  # a trial's first file
        ended_s = (folder / "result.json").stat().st_mtime  # its last
        claimed_s, recorded_s = (at_s[row["repeat_id"], at] for at in ("claimed", "completed"))
        spans.append((began_s - claimed_s, recorded_s - ended_s))
    return spans


def claims(server: str, options: argparse.Namespace) -> list[Row]:
    """Measure how long a claim takes when all agents claim at once, per repeat."""
    rows = []
    num_wrong = []
    for finishes in (False, True):
        rates, slowest_ms = [], []
        for _ in range(options.rounds):
            reported = _claimed(server, options.repeats, finishes)
            begins_s, ends_s, takes_s, repeat_ids = zip(*reported, strict=True)
            rates.append((max(ends_s) - min(begins_s)) / options.repeats)
            ordered_s = sorted(itertools.chain(*takes_s))
            slowest_ms.append(1e3 * ordered_s[int(len(ordered_s) * 0.99)])
            counts = Counter(itertools.chain(*repeat_ids))
            num_wrong.append(sum(counts.values()) - 2 * len(counts) + options.repeats)
        what = "claim, begin and finish a repeat" if finishes else "claim a repeat"
        most_ms = None if finishes else 1e3 / LEAST_CLAIMS_PER_S
        each_ms = tuple(1e3 * rate for rate in rates)
        rows.append(Row(what=f"{what}, each", figures=each_ms, unit="ms", most=most_ms))
        slowest = tuple(slowest_ms)
        rows.append(Row(what=f"{what}: 99 % take", figures=slowest, unit="ms", most=None))
    wrong = tuple(map(float, num_wrong))
    rows.append(Row(what="repeats claimed twice, or not at all", figures=wrong, unit="", most=1))
    return rows


def _claimed(server: str, num_repeats: int, finishes: bool) -> list[Reported]:
    """Let all agents claim the repeats of a new database."""
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(NUM_PROCESSES)
    reported: Queue[Reported] = context.Queue()
    with postgresql.new_database(server) as url, closing(Writer(url)) as writer:
        specs = [small(seed=seed) for seed in range(1, num_repeats // REPEATS_OF_A_TRIAL + 1)]
        share(writer, dict.fromkeys(specs, REPEATS_OF_A_TRIAL))
        processes = []
        for _ in range(NUM_PROCESSES):
            given = (url, finishes, barrier, reported)
            processes.append(context.Process(target=_agents, args=given))
            processes[-1].start()
        answers = [reported.get() for _ in processes]
        for process in processes:
            process.join()
    return answers


def _agents(url: str, finishes: bool, barrier: Barrier, reported: Queue[Reported]) -> None:
    """Run the agents of one process, when those of all are ready."""
    takes_s: list[float] = []
    repeat_ids: list[int] = []
    with closing(Writer(url)) as writer:
        threads = []
        for _ in range(NUM_THREADS):
            given = (join(writer), finishes, takes_s, repeat_ids)
            threads.append(threading.Thread(target=_work, args=given))
        barrier.wait()
        begin_s = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reported.put((begin_s, time.monotonic(), takes_s, repeat_ids))


def _work(
    ledger: SharedLedger, finishes: bool, takes_s: list[float], repeat_ids: list[int]
) -> None:
    while True:
        begin_s = time.monotonic()
        repeat = ledger.take(8)
        takes_s.append(time.monotonic() - begin_s)
        if repeat is None:
            return
        repeat_ids.append(repeat.repeat_id)
        if finishes:
            _finish(ledger, repeat)


def _finish(ledger: SharedLedger, repeat: OpenRepeat) -> None:
    """Write all rows of a repeat that completes at once."""
    now = datetime.now(UTC)
    assert ledger.claim(repeat, now) is Claim.TAKEN
    number = ledger.run(repeat, "/runs/x", PLACEMENT, now)
    ledger.started(repeat.repeat_id, 1, 1)
    finished = attempt(small(), 50.0, repeat=repeat.repeat, number=number)
    object.__setattr__(finished, "trial_id", repeat.trial_id)
    ledger.finish(repeat.repeat_id, finished, now)


QUESTIONS = {"trials": trials, "claims": claims}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="What agents of a shared sweep cost.")
    parser.add_argument("--only", action="append", choices=QUESTIONS, help="one question")
    parser.add_argument("--trials", type=int, default=200, help="of one agent (default 200)")
    parser.add_argument("--repeats", type=int, default=6400, help="to claim (default 6400)")
    parser.add_argument("--rounds", type=int, default=3, help="of claims (default 3)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    options = parser.parse_args(arguments)
    if min(options.trials, options.rounds) < 1 or options.repeats < REPEATS_OF_A_TRIAL:
        parser.error(f"wanted 1 trial, 1 round and {REPEATS_OF_A_TRIAL} repeats or more")
    options.repeats -= options.repeats % REPEATS_OF_A_TRIAL
    programs = postgresql.find_programs()
    if programs is None:
        parser.error("no PostgreSQL server programs: run scripts/install-postgresql")
    rows: list[Row] = []
    with postgresql.server(programs) as server:
        for name in options.only or QUESTIONS:
            rows += QUESTIONS[name](server, options)
    print(figures_table(rows))
    write_json(options.json, [asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
