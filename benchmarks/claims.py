"""How fast agents of a shared sweep claim from one PostgreSQL, and whether a repeat is ever claimed
twice.

`python -m benchmarks.claims [--agents 32] [--processes 8] [--repeats 6400] [--rounds 3] [--url URL]
[--json FILE]` prints a Markdown table. Agents are threads of so many processes. Without URL it
starts a server of its own, which is gone afterwards.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from benchmarks.ratio import Row, figures_table, write_json
from store.finished_attempt import FinishedAttempt
from store.sweeps.ledger import Claim, OpenRepeat
from store.sweeps.shared import SharedLedger
from store.writer import Writer
from tests import postgresql
from tests.filled import PLACEMENT, attempt
from tests.specs import small
from tests.store.agents import join, share

LEAST_PER_S = 300  # claims, of all agents together
REPEATS_OF_A_TRIAL = 4
ONE = small()


def main(arguments: Sequence[str]) -> int:
    options = _parser().parse_args(arguments)
    num_agents = options.agents - options.agents % options.processes
    rows: list[Row] = []
    doubles: list[float] = []
    with _server(options.url) as server:
        for what, work in {
            "claims": claim,
            "claims, begun and finished with their rows": claim_and_finish,
        }.items():
            rates, slowest_ms = [], []
            for number in range(options.rounds):
                seconds = _round(server, options, num_agents // options.processes, work)
                rates.append(options.repeats / seconds.wall_s)
                slowest_ms.append(seconds.p99_s * 1e3)
                doubles.append(float(seconds.num_double))
                print(f"{what}, round {number + 1}: {rates[-1]:.0f}/s", file=sys.stderr)
            rows.append(
                Row(
                    what=f"{what}, of {num_agents} agents",
                    figures=tuple(rates),
                    unit="per s",
                    most=None,
                )
            )
            rows.append(
                Row(
                    what=f"{what}: 99 % of takes within",
                    figures=tuple(slowest_ms),
                    unit="ms",
                    most=None,
                )
            )
    rows.append(
        Row(what="repeats claimed twice, or not at all", figures=tuple(doubles), unit="", most=1)
    )
    print(figures_table(rows))
    is_met = min(rows[0].figures) >= LEAST_PER_S and not any(doubles)
    print(
        f"\nwanted: {LEAST_PER_S} claims per s or more, none twice: {'met' if is_met else 'missed'}"
    )
    write_json(options.json, [asdict(row) for row in rows])
    return 0 if is_met else 1


class _Measured:
    """One round."""

    def __init__(
        self, begins: list[float], ends: list[float], takes_s: list[float], num_double: int
    ) -> None:
        self.wall_s, self.num_double = max(ends) - min(begins), num_double
        self.p99_s = sorted(takes_s)[int(len(takes_s) * 0.99)]


def claim(_agent: SharedLedger, _repeat: OpenRepeat) -> None:
    """Nothing more."""


def claim_and_finish(agent: SharedLedger, repeat: OpenRepeat) -> None:
    """All that is written of a repeat that completes at once."""
    now = datetime.now(UTC)
    assert agent.claim(repeat, now) is Claim.TAKEN
    number = agent.run(repeat, "/runs/x", PLACEMENT, now)
    agent.started(repeat.repeat_id, 1, 1)
    agent.finish(repeat.repeat_id, _finished(repeat, number), now)


def _finished(repeat: OpenRepeat, number: int) -> FinishedAttempt:
    found = attempt(ONE, 50.0, repeat=repeat.repeat, number=number)
    object.__setattr__(found, "trial_id", repeat.trial_id)
    return found


def _round(
    server: str,
    options: argparse.Namespace,
    num_threads: int,
    work: Callable[[SharedLedger, OpenRepeat], None],
) -> _Measured:
    """In a database of its own."""
    context = multiprocessing.get_context("spawn")
    barrier: Barrier = context.Barrier(options.processes)
    reported: Queue[tuple[float, float, list[float], list[int]]] = context.Queue()
    with postgresql.new_database(server) as url, closing(Writer(url)) as writer:
        num_trials = options.repeats // REPEATS_OF_A_TRIAL
        share(writer, {small(seed=seed): REPEATS_OF_A_TRIAL for seed in range(1, num_trials + 1)})
        arguments = (url, num_threads, work, barrier, reported)
        processes = [
            context.Process(target=_agents, args=arguments) for _ in range(options.processes)
        ]
        for process in processes:
            process.start()
        found = [reported.get() for _ in processes]
        for process in processes:
            process.join()
    claimed = Counter(repeat_id for one in found for repeat_id in one[3])
    num_double = (
        sum(num - 1 for num in claimed.values()) + num_trials * REPEATS_OF_A_TRIAL - len(claimed)
    )
    return _Measured(
        [one[0] for one in found],
        [one[1] for one in found],
        [s for one in found for s in one[2]],
        num_double,
    )


def _agents(
    url: str,
    num_threads: int,
    work: Callable[[SharedLedger, OpenRepeat], None],
    barrier: Barrier,
    reported: Queue[tuple[float, float, list[float], list[int]]],
) -> None:
    """Those of one process."""
    takes_s: list[float] = []
    claimed: list[int] = []
    with closing(Writer(url)) as writer:
        agents = [join(writer) for _ in range(num_threads)]
        barrier.wait()
        begin = time.monotonic()
        threads = [
            threading.Thread(target=_work, args=(agent, work, takes_s, claimed)) for agent in agents
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        reported.put((begin, time.monotonic(), takes_s, claimed))


def _work(
    agent: SharedLedger,
    work: Callable[[SharedLedger, OpenRepeat], None],
    takes_s: list[float],
    claimed: list[int],
) -> None:
    while True:
        begin = time.monotonic()
        repeat = agent.take(8)
        takes_s.append(time.monotonic() - begin)
        if repeat is None:
            return
        claimed.append(repeat.repeat_id)
        work(agent, repeat)


@contextmanager
def _server(url: str) -> Iterator[str]:
    if url:
        yield url
        return
    with postgresql.server(
        postgresql.needed_programs(postgresql.find_programs(), in_ci=True)
    ) as own:
        yield own


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="How fast agents of a shared sweep claim.")
    parser.add_argument("--agents", type=int, default=32)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=6400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--url", default="", help="of a server on which databases can be made")
    parser.add_argument("--json", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
