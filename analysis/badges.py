"""Badges: one word for each doubt about a number, explained once at the foot and in
docs/numbers.md."""

from collections.abc import Iterable, Sequence

from analysis.judgement import contradiction
from analysis.results import Environment, Result
from analysis.titles import FEW_REPEATS
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.stats.welch import has_two_modes

_NOISY = 0.1  # width of a 95 % CI, or of two or three runs, as a share of the number

_MOST_EFFICIENT = 1.1  # speed-up per GPU; caches and noise explain less

MEANINGS = {
    "single run": "one run each; use sweep.repeats=3 to see the spread",
    "tie": "the repeats cannot tell it from the best",
    "noisy": "runs or their 95 % CI spread over more than 10 %, or have two speeds",
    "machine busy": "other programs took cores from it, or other trials ran beside it",
    "superlinear": "more than N times as fast on N: the smaller one was slowed, or the rate "
    "of all was counted once per GPU",
    "failures": "some of its repeats brought no number",
}
ORIGINS = {
    "simulated": DeviceKind.SIMULATED_GPU.meaning,
    "published": "measured by others, without repeats",
    "elsewhere": "measured by another program",
    "CPU devices": DeviceKind.CPU_DEVICE.meaning,
}
"""Words for numbers that were not measured here on GPUs, and what they mean."""


def of_result(result: Result) -> list[str]:
    """Return the doubts about one number."""
    doubts = []
    if len(result.repeats) == 1 and result.environment.origin.is_ours:
        doubts.append("single run")
    low, high = result.low, result.high
    if 1 < len(result.repeats) < FEW_REPEATS:
        low, high = min(result.repeats), max(result.repeats)
    is_wide = False
    if low is not None and high is not None and result.throughput:
        is_wide = high - low > _NOISY * result.throughput
    if is_wide or has_two_modes(result.repeats) or contradiction(result.repeats):
        doubts.append("noisy")
    if is_superlinear(result):
        doubts.append("superlinear")
    if result.failed and not result.axes.get("takes_apart"):  # which has no number by design
        doubts.append("failures")
    if result.was_busy:
        doubts.append("machine busy")
    return doubts


def is_superlinear(result: Result) -> bool:
    efficiency = result.efficiency
    return efficiency is not None and efficiency > _MOST_EFFICIENT


def of_environment(environment: Environment) -> list[str]:
    """Return what must be known of every number made there."""
    words = []
    if environment.origin is not Origin.MEASURED:
        words.append(str(environment.origin))
    if environment.device_kind is DeviceKind.CPU_DEVICE:
        words.append("CPU devices")
    if environment.shares_host:
        words.append("machine busy")
    return words


def foot(used: Iterable[str]) -> str:
    """Explain the badges and origins that were used; empty without any."""
    known, meanings = set(used), MEANINGS | ORIGINS
    if str(Origin.ELSEWHERE) in known:
        meanings["single run"] = "one row each, whose spread is unknown"
    return "; ".join(f"{badge}: {text}" for badge, text in meanings.items() if badge in known)


def repeat_first(results: Sequence[Result]) -> str:
    """Say in a sentence, after a space, what to do before single runs decide anything."""
    what = "Some ran once"
    if len(results) == 1:
        what = "One run"
    elif all(len(result.repeats) == 1 for result in results):
        what = "One run each"
    where = " on a busy machine" if any(result.was_busy for result in results) else ""
    return f" {what}{where}: repeat before deciding."


CLOSE = 1.05  # times: less of a difference does not matter
