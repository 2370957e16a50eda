"""Why a prediction may be further off than rows and priors let expect: each reason with the error
that it may bring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.calibration.fit import Fit, Prepared
from analysis.calibration.layout import precision_class
from costs.topology import BETWEEN_CLIQUES, Traffic

_VISIBLE = 0.08  # of a step: communication below it cannot spoil much
_WRONG_BY = 0.5  # of the communication, where no row shows how fast it is
# of the communication through a host's memory, which may lie at another socket
_HOST_WRONG_BY = 0.25
# of the communication of more GPUs than rows have, in a box that no profile describes
_GUESSED_WRONG_BY = 0.25
_SATURATED = 0.7  # of a step: an input pipeline that is so long may become the longest
_SATURATION_ERROR = 0.25
_TIMES_GPUS = 2  # the most that rows have: beyond, what grows with GPUs is a guess
_GAIN_EXPECTED = 0.75  # of what further GPUs should bring: curves that bring less have met a limit
_CONTRADICTS = 0.12  # of a step time that the model cannot follow
_WIDE = 0.3  # half of an interval, over its middle


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One reason."""

    reason: str  # empty: no more than a wider interval
    error: float  # standard deviation that it adds, of the step time's logarithm


def doubts(target: Prepared, fit: Fit) -> list[Doubt]:
    """Of one target, before its interval is known."""
    found = [
        _topology(target, fit),
        _strategy(target, fit),
        _input(target, fit),
        _turned(target, fit),
        _misfit(target, fit),
        _untold(target, fit),
        _host(target, fit),
        _guessed(target, fit),
        _extrapolation(target, fit),
    ]
    return [doubt for doubt in [*found, _precision(target, fit)] if doubt is not None]


def guess_doubt(fits: Sequence[tuple[float, Fit]], index: int) -> str:
    """Said of a target for which it matters how GPUs are linked, where nothing tells it."""
    target = fits[0][1].targets[index]
    share = sum(weight * _share(fit.targets[index], fit) for weight, fit in fits)
    if (
        len(fits) == 1
        or share < _VISIBLE
        or target.row.work.num_gpus <= _most_gpus(target, fits[0][1])
    ):
        return ""
    return (
        f"nothing tells how the GPUs are linked, and communication is about {share:.0%} of the "
        "step; see --hardware"
    )


def width_doubt(half_width: float) -> str:
    """Said of an interval that is too wide to decide by."""
    if half_width >= 1:
        return f"the interval is wide: half of it is {half_width:.1f} times the figure"
    return f"the interval is wide: plus or minus {half_width:.0%}" if half_width > _WIDE else ""


def _share(target: Prepared, fit: Fit) -> float:
    told = target.costs(fit.vector)
    return told.communication_s / told.step_s


def _topology(target: Prepared, fit: Fit) -> Doubt | None:
    crossed = _crossings(target) - {
        kind
        for one in fit.rows
        if one.row.strategy == target.row.strategy
        for kind in _crossings(one)
    }
    share = _share(target, fit)
    if not crossed or share < _VISIBLE:
        return None
    return Doubt(
        reason=(
            f"communication ({share:.0%} of the step) crosses {' and '.join(sorted(crossed))}, "
            "which no row does"
        ),
        error=_WRONG_BY * share,
    )


def _host(target: Prepared, fit: Fit) -> Doubt | None:
    """GPUs of a second socket reach the memory of the first by a way that no row shows; mostly that
    costs little.
    """
    if not _reaches_far_memory(target) or any(
        _reaches_far_memory(one) for one in fit.rows if one.row.strategy == target.row.strategy
    ):
        return None
    return Doubt(reason="", error=_HOST_WRONG_BY * _share(target, fit))


def _guessed(target: Prepared, fit: Fit) -> Doubt | None:
    """Slots differ in width, and sockets in what hangs off them: GPUs that no row has may have
    other links than the first.
    """
    if fit.is_known or target.row.work.num_gpus <= _most_gpus(target, fit):
        return None
    return Doubt(reason="", error=_GUESSED_WRONG_BY * _share(target, fit))


def _extrapolation(target: Prepared, fit: Fit) -> Doubt | None:
    most = max((one.row.work.num_gpus for one in fit.rows), default=0)
    share = _share(target, fit)
    if not most or target.row.work.num_gpus <= _TIMES_GPUS * most or share < _VISIBLE:
        return None
    times = target.row.work.num_gpus / most
    return Doubt(reason=f"it has {times:g} times the most GPUs that rows have, {most}", error=0.0)


def _most_gpus(target: Prepared, fit: Fit) -> int:
    """That a row of the target's strategy has; one GPU does not communicate."""
    return max(
        (one.row.work.num_gpus for one in fit.rows if one.row.strategy == target.row.strategy),
        default=1,
    )


def _reaches_far_memory(one: Prepared) -> bool:
    uses_host = any(
        "host memory" in _kinds(traffic)
        for traffic in (one.step.exchange.pull, one.step.exchange.push)
    )
    return uses_host and one.row.work.num_gpus > one.step.hardware.gpus_per_socket


def _crossings(one: Prepared) -> set[str]:
    found = set()
    for traffic in (one.step.exchange.pull, one.step.exchange.push):
        found |= {_NAMED[kind] for kind in _kinds(traffic) if kind in _NAMED}
    return found


_NAMED = {
    BETWEEN_CLIQUES: "from one NVLink clique to another",
    "sockets": "from one CPU socket to another",
}


def _kinds(traffic: Traffic) -> set[str]:
    return {kind for kind, _, _ in traffic.busy_s}


def _strategy(target: Prepared, fit: Fit) -> Doubt | None:
    seen = any(
        one.row.strategy == target.row.strategy and one.row.work.num_gpus > 1 for one in fit.rows
    )
    share = _share(target, fit)
    if seen or share < _VISIBLE:
        return None
    told = " ".join(filter(None, target.row.strategy))
    return Doubt(reason=f"no row has {told} on more than one GPU", error=_WRONG_BY * share)


def _untold(target: Prepared, fit: Fit) -> Doubt | None:
    share = _share(target, fit)
    if target.row.is_told or target.row.work.num_gpus == 1:
        return None
    return Doubt(
        reason="how variables are shared is not told, or in other words than ours",
        error=_WRONG_BY * share,
    )


def _input(target: Prepared, fit: Fit) -> Doubt | None:
    told = target.costs(fit.vector)
    if told.input_s < _SATURATED * told.step_s or not target.row.work.real_data:
        return None
    return Doubt(
        reason=(
            f"making batches takes {told.input_s / told.step_s:.0%} of the step: input is, or is "
            "near, the limit"
        ),
        error=_SATURATION_ERROR,
    )


def _turned(target: Prepared, fit: Fit) -> Doubt | None:
    """The last rows of its curve gain little, or lose: a limit is met that may turn the curve."""
    curve = sorted(
        (one.row for one in fit.rows if one.row.curve == target.row.curve),
        key=lambda row: row.work.num_gpus,
    )
    if len(curve) < 2 or target.row.work.num_gpus <= curve[-1].work.num_gpus:
        return None
    before, last = curve[-2], curve[-1]
    more_gpus = last.work.num_gpus / before.work.num_gpus - 1
    if more_gpus <= 0:
        return None
    gained = before.step_s / last.step_s * (more_gpus + 1) - 1
    if gained > _GAIN_EXPECTED * more_gpus:
        return None
    return Doubt(
        reason=(
            f"from {before.work.num_gpus} to {last.work.num_gpus} GPUs its rows gain "
            f"{gained:.0%} of {more_gpus:.0%}"
        ),
        error=_SATURATION_ERROR,
    )


def _misfit(target: Prepared, fit: Fit) -> Doubt | None:
    """Rows that the model cannot follow: they contradict each other, or know what it does not."""
    close = [
        abs(float(residual))
        for one, residual in zip(fit.rows, fit.residuals, strict=True)
        if one.row.strategy == target.row.strategy
        and one.row.work.network == target.row.work.network
    ]
    if not close or max(close) < _CONTRADICTS:
        return None
    return Doubt(
        reason=f"a row like it is {max(close):.0%} off the model, as if rows contradicted each other",
        error=max(close) / 2,
    )


def _precision(target: Prepared, fit: Fit) -> Doubt | None:
    wanted = precision_class(target.row)
    if any(
        precision_class(one.row) == wanted and one.row.work.network == target.row.work.network
        for one in fit.rows
    ):
        return None
    return Doubt(reason=f"no row has {target.row.work.network.name} in {wanted}", error=0.0)
