"""Measures what an agent adds to each trial, from taking it to its start and from its end to its
record.

`python -m benchmarks.agents [--trials 200]` runs trials that do nothing (tests/tiny_trainer.py),
one after another, through a real PostgreSQL of its own. Per trial:

  before   from the claim to the start of its process      as `events` and the run folder tell
  after    from its end to its record                      the result's file, and the state in
  `events`
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from store.database import open_for_reading
from store.reading import queries
from tests import postgresql
from tests.specs import small
from tests.sweeper.sharing import agent, begin

WANTED_S = 0.3


def main(arguments: Sequence[str]) -> int:
    parser = _parser()
    num = parser.parse_args(arguments).trials
    if num < 1:
        parser.error(f"--trials {num}: wanted 1 or more")
    programs = postgresql.find_programs()
    if programs is None:
        print("no PostgreSQL server programs: run scripts/install-postgresql", file=sys.stderr)
        return 2
    with (
        tempfile.TemporaryDirectory() as folder,
        postgresql.server(programs) as server,
        postgresql.new_database(server) as url,
    ):
        os.chdir(folder)
        begin(url, [small(seed=seed) for seed in range(num)])
        _, said = agent(url, locks=f"{folder}/locks").communicate()
        spans = _spans(url)
        os.chdir("/")
    if len(spans) != num:
        print(f"{len(spans)} of {num} trials completed:\n{said}", file=sys.stderr)
        return 1
    print(f"{num} trials, one agent; seconds per trial   median     90 %      max")
    sums = [before + after for before, after in spans]
    for name, values in (
        ("before", [one[0] for one in spans]),
        ("after", [one[1] for one in spans]),
        ("together", sums),
    ):
        ordered = sorted(values)
        print(f"{name:<42} {median(values):8.4f} {ordered[int(0.9 * num)]:8.4f} {ordered[-1]:8.4f}")
    print(f"wanted: under {WANTED_S} s together")
    return 0 if median(sums) < WANTED_S else 1


def _spans(url: str) -> list[tuple[float, float]]:
    """Of each trial, before and after."""
    sql = """
        SELECT attempts.run_dir AS run_dir, sweeps.run_dir AS parent, repeats.id AS repeat_id
        FROM attempts JOIN sweeps ON sweeps.id = attempts.sweep_id
        JOIN repeats ON repeats.trial_id = attempts.trial_id
            AND repeats.sweep_id = attempts.sweep_id
        WHERE attempts.outcome = 'completed'"""
    engine = open_for_reading(url)
    at = {
        (row["repeat_id"], row["state"]): row["at_unix_us"] / 1e6
        for row in queries.rows(engine, "SELECT repeat_id, state, at_unix_us FROM events")
    }
    spans = []
    for row in queries.rows(engine, sql):
        folder = Path(row["parent"] or "") / row["run_dir"]
        # the first thing that the trial does
        began_s = (folder / "environment.json").stat().st_mtime
        ended_s = (folder / "result.json").stat().st_mtime  # the last
        spans.append(
            (began_s - at[row["repeat_id"], "claimed"], at[row["repeat_id"], "completed"] - ended_s)
        )
    return spans


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="What an agent adds to each trial, in seconds.")
    parser.add_argument("--trials", type=int, default=200)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
