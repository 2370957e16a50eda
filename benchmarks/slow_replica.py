"""Counts how often the slow replica is named, and an innocent one: on simulated times of each
replica's own compute with known truth.

`python -m benchmarks.slow_replica [--times N] [--rounds N] [--only NAME] [--json FILE]` prints a
Markdown table. Same seed, same figures.

Other rules were asked once about the same times: `10 % above the mean` and `z-score > 2` name an
innocent one in up to 56 % of cases; NVIDIA's score below 0.75 names none that is 20 % slower.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from analysis.explain.slow_replica import slow_replicas
from benchmarks.asking import head, parser, row

SEED = 21
NUM_REPLICAS = 8
NUM_ROUNDS = 128  # as the trainer takes
SLOW_BY = 0.2
SLOW = {"none slow": (), "one slow": (3,), "two slow": (3, 5)}
PAUSE = 2.0  # mean length, in rounds

Seconds = NDArray[np.float64]  # (rounds, replicas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Causes by which times vary, as shares of the time of a round."""

    name: str
    noise: float = 0.03  # standard deviation, of each replica for itself
    alike: float = 0.0  # correlation of neighboring rounds
    host: float = 0.0  # what slows all replicas alike, for many rounds
    pauses: float = 0.0  # share of rounds of a replica that take much longer
    order: float = 0.0  # standard deviation of a replica's whole process, as by its place
    socket: float = 0.0  # by which the first half is slower
    drift: float = 0.0  # standard deviation of a replica's change over all rounds
    num_processes: int = 1


CASES = (
    Case(name="noise 3 %"),
    Case(name="noise 6 %", noise=0.06),
    Case(name="a host that slows all alike", host=0.2),
    Case(name="pauses in 5 % of rounds", pauses=0.05),
    Case(name="order or place, 2 %", order=0.02),
    Case(name="order or place, 3 %", order=0.03),
    Case(name="order or place, 3 %; 3 processes", order=0.03, num_processes=3),
    Case(name="order or place, 4 %", order=0.04),
    Case(name="order or place, 4 %; 3 processes", order=0.04, num_processes=3),
    Case(name="a socket 8 % slower", socket=0.08),
    Case(name="AR(1) 0.6, noise 5 %", noise=0.05, alike=0.6),
    Case(name="AR(1) 0.6, noise 5 %; 3 processes", noise=0.05, alike=0.6, num_processes=3),
    Case(name="AR(1) 0.9, noise 5 %", noise=0.05, alike=0.9),
    Case(name="AR(1) 0.9, noise 5 %; 3 processes", noise=0.05, alike=0.9, num_processes=3),
    Case(name="AR(1) 0.9, noise 20 %", noise=0.2, alike=0.9),
    Case(name="AR(1) 0.9, noise 20 %; 10 processes", noise=0.2, alike=0.9, num_processes=10),
    Case(name="AR(1) 0.6, drift 3 %", alike=0.6, drift=0.03),
)


def times(
    case: Case, slow: Sequence[int], random: np.random.Generator, num_rounds: int = NUM_ROUNDS
) -> list[Seconds]:
    """Draw the times of each process of a case."""
    return [_of_process(case, slow, random, num_rounds) for _ in range(case.num_processes)]


def _of_process(
    case: Case, slow: Sequence[int], random: np.random.Generator, num_rounds: int
) -> Seconds:
    logarithm = case.noise * _autoregression(case.alike, (num_rounds, NUM_REPLICAS), random)
    logarithm += case.host * _autoregression(0.9, (num_rounds, 1), random)
    logarithm += case.order * random.standard_normal(NUM_REPLICAS)
    logarithm[:, : NUM_REPLICAS // 2] += case.socket
    passed = np.linspace(-0.5, 0.5, num_rounds)[:, np.newaxis]
    logarithm += case.drift * random.standard_normal(NUM_REPLICAS) * passed
    seconds: Seconds = np.exp(logarithm)
    is_pause = random.random(seconds.shape) < case.pauses
    seconds *= np.where(is_pause, 1 + random.exponential(PAUSE, seconds.shape), 1.0)
    seconds[:, list(slow)] *= 1 + SLOW_BY
    return seconds


def _autoregression(alike: float, shape: tuple[int, int], random: np.random.Generator) -> Seconds:
    fresh = random.standard_normal(shape)
    found = np.empty_like(fresh)
    found[0] = fresh[0]
    for number in range(1, len(fresh)):
        found[number] = alike * found[number - 1] + math.sqrt(1 - alike**2) * fresh[number]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """The answer to one case."""

    named: frozenset[int]
    is_unknown: bool  # it says that it cannot be told


def ours(processes: Sequence[Seconds]) -> Said:
    keyed = [
        {str(number): seconds[:, number].tolist() for number in range(NUM_REPLICAS)}
        for seconds in processes
    ]
    found = slow_replicas(keyed)
    named = frozenset(int(one.replica) for one in found.slow)
    return Said(named=named, is_unknown=bool(found.unknown))


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The answers to one case, as shares of all times that were asked about."""

    case: str
    slow: str
    times: int
    named: float | None  # all slow ones and no other; None where none is slow
    wrong: float  # one that is not slow
    unknown: float

    @property
    def is_met(self) -> bool:
        return self.wrong <= 0.01 and (self.named is None or self.named >= 0.99)

    @property
    def cells(self) -> list[str]:
        named = "" if self.named is None else f"{self.named:.1%}"
        shares = (named, f"{self.wrong:.1%}", f"{self.unknown:.1%}")
        return [self.case, self.slow, *shares, "met" if self.is_met else "missed"]


def rows(case: Case, num_times: int, num_rounds: int = NUM_ROUNDS) -> Iterator[Row]:
    for name, slow in SLOW.items():
        random = np.random.default_rng(SEED)
        said = [ours(times(case, slow, random, num_rounds)) for _ in range(num_times)]
        wanted = frozenset(slow)
        yield Row(
            case=case.name,
            slow=name,
            times=num_times,
            named=sum(one.named == wanted for one in said) / num_times if slow else None,
            wrong=sum(bool(one.named - wanted) for one in said) / num_times,
            unknown=sum(one.is_unknown for one in said) / num_times,
        )


def main(arguments: Sequence[str]) -> None:
    asked = parser(__doc__, writes_json=True)
    asked.add_argument("--times", type=int, default=1000, help="of each case (default 1000)")
    about = f"of each process (default {NUM_ROUNDS})"
    asked.add_argument("--rounds", type=int, default=NUM_ROUNDS, help=about)
    asked.add_argument("--only", default="", help="cases whose name has this")
    options = asked.parse_args(arguments)
    head("times vary by", "of 8 replicas", "named (wanted 99 %)",
         "an innocent named (wanted 1 % at most)", "cannot be told", "verdict")  # fmt: skip
    found: list[Row] = []
    for case in CASES:
        if options.only in case.name:
            for answer in rows(case, options.times, options.rounds):
                found.append(answer)
                row(*answer.cells)
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
