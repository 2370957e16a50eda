"""What cells of tables hold: quantities, and the marks and words beside a number or for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from analysis.pivot import Cell, RowRank
from analysis.results import Result, items_per_step
from analysis.titles import number, spread
from scalemark.records.outcomes import Outcome
from scalemark.records.references import Origin
from scalemark.text.wording import fixed
from store.errors import StoreError
from store.filters.selection import nearest

NOT_RUN = "–"
NOT_PUBLISHED = "N/A"
NOT_IN_TABLE = "n/a"
SUSPECT = "*"
PARTLY_FAILED = "†"
REPORTED = "‡"
TIE = "≈"
OUT = "↓"
SYMBOLS = {
    Outcome.OUT_OF_MEMORY: "OOM",
    Outcome.HUNG: "HANG",
    Outcome.TIMED_OUT: "TIMEOUT",
    Outcome.UNSUPPORTED: "UNSUP",
    Outcome.FAILED: "FAIL",
    Outcome.INTERRUPTED: "STOP",
    Outcome.INVALID: "INVALID",
}
"""A word for each outcome that has no number."""

MEANINGS = {
    "OOM": "out of memory",
    "HANG": "its steps stopped",
    "TIMEOUT": "took longer than allowed",
    "UNSUP": "not supported by this machine or software",
    "FAIL": "failed",
    "STOP": "interrupted",
    "INVALID": "completed without a usable number",
    NOT_RUN: "not run",
    NOT_PUBLISHED: "not published",
    NOT_IN_TABLE: "not in the imported table",
}
MISSING = {Origin.PUBLISHED: NOT_PUBLISHED, Origin.ELSEWHERE: NOT_IN_TABLE}
RANK_MARKS = {RowRank.TIE: TIE, RowRank.OUT: OUT}

THROUGHPUT = "throughput"
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A figure of a result that has a throughput."""

    # with its unit, so that cells can be read alone; empty where it is not known
    text: Callable[[Result], str]
    about: str = ""  # for readers of a table, where the name does not say it all


def symbols_of_repeats(results: Sequence[Result]) -> list[str]:
    """Return the symbols of repeats that brought no number, each once."""
    outcomes = [outcome for result in results for outcome in result.failed]
    return list(dict.fromkeys(SYMBOLS[Outcome(outcome)] for outcome in outcomes))


def cell_text(cell: Cell, quantities: Sequence[str], marks: str) -> str:
    """Return `1131 [1120, 1142] (7.97x)` or `OOM`; `marks` stand behind the first number."""
    result = cell.result
    if result.throughput is None:
        return SYMBOLS[Outcome(result.outcome)]
    if result.is_reported:
        marks += REPORTED
    if result.failed:
        marks += PARTLY_FAILED
    if cell.rank in RANK_MARKS:
        marks += f" {RANK_MARKS[cell.rank]}"
    texts = {name: QUANTITIES[name].text(result) for name in quantities}
    texts = {name: text for name, text in texts.items() if text}
    if THROUGHPUT not in texts:
        return f"{', '.join(texts.values()) or NOT_RUN}{marks}"
    text = texts.pop(THROUGHPUT) + marks
    if "interval" in texts:
        text += f" {texts.pop('interval')}"
    return f"{text} ({', '.join(texts.values())})" if texts else text


def chosen(names: str) -> tuple[str, ...]:
    """Split a list with commas. Raises StoreError for an unknown name."""
    wanted = tuple(dict.fromkeys(name.strip() for name in names.split(",")))
    for name in wanted:
        if name not in QUANTITIES:
            near = nearest(name[:100], list(QUANTITIES))
            raise StoreError(f"{name[:100] or 'an empty name'}: no such quantity; {near}")
    return wanted


def usual(results: Sequence[Result]) -> tuple[str, ...]:
    """Return throughput and speed-up; the spread too where trials were repeated. On one number of
    devices a speed-up against itself says nothing.
    """
    names = [THROUGHPUT]
    if any(len(result.repeats) > 1 for result in results):
        names.append("interval")
    is_one_count = len({result.num_gpus for result in results}) == 1
    if not is_one_count or not all(map(_is_own_baseline, results)):
        names.append("speed-up")
    return tuple(names)


def _is_own_baseline(result: Result) -> bool:
    return result.baseline is not None and result.baseline.trial_id == result.trial_id


def _throughput(result: Result) -> str:
    if result.throughput is None:
        return ""
    return number(result.throughput, exactly=result.environment.origin is Origin.PUBLISHED)


def _interval(result: Result) -> str:
    if result.throughput is None:
        return ""
    return spread(result.repeats, result.low, result.high, result.throughput)


def _speed_up(result: Result) -> str:
    return "" if result.speed_up is None else f"{fixed(result.speed_up, 2)}x"


def _efficiency(result: Result) -> str:
    return "" if result.efficiency is None else f"{fixed(100 * result.efficiency, 1)} %"


def _step_ms(result: Result) -> str:
    items = items_per_step(result)
    if not items or not result.throughput:
        return ""
    return f"{number(1000 * items / result.throughput)} ms"


def _per_device(result: Result) -> str:
    if result.throughput is None:
        return ""
    device = result.environment.device_kind.singular
    return f"{number(result.throughput / result.num_gpus)}/{device}"


def _mfu(result: Result) -> str:
    mfu = result.usage.mfu
    return UNKNOWN if mfu is None else f"{100 * mfu:.3g} %"


def _mebibytes(num_bytes: int | None) -> str:
    return UNKNOWN if num_bytes is None else f"{number(num_bytes / 2**20)} MiB"


QUANTITIES: Mapping[str, Quantity] = {
    THROUGHPUT: Quantity(text=_throughput, about="geometric mean of the repeats"),
    "interval": Quantity(
        text=_interval,
        about="95 % confidence interval over repeats; below four repeats, their range",
    ),
    "speed-up": Quantity(text=_speed_up),
    "efficiency": Quantity(text=_efficiency, about="speed-up per device, relative to the baseline"),
    "repeats": Quantity(text=lambda result: f"n={len(result.repeats)}"),
    "ms/step": Quantity(text=_step_ms, about="milliseconds per step, from the throughput"),
    "per-device": Quantity(text=_per_device),
    "mfu": Quantity(
        text=_mfu,
        about="model FLOPs utilization, relative to the fastest matrix product of the device",
    ),
    "memory": Quantity(
        text=lambda result: _mebibytes(result.usage.memory_bytes),
        about="peak of the fullest GPU; on CPU devices that of the trial's process",
    ),
    "variables": Quantity(
        text=lambda result: _mebibytes(result.usage.variable_bytes),
        about="trained variables on the fullest device",
    ),
    "optimizer-state": Quantity(
        text=lambda result: _mebibytes(result.usage.optimizer_state_bytes),
        about="optimizer state on the fullest device",
    ),
}
"""Quantities by the names that `--show` takes, in the order in which they are listed."""
