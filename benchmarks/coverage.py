"""Measures whether 95 % intervals hold the truth in 95 % of cases, and how often equals are called
different: on times with known truth.

`python -m benchmarks.coverage [--comparisons N] [--only QUESTION] [--json FILE]` prints Markdown
tables. Same seed, same figures.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

sys.path[0] = str(Path(__file__).resolve().parent.parent)

from analysis.judgement import Decision, judge, ratio
from benchmarks.asking import parser
from benchmarks.step_times import APART, BATCH, Timed, Times, processes, step_times, truth
from scalemark.stats.welch import has_two_modes
from scalemark.stats.welch import interval as interval_over_processes
from scalemark.stats.within_process import interval_within, spread_within

SEED = 7
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is compared: A and B of so many processes, of equal or of other noise."""

    name: str
    num_a: int
    num_b: int
    a: Times
    b: Times


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How the intervals of one case did."""

    case: str
    comparisons: int
    held: float | None  # share of intervals that hold the truth
    different: float | None = None  # share of equals that are called different
    is_judged: bool = True
    # within a process: median half-width, as a share, and how many leave pauses out
    half_width: float | None = None
    leaving_out: float | None = None

    def __str__(self) -> str:
        shares = (self.held, self.different, self.half_width, self.leaving_out)
        reported = ["" if share is None else f"{share:.1%}" for share in shares]
        verdict = ""
        if self.is_judged:
            verdict = "met" if self.is_met else "missed"
        return f"| {self.case} | {self.comparisons} | {' | '.join(reported)} | {verdict} |"

    @property
    def is_met(self) -> bool:
        return (self.held is None or 0.93 <= self.held <= 0.97) and (
            self.different is None or self.different <= 0.05
        )


def table(rows: Sequence[Row]) -> str:
    """Return them in Markdown."""
    head = (
        "| case | intervals | holds the truth (wanted 93 to 97 %) "
        "| equals called different (wanted 5 % at most) | half-width | leave pauses out | verdict |"
    )
    return "\n".join([head, "|---|---:|---:|---:|---:|---:|---|", *map(str, rows)])


def main(arguments: Sequence[str]) -> int:
    asked = parser(__doc__, only=QUESTIONS, writes_json=True)
    asked.add_argument("--comparisons", type=int, default=4000, help="of each case (default 4000)")
    options = asked.parse_args(arguments)
    rows = []
    for name in options.only or QUESTIONS:
        print(name, file=sys.stderr)
        rows += QUESTIONS[name](options.comparisons)
    print(table(rows))
    print(f"\n{options.comparisons} comparisons of each case, seed {SEED}.")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    return 0


def compared(comparisons: int, cases: Sequence[Case]) -> list[Row]:
    """Compare processes of each side; where both are alike, count what is called different."""
    rows = []
    for case in cases:
        pairs = list(_pairs(case, comparisons))
        true = truth(case.a) / truth(case.b)
        known = [interval for interval in (ours(a, b) for a, b in pairs) if interval]
        held = sum(low <= true <= high for low, high in known) / len(known)
        different = None
        if case.a == case.b:
            answers = [judge(a.throughput, b.throughput).answer for a, b in pairs]
            different = answers.count(Decision.DIFFERENT) / comparisons
        rows.append(Row(case=case.name, comparisons=comparisons, held=held, different=different))
    return rows


def repeats(comparisons: int) -> list[Row]:
    """Ask of two or more processes of each side."""
    return compared(comparisons, repeated_cases())


def simulated(comparisons: int, nums: Sequence[int] = (2, 3, 5)) -> list[Row]:
    """By the noise of `engine=simulated`: A's steps take 100 ms and B's 120 ms for the truth, all
    of them 100 ms for equals.
    """
    rows = []
    for num in nums:
        random = _random()
        of_a, of_b, of_equal = (
            [_simulated(random, step_s, num) for _ in range(comparisons)]
            for step_s in (0.1, 0.12, 0.1)
        )
        known = [interval for interval in map(ours, of_a, of_b) if interval]
        held = sum(low <= 1.2 <= high for low, high in known) / comparisons
        answers = [
            judge(a.throughput, b.throughput).answer for a, b in zip(of_a, of_equal, strict=True)
        ]
        equals = answers.count(Decision.DIFFERENT) / comparisons
        what = f"{num} and {num} simulated processes of 60 steps"
        rows.append(Row(case=what, comparisons=comparisons, held=held, different=equals))
    return rows


def _simulated(random: np.random.Generator, step_s: float, num: int) -> Timed:
    injected = {"noise": 0.03, "process_noise": 0.02, "drift": 0.02}
    steps = [tuple(step_times(random, step_s, injected, 60)) for _ in range(num)]
    return Timed(
        throughput=tuple(BATCH / float(np.mean(one)) for one in steps),
        durations_s=tuple(steps),
    )


def stored(comparisons: int, cases: Sequence[Times] | None = None) -> list[Row]:
    """The interval that is stored with each attempt, where there is one.

    Of few steps some show no pause though pauses come: `pauses known` is about all others.
    """
    rows = []
    for times in cases or stored_cases():
        drawn = list(processes(times, 1, comparisons, _random()))
        rows.append(_stored_row(_described(times), drawn, times))
        if times.outliers:
            known = [sample for sample in drawn if not _leaves_out(sample)]
            rows.append(_stored_row(f"{_described(times)}, pauses known", known, times))
    return rows


def _stored_row(case: str, samples: Sequence[Timed], times: Times) -> Row:
    known = []
    for sample in samples:
        interval = interval_within(sample.throughput[0], sample.durations_s[0])
        if interval:
            known.append(interval)
    true = truth(times)
    widths = [high - low for low, high in known]
    return Row(
        case=case,
        comparisons=len(known),
        held=sum(low <= true <= high for low, high in known) / len(known) if known else None,
        half_width=float(np.median(widths)) / 2 / true if known else None,
        leaving_out=sum(map(_leaves_out, samples)) / max(len(samples), 1),
    )


# where none of so many steps was a pause, pauses of one step in 50 are excluded with 98 %
_FEWEST_WITHOUT_PAUSE = 200


def _leaves_out(one: Timed) -> bool:
    durations_s = one.durations_s[0]
    spread = spread_within(durations_s)
    is_without = spread is not None and spread.lost is None
    return is_without and len(durations_s) < _FEWEST_WITHOUT_PAUSE


def stored_cases() -> list[Times]:
    found = []
    for num_steps in (30, 100, 300, 1000):
        usual = Times(process_noise=0.0, num_steps=num_steps)
        found += [replace(usual, correlation=correlation) for correlation in (0.0, 0.6, 0.9)]
        found += [
            replace(usual, correlation=correlation, outliers=0.02, pause=pause)
            for correlation, pause in ((0.0, 1.0), (0.9, 1.0), (0.0, 4.0))
        ]
        found.append(replace(usual, drift=0.05, correlation=0.9))
        found += [
            replace(usual, correlation=0.0, noise=0.01, fading=fading)
            for fading in (0.05, 0.1, 0.3)
        ]
        warming = replace(usual, correlation=0.0, noise=0.01, fading=0.1)
        found += [
            replace(warming, fades_in=(0.05, 0.2)),
            replace(warming, outliers=0.02),
            replace(warming, correlation=0.6, noise=0.03),
        ]
        found += [
            replace(usual, correlation=0.0, noise=noise, stay=stay)
            for noise in (0.01, 0.03)
            for stay in (5.0, 25.0)
        ]
    return found


def _described(times: Times) -> str:
    parts = [f"stored, {times.num_steps} steps, neighbors correlate by {times.correlation:g}"]
    if times.outliers:
        parts.append(f"{times.outliers:.0%} take {1 + times.pause:g} times as long")
    if times.drift:
        parts.append(f"drift of {times.drift:.0%}")
    if times.fading:
        lengths = " and ".join(f"{length:.0%}" for length in times.fades_in)
        parts.append(
            f"noise {times.noise:.0%}, a warm-up of {times.fading:.0%} fades in {lengths} of steps"
        )
    if not math.isinf(times.stay):
        parts.append(
            f"two speeds {APART:.0%} apart for {times.stay:g} steps each, noise {times.noise:.0%}"
        )
    return ", ".join(parts)


def modes(comparisons: int, nums: Sequence[int] = (3, 4, 5, 10)) -> list[Row]:
    """Over processes of which half are 5 % slower, the interval of one trial's speed: of all, and
    of those that are not said to have two modes. Last how often one is said to without having them.
    """
    rows = []
    for num in nums:
        steady = Times(process_noise=0.003, noise=0.002, num_steps=30)
        times = replace(steady, modes=0.05)
        found = list(processes(times, num, comparisons, _random()))
        silent = [one for one in found if not has_two_modes(one.throughput)]
        for name, some in (("all", found), ("those not said to have them", silent)):
            held = sum(low <= truth(times) <= high for low, high in map(_of_trial, some))
            rows.append(
                Row(
                    case=f"{num} processes in two modes, {name}",
                    comparisons=len(some),
                    held=held / max(len(some), 1),
                    is_judged=False,
                )
            )
        usual = processes(steady, num, comparisons, _random())
        said = sum(has_two_modes(one.throughput) for one in usual)
        rows.append(
            Row(
                case=f"{num} processes without modes, said to have them",
                comparisons=comparisons,
                held=None,
                different=said / comparisons,
            )
        )
    return rows


def _of_trial(one: Timed) -> Interval:
    return interval_over_processes(one.throughput)


QUESTIONS: dict[str, Callable[[int], list[Row]]] = {
    "repeats": repeats,
    "simulated": simulated,
    "stored": stored,
    "modes": modes,
}


def repeated_cases() -> list[Case]:
    found = []
    for num_a, num_b in (
        (2, 2),
        (3, 3),
        (5, 5),
        (10, 10),
        (2, 3),
        (2, 5),
        (3, 5),
        (2, 10),
        (3, 10),
    ):
        for num_steps in (30, 200):
            found.append(
                _alike(
                    f"{num_a} and {num_b} processes, {num_steps} steps",
                    num_a,
                    num_b,
                    Times(num_steps=num_steps),
                )
            )
    for num in (2, 3, 5):
        usual = Times()
        found.append(_alike(f"{num} and {num}, steps drift by 5 %", num, num, Times(drift=0.05)))
        found.append(
            _alike(f"{num} and {num}, 2 % of steps are outliers", num, num, Times(outliers=0.02))
        )
        found.append(
            _alike(f"{num} and {num}, neighbors correlate by 0.8", num, num, Times(correlation=0.8))
        )
        found.append(
            _alike(f"{num} and {num}, no spread over processes", num, num, Times(process_noise=0.0))
        )
        twice = Times(process_noise=2 * usual.process_noise, mean_s=0.12)
        found.append(
            Case(
                name=f"{num} and {num}, B spreads twice as much",
                num_a=num,
                num_b=num,
                a=usual,
                b=twice,
            )
        )
    return [*found, *uneven_cases()]


def uneven_cases() -> list[Case]:
    """One side spreads 4 or 10 times as much as the other; steps are calm, so that they do not
    level it.
    """
    found = []
    for num_a, num_b in ((2, 2), (3, 3), (5, 5), (10, 10), (2, 5), (2, 10), (3, 10)):
        for of_a, of_b in ((0.02, 0.005), (0.02, 0.002), (0.005, 0.02), (0.002, 0.02)):
            a, b = (Times(process_noise=noise, noise=0.002, num_steps=30) for noise in (of_a, of_b))
            name = f"{num_a} and {num_b}, A spreads by {100 * of_a:g} %, B by {100 * of_b:g} %"
            found.append(Case(name=name, num_a=num_a, num_b=num_b, a=a, b=b))
    return found


def _alike(name: str, num_a: int, num_b: int, times: Times) -> Case:
    return Case(name=name, num_a=num_a, num_b=num_b, a=times, b=times)


def _pairs(case: Case, comparisons: int) -> Iterator[tuple[Timed, Timed]]:
    random = _random()
    of_a, of_b = (
        processes(case.a, case.num_a, comparisons, random),
        processes(case.b, case.num_b, comparisons, random),
    )
    return zip(of_a, of_b, strict=True)


def _random() -> np.random.Generator:
    return np.random.default_rng(SEED)


def ours(a: Timed, b: Timed) -> Interval | None:
    """The interval of comparisons; None where too little is known for one."""
    found = ratio(a.throughput, b.throughput)
    if found.low is None or found.high is None:
        return None
    return found.low, found.high


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
