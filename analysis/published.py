"""Figures of others as results: published ones, and those of tables measured elsewhere."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import starmap
from operator import itemgetter, mul
from typing import Any

from analysis.results import NOT_REPORTED, BaselineRule, Environment, Result, with_baselines
from scalemark.records.axes import WHEN, day_of, name_of_record
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome
from scalemark.records.references import Origin, ReferenceKind
from scalemark.records.trial import STRATEGY_AXES, strategy_name
from scalemark.stats import welch
from store.errors import StoreError
from store.reading.queries import Row

# for command lines
SHORT_NAMES = {"tf-benchmarks-2017": "TensorFlow benchmarks page (2017)"}

_AXES = ("model", "batch_size", "data", "precision", *STRATEGY_AXES, "num_gpus")
_SELDOM: Mapping[str, object] = {"hosts": None, "axes": {}, "compare": "", "repeat": 1}
"""What few sources say, and what stands there for the others."""
_SAID = object()


def of_others(
    rows: Sequence[Mapping[str, Any]], rule: BaselineRule = BaselineRule.SAME
) -> list[Result]:
    """Make a result of each figure of others: of references, as `known_references` of
    `store.reading.references` has them, or of trials of tables with their repeats, as
    `measured_elsewhere` has them. Several repeats have an interval.
    """
    environments: dict[tuple[str, str, bool], Environment] = {}
    results = []
    for row in rows:
        where = (row["source"], row["hardware"], _is_of_table(row))
        if where not in environments:
            environments[where] = _environment(*where)
        results.append(_result(row, environments[where]))
    return with_baselines(_with_strong_scaling(results), rule)


def _with_strong_scaling(results: Sequence[Result]) -> list[Result]:
    """Say so of results of tables whose batch of all GPUs stays the same when GPUs are added."""
    curves: dict[str, str] = {}
    batches: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for result in results:
        axes = dict(result.axes)
        batch_size, num_gpus = axes.pop("batch_size"), axes.pop("num_gpus")
        axes.pop("hosts", None)
        is_of_table = result.environment.origin is Origin.ELSEWHERE
        if is_of_table and batch_size and not {"scaling", "gradient_accumulation"} & axes.keys():
            curve = _digest(repr((result.environment.key, result.item, axes)), 16)
            curves[result.trial_id] = curve
            batches[curve].add((num_gpus, batch_size))
    told = []
    for result in results:
        curve = curves.get(result.trial_id, "")
        if len(batches[curve]) > 1 and len(set(starmap(mul, batches[curve]))) == 1:
            axes = {**result.axes, "scaling": "strong"}
            result = replace(result, curve=curve, axes=axes)
        told.append(result)
    return told


def of_newest_night(trials: Sequence[Row], *, names_night: bool) -> list[Row]:
    """Return the trials of each table's newest night, whose rows are repeats at whatever time.

    The night stays an axis where a filter `names_night`, and is else a part of the source's name.
    Rows without a date beside others with one are left out; a table whose `when` holds anything but
    dates is left as it is. `trials` are as `store.reading.references.measured_elsewhere` has them.
    """
    by_table: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for trial in trials:
        by_table[trial["source"], trial["hardware"]].append(trial)
    kept: list[Row] = []
    for of_table in by_table.values():
        dated = [trial for trial in of_table if WHEN in trial["axes"]]
        try:
            days = [day_of(trial["axes"][WHEN]) for trial in dated]
        except ValueError:
            days = []
        if not days:
            kept += of_table
            continue
        newest = max(days)
        of_night = [trial for trial, day in zip(dated, days, strict=True) if day == newest]
        kept += _as_one_night(of_night, newest, names_night=names_night)
    return kept


def named(references: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Add the strategy's name to each."""
    return [dict(reference, strategy=_strategy(reference)) for reference in references]


def of_source(references: Sequence[Row], name: str) -> list[Row]:
    """Return the figures whose source has this short name, or `name` as a part.

    What follows a slash may be a part of the hardware, as in `tf-benchmarks-2017/k80`. Raises
    StoreError when there are none.
    """
    of_source: list[Row] = []
    source, slash = name, "/"
    while not of_source and slash:  # a source, or its hardware, may have slashes
        wanted = SHORT_NAMES.get(source, source).casefold()
        hardware = name[len(source) + 1 :].casefold()
        of_source = [row for row in references if wanted in row["source"].casefold()]
        source, slash, _ = source.rpartition("/")
    chosen = [row for row in of_source if hardware in row["hardware"].casefold()]
    if chosen:
        return chosen
    choices = [*SHORT_NAMES, *map(itemgetter("source"), references)]
    if of_source:
        choices = list(map(itemgetter("hardware"), of_source))
    there = ", ".join(dict.fromkeys(choices))
    raise StoreError(f"{name[:100]}: no such source; there are {there or 'none'}")


def _digest(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _as_one_night(trials: Sequence[Row], night: date, *, names_night: bool) -> list[Row]:
    by_trial: dict[str, Row] = {}
    for trial in trials:
        same = {**trial, "axes": {**trial["axes"]}, "repeats": [], "throughput": None}
        del same["axes"][WHEN]
        if names_night:
            same["axes"][WHEN] = str(night)
        else:
            same["source"] = f"{trial['source']}, newest night {night}"
        by_trial.setdefault(repr(same), same)["repeats"].extend(trial["repeats"])
    for row in by_trial.values():
        row["throughput"] = welch.typical(row["repeats"])
    return list(by_trial.values())


def _is_of_table(row: Mapping[str, Any]) -> bool:
    return bool(row["origin"] == ReferenceKind.TABLE)


def _environment(source: str, hardware: str, is_of_table: bool) -> Environment:
    machine, key = hardware, f"{source}\n{hardware}"
    origin, made = Origin.PUBLISHED, "published"
    if is_of_table:
        machine = "hardware not reported" if hardware == "?" else hardware
        origin, made = Origin.ELSEWHERE, "measured elsewhere"
        key = f"{origin}\n{key}"
    return Environment(
        key=_digest(key, 6),
        host=machine,
        machine=machine,
        versions=f"{made}: {source}",
        device_kind=DeviceKind.GPU,
        origin=origin,
    )


def _strategy(reference: Mapping[str, Any]) -> str:
    """Name it by what the source reports, or by the free axes that play its part."""
    parts = list(map(reference.__getitem__, STRATEGY_AXES))
    if any(parts):
        return strategy_name(*["" if part == "n/a" else part for part in parts])
    words = [f"{name}={reference['axes'][name]}" for name in _compared(reference)]
    if words or not _is_of_table(reference):
        return " ".join(words) or NOT_REPORTED
    if reference["compare"]:
        return f"{reference['compare']} {NOT_REPORTED}"
    return str(reference["source"])


def _compared(reference: Mapping[str, Any]) -> list[str]:
    """Return the free axes that play the part of the strategy: the one named, or all."""
    if any(map(reference.__getitem__, STRATEGY_AXES)):
        return []
    if reference["compare"]:
        return [name for name in (reference["compare"],) if name in reference["axes"]]
    return sorted(reference["axes"])


def _result(reference: Mapping[str, Any], environment: Environment) -> Result:
    axes = {axis: reference[axis] for axis in _AXES}
    axes["strategy"] = _strategy(reference)
    is_published = reference["origin"] == ReferenceKind.PUBLISHED
    for name, value in reference["axes"].items():
        axes[name if is_published else name_of_record(name)] = value
    of_point = ("num_gpus", "gradient_accumulation")  # see `analysis.results.keeps_micro_batches`
    curve = [axes[axis] for axis in axes if axis not in of_point]
    if "gradient_accumulation" in axes:
        curve.append(axes["gradient_accumulation"] * axes["num_gpus"])
    if reference["hosts"] is not None:
        axes["hosts"] = reference["hosts"]
    repeats = tuple(reference.get("repeats", (reference["throughput"],)))
    low, high = None, None
    if len(repeats) > 1:
        low, high = welch.interval(repeats)
    said, is_of_table = [], _is_of_table(reference)
    is_doubted = "?" in f"{reference['model']}{reference['data']}{reference['precision']}"
    if is_of_table:
        is_doubted = False
    for name, value in reference.items():
        if not is_of_table and value != _SELDOM.get(name, _SAID):
            said.append(value)
        elif is_of_table and name not in ("repeats", "throughput"):
            said.append(value)
            is_doubted |= str(value).endswith("?") and value != "?"
    return Result(
        trial_id=_digest(repr(said), 16),
        environment=environment,
        axes=axes,
        curve=_digest(repr(curve), 16),
        attempt_ids=(),
        outcome=Outcome.COMPLETED,
        repeats=repeats,
        throughput=reference["throughput"],
        item=reference["item"],
        named_axes=tuple(map(name_of_record, _compared(reference))),
        low=low,
        high=high,
        doubts=("its source doubts it",) if is_doubted else (),
        citation=reference["citation"],
    )
