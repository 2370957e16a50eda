"""Refuse what is too far from the rows to be predicted, and say what to measure first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.calibration.row import Row
from costs.hardware import Hardware
from costs.memory import memory_bytes
from costs.profiles import sound
from costs.step import Step
from costs.work import Work
from scalemark import models
from scalemark.abilities import DEFAULT_UPDATE, least_replicas

_TIMES_GPUS = 8  # more than any row has
_TIMES_BATCH = 8  # more, or fewer, than any row of the model has


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why one row cannot be predicted."""

    reason: str
    missing: Row | None = None  # what to measure, so that it can be predicted


def refusal(
    asked: Row, rows: Sequence[Row], hardware: Hardware, ran: Sequence[Row] | None = None
) -> Refusal | None:
    """Return None when it can be predicted from the rows, or by the physics where there are none.

    `ran` are rows known to fit into this hardware; None stands for those to predict from.
    """
    if asked.undivided:
        return Refusal(reason=asked.undivided)
    if asked.work.num_gpus > hardware.num_gpus:
        return _no_room(asked, hardware)
    try:
        Step.of(asked.work, hardware)
    except ValueError as error:
        return Refusal(reason=str(error))
    if why := _refused_by_trainer(asked.work):
        return Refusal(reason=why)
    lacks_memory = _memory(asked, hardware, rows if ran is None else ran)
    if lacks_memory or not rows:
        return lacks_memory
    return _no_compute(asked, rows) or _too_many_gpus(asked, rows) or _other_batch(asked, rows)


def _refused_by_trainer(work: Work) -> str:
    """Return why nobody could measure it; empty where somebody could."""
    least, name = least_replicas(work.variable_update), work.network.name
    if work.num_gpus < least:
        return (
            f"num_gpus={work.num_gpus}: variable_update={work.variable_update} takes {least} "
            f"replicas or more; raise num_gpus, or choose variable_update={DEFAULT_UPDATE}"
        )
    if work.recompute and not models.can_recompute(models.define(name)):
        return f"recompute=true: {name} does not say which activations to keep; leave it out"
    return ""


def _on(row: Row, num_gpus: int) -> Row:
    """Ask for so many GPUs, or for the fewest that its strategy takes."""
    num_gpus = max(num_gpus, least_replicas(row.work.variable_update))
    return replace(row, work=replace(row.work, num_gpus=num_gpus), throughput=None)


def _no_room(asked: Row, hardware: Hardware) -> Refusal:
    """Refuse more GPUs than the box has, naming larger boxes of the same generation of GPUs."""
    wanted = asked.work.num_gpus
    larger = [
        one.name
        for one in sound()
        if one.num_gpus >= wanted and one.compute_capability == hardware.compute_capability
    ]
    other = f", or --on {' or '.join(larger)} for a larger one" if larger else ""
    return Refusal(
        reason=(
            f"num_gpus={wanted}: {hardware.name} has {hardware.num_gpus}, and a prediction is of "
            f"one host; --link num_gpus={wanted} asks what if the box had more{other}"
        )
    )


def _no_compute(asked: Row, rows: Sequence[Row]) -> Refusal | None:
    name = asked.work.network.name
    known = sorted({row.work.network.name for row in rows})
    if name in known:
        return None
    reason = (
        f"model={name}: no row of it, so how fast this hardware computes it is not known; there "
        f"are rows of {', '.join(known) or 'none'}"
    )
    return Refusal(reason=reason, missing=_on(asked, 1))


def _too_many_gpus(asked: Row, rows: Sequence[Row]) -> Refusal | None:
    most = max(row.work.num_gpus for row in rows)
    wanted = asked.work.num_gpus
    if wanted <= _TIMES_GPUS * most:
        return None
    reason = (
        f"num_gpus={wanted}: {wanted / most:g} times the most that rows have, {most}; wanted at "
        f"most {_TIMES_GPUS} times"
    )
    return Refusal(reason=reason, missing=_on(asked, max(2, wanted // _TIMES_GPUS)))


def _other_batch(asked: Row, rows: Sequence[Row]) -> Refusal | None:
    name, wanted = asked.work.network.name, asked.work.batch_size
    batches = sorted({row.work.batch_size for row in rows if row.work.network.name == name})
    times = min(max(wanted / one, one / wanted) for one in batches)
    if times <= _TIMES_BATCH:
        return None
    reason = (
        f"batch_size={wanted}: {times:g} times away from the nearest that rows of {name} have, of "
        f"{', '.join(map(str, batches))}; wanted at most {_TIMES_BATCH} times"
    )
    return Refusal(reason=reason, missing=_on(asked, 1))


def _memory(asked: Row, hardware: Hardware, ran: Sequence[Row]) -> Refusal | None:
    """Refuse what does not fit by the estimate that a simulated trial runs out of memory by, but
    never what needs no more than a row that ran: the estimate is wrong then, or what is known of
    the GPU.
    """
    needed, there = memory_bytes(asked.work), hardware.memory_gib * 2**30
    most = max((memory_bytes(row.work) for row in ran if row.is_batch_known), default=0.0)
    if needed <= max(there, most):
        return None
    return Refusal(
        reason=(
            f"batch_size={asked.work.batch_size}: needs about {needed / 2**30:.1f} GiB, and "
            f"{hardware.gpu} has {hardware.memory_gib:g}; choose a smaller batch"
        )
    )
