"""Describe a choice: strategy, GPUs, batch, precision, and what else is unusual about it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from analysis import badges
from analysis.results import Result, over, setting
from analysis.titles import named
from scalemark.records.outcomes import Outcome
from scalemark.records.overrides import OF_PRECISION
from scalemark.records.references import Origin
from scalemark.records.trial import unusual_axes

SHOWN = (
    *("single run", "tie", "noisy", "machine busy", "superlinear", "CPU devices", "simulated"),
)
"""All badges that answers have."""
_NAMED_APART = (
    *("precision", "scaling", "data_dir", "distortions", "optimizer", "hosts", "injected"),
    "model_digest",
)
_BUSY = ("others took", "other trials")  # begin the reasons why a machine was busy
_UNSAID = (None, "")  # of a program, or of a table that was taken in
_ENDED = {
    Outcome.OUT_OF_MEMORY: "ran out of memory",
    Outcome.TIMED_OUT: "timed out",
    Outcome.UNSUPPORTED: "cannot run here",
    Outcome.INVALID: "brought no number that may be quoted",
}


def marks(result: Result, reasons: Sequence[str] = ()) -> list[str]:
    """Return the badges of a number; `reasons` are those of its verdicts."""
    found = badges.of_result(result)
    shown = [badge for badge in found if badge in SHOWN]
    if "two modes" in found and "noisy" not in shown:
        shown.append("noisy")
    if any(reason.startswith(_BUSY) for reason in reasons):
        shown.append("machine busy")
    return shown


def ways(outcomes: Sequence[str]) -> str:
    """Count outcomes, as `2 ran out of memory, 1 failed`."""
    counts = Counter(outcomes).most_common()
    return ", ".join(f"{num} {_ENDED.get(Outcome(outcome), outcome)}" for outcome, num in counts)


def column_heading(result: Result) -> str:
    """Return the heading over `described(..., is_cell=True)`."""
    return f"choice, on N {result.environment.devices}"


def cells(results: Sequence[Result], against: Result) -> list[str]:
    """Describe each for a cell, without what another precision brings along, as its loss scale,
    unless two would look the same.
    """
    short = []
    for result in results:
        follows = _with_precision(result, against)
        short.append(described(result, against=against, is_cell=True, leaves_out=follows))
    if len(set(short)) == len(short):
        return short
    whole = [described(result, against=against, is_cell=True) for result in results]
    return _told_apart(whole, results)


def _told_apart(texts: Sequence[str], results: Sequence[Result]) -> list[str]:
    """Add to what looks the same the axes in which it differs."""
    alike: dict[str, list[Result]] = defaultdict(list)
    for text, result in zip(texts, results, strict=True):
        alike[text].append(result)
    apart = []
    for text, result in zip(texts, results, strict=True):
        said = [text]
        if len(alike[text]) > 1:
            others = [setting(other) for other in alike[text]]
            for axis, value in setting(result).items():
                if any(other.get(axis) != value for other in others):
                    said.append(named(axis, value))
        apart.append(", ".join(said))
    return apart


def _with_precision(result: Result, against: Result) -> tuple[str, ...]:
    """Return the axes that follow from a precision, where that differs."""
    if result.axes.get("precision") == against.axes.get("precision"):
        return ()
    return OF_PRECISION


def unlike(result: Result, others: Sequence[Result]) -> list[str]:
    """Name what is rarely said of a choice, as its variables, where others had another value."""
    left_out = {*_NAMED_APART, *result.strategy_axes}
    axes: dict[str, None] = dict.fromkeys(unusual_axes(result.axes))
    for other in others:
        left_out.update(_with_precision(other, result))
        axes |= dict.fromkeys(unusual_axes(other.axes))
    said = []
    for axis in axes:
        varies = len({other.axes.get(axis) for other in others}) > 1
        if varies and axis not in left_out:
            said.append(named(axis, result.axes.get(axis)))
    return said


def described(
    result: Result,
    *,
    against: Result | None = None,
    is_cell: bool = False,
    leaves_out: Sequence[str] = (),
) -> str:
    """Return as `replicated_nccl on 8 GPUs, batch_size 64, fp16`.

    With `against` another choice, name only what differs beside strategy and GPUs, but for axes
    that it `leaves_out`. A cell below `column_heading` has the number of devices alone.
    """
    axes = result.axes
    says_less = result.environment.origin is not Origin.PUBLISHED
    where = f"{result.num_gpus}{over(result.hosts)}" if is_cell else result.counted
    said = [f"{result.strategy} on {where}"]
    left_out = {*result.strategy_axes, *leaves_out}
    own = ["batch_size", "precision"]
    own += [axis for axis in unusual_axes(axes) if axis not in _NAMED_APART]
    of_other: list[str] = []  # what is unusual about the other, and usual here
    if against is not None:
        of_other = [axis for axis in unusual_axes(against.axes) if axis not in _NAMED_APART]
    for axis in dict.fromkeys([*own, *of_other]):
        if axis in left_out or axis not in axes:
            continue
        if axis in own and says_less and axes[axis] in _UNSAID:
            continue
        if against is None or against.axes.get(axis) != axes[axis]:
            said.append(named(axis, axes[axis]))
    if against is None:
        return ", ".join(said)
    is_one_way = (result.strategy, result.width) == (against.strategy, against.width)
    if is_one_way and len(said) == 1:  # they differ in what is rarely said, as their effort
        others = setting(against)
        for axis, value in setting(result).items():
            if others.get(axis) != value and axis not in leaves_out:
                said.append(named(axis, value))
    return ", ".join(said)
