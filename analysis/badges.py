"""Badges: one word for each doubt about a number, explained once at the foot and in
docs/glossary.md."""

from collections.abc import Iterable

from analysis.results import Environment, Result
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.stats.welch import two_modes

_NOISY = 0.1  # width of a 95 % CI, as a share of the number

_MOST_EFFICIENT = 1.1  # speed-up per GPU; caches and noise explain less

MEANINGS = {
    "single run": "one run each; use sweep.repeats=3 to see the spread",
    "tie": "the repeats cannot tell it from the best",
    "unclear": "it may be as good as the best, or better",
    "raced out": "a race stopped it: it was unlikely to win",
    "noisy": "a 95 % CI wider than 10 % of the number",
    "machine busy": "other programs took cores from it, or other trials ran beside it",
    "two modes": "its repeats are of two speeds; few tell how often each comes",
    "superlinear": "more than N times as fast on N: the smaller one was slowed, or the rate "
    "of all was counted once per GPU",
    "suspect": "its verdict says why it may not be quoted",
    "in doubt": "its source doubts it",
    "failures": "some of its repeats brought no number",
    "simulated": DeviceKind.SIMULATED_GPU.meaning,
    "published": "measured by others, without repeats",
    "elsewhere": "measured by another program",
    "CPU devices": DeviceKind.CPU_DEVICE.meaning,
    "shared host": "run side by side with other trials",
}


def of_result(result: Result) -> list[str]:
    """Return the doubts about one number."""
    doubts = []
    if len(result.repeats) == 1 and result.environment.origin.is_ours:
        doubts.append("single run")
    low, high, throughput = result.low, result.high, result.throughput
    if low is not None and high is not None and throughput and high - low > _NOISY * throughput:
        doubts.append("noisy")
    if two_modes(result.repeats):
        doubts.append("two modes")
    if not result.is_valid:
        doubts.append("suspect" if result.environment.origin.is_ours else "in doubt")
    if result.efficiency is not None and result.efficiency > _MOST_EFFICIENT:
        doubts.append("superlinear")
    if result.failed:
        doubts.append("failures")
    if result.was_busy:
        doubts.append("machine busy")
    return doubts


def of_environment(environment: Environment) -> list[str]:
    """Return what must be known of every number made there."""
    doubts = []
    if environment.origin is not Origin.MEASURED:
        doubts.append(str(environment.origin))
    if environment.device_kind is DeviceKind.CPU_DEVICE:
        doubts.append("CPU devices")
    if environment.shares_host:
        doubts.append("shared host")
    return doubts


def foot(used: Iterable[str]) -> str:
    """Explain the badges that were used; empty without any."""
    known = set(used)
    return "; ".join(f"{badge}: {text}" for badge, text in MEANINGS.items() if badge in known)


CLOSE = 1.05  # times: less of a difference does not matter
