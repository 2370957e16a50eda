"""Predict cells that nobody tried from rows of the same environment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from analysis.calibration.environments import Guess
from analysis.calibration.predicted import predicted
from analysis.calibration.predictive import Predictive
from analysis.calibration.refusals import Refusal, refusal
from analysis.calibration.row import Row, row
from analysis.explanation.ablations import COMPARED
from analysis.prediction.measuring import measuring
from analysis.published import is_held_out
from analysis.reported_hosts import read, why_several
from analysis.results import Environment, Result, has_steps, why_no_steps
from costs.communication import updates
from costs.hardware import Hardware
from costs.networks import Network, network
from costs.step import Step
from costs.work import Work
from scalemark.abilities import distributed
from scalemark.records.measurement import unit_of
from scalemark.records.strategies import STRATEGY_AXES, STRATEGY_NAMES, strategy_name
from scalemark.records.trial import AXES
from store.errors import StoreError


class NothingToLearnError(StoreError):
    """Raised where one environment has no row to predict from; others may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The prediction of one cell. It is no measurement, and is never stored as one."""

    environment: Environment
    item: str  # what its throughput counts
    free: Mapping[str, Any]  # its free axes: rows with others say nothing of it
    hardware: Hardware  # that it is for
    work: Work
    predictive: Predictive | None  # None where it is refused
    refusal: Refusal | None
    rests_on: tuple[str, ...]  # trials, or keys of published figures
    # command that would supply what a refused one lacks; empty where no row would
    measure_first: str = ""
    # throughput of this cell, by its environment's origin; no part of what the prediction rests on
    figure: float | None = None
    # its rows report how variables are shared, or who asked named it; else its strategy is assumed
    is_known: bool = True
    is_batch_known: bool = True  # its batch is reported, or was asked for; else it is assumed
    # axes that the cost model does not look at, where rows of its environment differ in them
    apart: tuple[tuple[str, str], ...] = ()
    # a batch in all that does not divide among its GPUs: `work` has not what was asked for
    is_undivided: bool = False

    @property
    def error(self) -> float | None:
        """The error of the prediction, over the figure."""
        if self.predictive is None or self.figure is None:
            return None
        return self.predictive.throughput / self.figure - 1

    @property
    def unit(self) -> str:
        return unit_of(self.item)

    @property
    def kind(self) -> tuple[object, ...]:
        """Return what it shares with the rows that it was predicted from."""
        return _kind(self.environment, self.item, self.free)

    @property
    def strategy(self) -> str:
        return strategy_name(
            self.work.variable_update, self.work.local_parameter_device, self.work.all_reduce
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """The rows of one kind, as `alike` has them, that the cost model can take."""

    environment: Environment
    item: str  # what all of them count
    free: Mapping[str, Any]  # free axes of all of them
    guess: Guess
    results: tuple[Result, ...]
    rows: tuple[Row, ...]  # of these, but for those that were left out
    left_out: tuple[str, ...]  # why others are not among them
    is_fitted: bool = True  # predictions rest on the rows; else these judge them alone


def alike(results: Iterable[Result]) -> list[list[Result]]:
    """Group results by what is never pooled: environment, what is counted, and free axes, of which
    the cost model knows nothing.
    """
    grouped: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        if result.throughput is not None:
            grouped[_kind(result.environment, result.item, result.free)].append(result)
    return list(grouped.values())


def _kind(environment: Environment, item: str, free: Mapping[str, Any]) -> tuple[object, ...]:
    return (environment.key, item, *sorted(free.items()))


def learned(
    results: Sequence[Result],
    guess: Guess,
    notes: Mapping[str, str] | None = None,
    *,
    fits_held_out: bool = False,
) -> Learned:
    """Learn from results of one kind (see `alike`); from those that are kept to judge predictions
    with `fits_held_out` alone. Raises NothingToLearnError when no row is left.
    """
    rows, left_out = [], []
    for result in results:
        if not has_steps(result):
            left_out.append(why_no_steps(result))
            continue
        if why := several_hosts(result):
            left_out.append(why)
            continue
        try:
            one = row(result, guess.hardware, (notes or {}).get(result.trial_id, ""))
            Step.of(one.work, guess.hardware)
            rows.append((one, result))
        except ValueError as error:
            left_out.append(str(error))
    if not rows:
        why = "; ".join(dict.fromkeys(left_out))
        raise NothingToLearnError(f"{results[0].environment.host}: nothing to learn from: {why}")
    return Learned(
        environment=results[0].environment,
        item=results[0].item,
        free=results[0].free,
        guess=guess,
        results=tuple(results),
        rows=tuple(_kept_apart(rows)),
        left_out=tuple(dict.fromkeys(left_out)),
        is_fitted=fits_held_out or not is_held_out(results[0]),
    )


def _kept_apart(rows: Sequence[tuple[Row, Result]]) -> Iterator[Row]:
    """Name the axes in which rows differ, though the cost model takes them for the same.

    These are another data set or input pipeline, or another optimizer.
    """
    axes = []
    for axis in _NOT_SEEN:
        values: dict[object, set[str]] = defaultdict(set)
        for one, result in rows:
            if axis in result.axes:
                values[_seen(axis, one.work)].add(_value(axis, result))
        if any(len(found) > 1 for found in values.values()):
            axes.append(axis)
    for one, result in rows:
        apart = [(axis, _value(axis, result)) for axis in axes if axis in result.axes]
        yield replace(one, apart=tuple(apart))


def _value(axis: str, result: Result) -> str:
    text = str(result.axes[axis]).strip("?")
    return text.partition("+")[0] if axis == "precision" else text  # `+XLA` is an axis of its own


def _seen(axis: str, work: Work) -> object:
    """Return what the cost model makes of an axis; None where it does not look at it."""
    own = {"model": work.network.name, "data": work.real_data, "precision": work.precision}
    return own.get(axis)


def several_hosts(result: Result) -> str:
    """Return why the cost model, which knows one host, cannot take a result; empty where it can.

    Sources name hosts by words alone.
    """
    update, hosts = str(result.axes["variable_update"]), int(result.axes.get("hosts", 1))
    environment = result.environment
    found, rows_of_one = "", "variable_update=replicated,parameter_server or hosts=1"
    if update in distributed() or update.startswith("distributed"):
        found = f"variable_update={update} is of several hosts"
    elif hosts > 1:
        found = f"hosts={hosts} is of several hosts"
    elif not environment.origin.is_ours:
        found = why_several(environment.machine, result.num_gpus)
        rows_of_one = f"'num_gpus<={read(environment.machine).gpus_per_host or 1}'"
    if not found:
        return ""
    return f"{found}, and the cost model knows one: choose rows of one, as {rows_of_one}"


def most_gpus(results: Sequence[Result]) -> int:
    """Return the most that a row of one host has."""
    return max((result.num_gpus for result in results if not several_hosts(result)), default=1)


def cells(rows: Sequence[Row], to: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return all cells that differ from rows in these axes alone, each once.

    Under strong scaling they have the same batch in all, unless a batch is given. Raises StoreError
    for axes or values that there are not.
    """
    found: dict[object, Row] = {}
    for values in product(*to.values()):
        change = dict(zip(to, values, strict=True))
        for one in rows:
            cell = _changed(one, change)
            if not _is_known_from_others(one, cell, rows):
                found.setdefault(cell.cell, cell)
    return list(found.values())


def _is_known_from_others(one: Row, cell: Row, rows: Sequence[Row]) -> bool:
    """Return whether rows on more GPUs say what a cell would guess from a row on one.

    That is what is reduced how.
    """
    if cell.is_named or cell.is_known or not one.is_known:
        return False
    update, network = one.work.variable_update, one.work.network
    return any(
        row.is_known_of_more and (row.work.variable_update, row.work.network) == (update, network)
        for row in rows
    )


def _changed(one: Row, change: Mapping[str, str]) -> Row:
    work = one.work
    for axis, value in change.items():
        work = changed(work, axis, value)
    one = replace(
        one,
        is_batch_known=one.is_batch_known or "batch_size" in change,
        apart=tuple((axis, value) for axis, value in one.apart if axis not in change),
    )
    is_named = not _NAMING.isdisjoint(change) or (one.is_known and "all_reduce" in change)
    keeps_micro = one.keeps_micro_batches and "gradient_accumulation" not in change
    one = replace(one, keeps_micro_batches=keeps_micro)
    if keeps_micro or (one.is_strong and "batch_size" not in change):
        num_batches = one.work.gradient_accumulation
        before = replace(work, num_gpus=one.work.num_gpus, gradient_accumulation=num_batches)
        asked_for = None if keeps_micro else work.gradient_accumulation
        return replace(replace(one, work=before).on(work.num_gpus, asked_for), is_named=is_named)
    return one.asked(work, is_named=is_named)


def predictions(
    known: Learned, asked: Sequence[Row], target: Hardware | None = None
) -> list[Prediction]:
    """Predict in the order of what is asked for.

    What is among the rows is predicted from those that are not asked for, and refused where none is
    left; all else is predicted from all rows, by the profile and the physics alone where the rows
    are kept to judge predictions.
    Raises NothingToLearnError when nothing is left to learn from.
    """
    elsewhere = target is not None and target != known.guess.hardware
    figures = {} if elsewhere else {one.cell: one.throughput for one in known.rows}
    if not known.is_fitted:
        judged = _from((), asked, known, target)
        return [
            replace(prediction, figure=figures.get(one.cell))
            for one, prediction in zip(asked, judged, strict=True)
        ]
    there = [one for one in asked if one.cell in figures]
    others = [one for one in asked if one.cell not in figures]
    cells_there = {one.cell for one in there}
    kept = [one for one in known.rows if one.cell not in cells_there]
    if not kept and not others:
        raise NothingToLearnError(
            f"{known.environment.host}: the rows that were chosen are those that shall be "
            "predicted; choose others to learn from, as 'num_gpus<=4' --to num_gpus=8"
        )
    found = {}
    unfounded = None if kept else _ALL_ASKED_FOR
    judged = _from(kept, there, known, target, unfounded)
    for one, prediction in zip(there, judged, strict=True):
        found[id(one)] = replace(prediction, figure=figures[one.cell])
    for one, prediction in zip(others, _from(known.rows, others, known, target), strict=True):
        found[id(one)] = prediction
    return [found[id(one)] for one in asked]


_ALL_ASKED_FOR = Refusal(reason="it is a row itself, and no other is left to predict it from")


def _from(
    rows: Sequence[Row],
    asked: Sequence[Row],
    known: Learned,
    target: Hardware | None,
    refuses_all: Refusal | None = None,
) -> list[Prediction]:
    hardware = target or known.guess.hardware
    ran = known.rows if hardware.memory_gib >= known.guess.hardware.memory_gib else ()
    refused = [refuses_all or refusal(one, rows, hardware, ran) for one in asked]
    possible = [one for one, no in zip(asked, refused, strict=True) if no is None]
    predictive = iter(predicted(rows, possible, known.guess, target))
    found = []
    for one, no in zip(asked, refused, strict=True):
        prediction = Prediction(
            environment=known.environment,
            item=known.item,
            free=known.free,
            hardware=hardware,
            work=one.work,
            predictive=next(predictive) if no is None else None,
            refusal=no,
            rests_on=tuple(row.name for row in rows),
            is_known=one.is_known or one.is_named,
            is_batch_known=one.is_batch_known,
            apart=one.apart,
            is_undivided=bool(one.undivided),
        )
        if no is not None and no.missing:
            first = measuring(no.missing.work, known.results)
            prediction = replace(prediction, measure_first=first)
        found.append(prediction)
    return found


def changed(work: Work, axis: str, value: str) -> Work:
    """Return the work with another value of an axis, as `--to` says it. Raises StoreError."""
    if axis not in _CHANGES and axis in AXES:
        raise StoreError(
            f"--to {axis}={value}: a prediction keeps the {axis} of its rows; choose rows by a "
            f"filter, as {axis}={value}, or ask for one of {', '.join(_CHANGES)}"
        )
    if axis not in _CHANGES:
        raise StoreError(f"--to {axis}={value}: no such axis; there are {', '.join(_CHANGES)}")
    try:
        return _with(work, axis, value)
    except ValueError as error:
        raise StoreError(f"--to {axis}={value}: {error}") from None


def _with(work: Work, axis: str, value: str) -> Work:
    """Raises ValueError."""
    values: dict[str, Any] = {axis: value}
    if axis == "model":
        values = {"network": network(value)}
    elif axis == "seq_len":
        values = {"network": _of_length(work.network, value)}
    elif axis == "data":
        is_real = value != "synthetic"
        values = {"real_data": is_real, "distortions": is_real and not work.network.seq_len}
    elif axis == "strategy":
        known = {name: axes for axes, name in STRATEGY_NAMES.items() if axes[0] in updates()}
        if value not in known:
            axes = ", ".join(STRATEGY_AXES)
            raise ValueError(f"wanted one of {', '.join(known)}; others are given by {axes}")
        values = dict(zip(STRATEGY_AXES, known[value], strict=True))
    elif axis in _LEAST:
        if not value.isdecimal() or int(value) < _LEAST[axis]:
            raise ValueError(f"wanted a whole number, {_LEAST[axis]} or more")
        values[axis] = int(value)
    elif axis in _SWITCHES:
        if value.lower() not in _YES_OR_NO:
            raise ValueError("wanted true or false")
        values[axis] = _YES_OR_NO[value.lower()]
    return replace(work, **values)


def _of_length(known: Network, value: str) -> Network:
    """Raises ValueError for a model without tokens, and for a length that it does not have."""
    if not known.seq_len:
        raise ValueError(f"{known.name} takes no tokens")
    if not value.isdecimal() or int(value) < 1:
        raise ValueError("wanted a whole number, 1 or more")
    return network(known.name, num_classes=known.num_classes, seq_len=int(value))


_LEAST = {
    "num_gpus": 1,
    "batch_size": 1,
    "gradient_accumulation": 1,
    "gradient_repacking": 0,
    "steps_per_execution": 1,
}
_SWITCHES = ("compact_gradients", "staged_vars", "xla", "recompute")
_YES_OR_NO = {"true": True, "false": False, "on": True, "off": False}
_CHANGES = (
    *("num_gpus", "batch_size", "strategy", *STRATEGY_AXES, "precision", "gradient_repacking"),
    *("steps_per_execution", "gradient_accumulation", *_SWITCHES, "optimizer", "data", "model"),
    "seq_len",
)

_NAMING = {"strategy", "variable_update"}
"""Axes of `--to` after which nothing is assumed of how variables are shared."""

_SEEN = {field.name for field in fields(Work)} | {*STRATEGY_AXES, "image_px", "seq_len"}
# not which data set, whose half precision, or each effect of a data format
_PARTLY_SEEN = ("model", "data", "precision", "data_format")
_NOT_SEEN = (*_PARTLY_SEEN, *(axis for axis in COMPARED if axis not in (*_SEEN, *_PARTLY_SEEN)))
"""Axes of which the cost model sees nothing, or not all."""
