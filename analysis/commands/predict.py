"""`python -m analysis predict`: untried cells, predicted from rows of the same environment."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from analysis.calibration.environments import Guess, guess_of
from analysis.calibration.row import Row
from analysis.options import Filters, OriginOption, SourceOption, Sweep, of_known_programs, select
from analysis.prediction.links import relinked
from analysis.prediction.measuring import measuring
from analysis.prediction.predictions import (
    Learned,
    NothingToLearnError,
    Prediction,
    alike,
    cells,
    learned,
    most_gpus,
    predictions,
)
from analysis.prediction.probed_box import with_probe
from analysis.prediction.text import order, show
from analysis.published import published
from analysis.results import Origin, Result
from analysis.selection import load
from analysis.source import Source
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from analysis.text.titles import sweep_notes
from costs.hardware import Hardware
from costs.profiles import profile
from costs.work import Work
from scalemark.abilities import DEFAULT_UPDATE, VARIABLE_UPDATES
from scalemark.cli.terminal import make_console, print_json
from scalemark.host.own_code import typed
from scalemark.records.devices import DeviceKind
from scalemark.records.earlier_trial import ID_DIGITS
from scalemark.text.wording import counted, listed
from store.command_line import USAGE, Db, Json
from store.errors import StoreError

_AXES = (
    "num_gpus",
    "variable_update",
    "local_parameter_device",
    "all_reduce",
    "gradient_repacking",
    "compact_gradients",
    "gradient_accumulation",
    "optimizer",
    "recompute",
    "precision",
    "xla",
    "real_data",
)
_PARTS = (
    "step_s",
    "compute_s",
    "launch_s",
    "communication_s",
    "exposed_s",
    "update_s",
    "host_s",
    "sync_s",
    "input_s",
)

ToOption = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        help=(
            "Axis and values to predict, as num_gpus=8,16 or strategy=ps_cpu,replicated_nccl; "
            "each option once."
        ),
    ),
]
HardwareOption = Annotated[
    str | None,
    typer.Option(
        "--hardware",
        help=(
            "Profile of the box that the rows are of; else guessed from its GPUs, or from a "
            "source's words."
        ),
    ),
]
OnOption = Annotated[
    str | None,
    typer.Option("--on", help="Profile of another box to predict for; else the rows' own."),
]
LinkOption = Annotated[
    list[str] | None,
    typer.Option(
        "--link",
        help=(
            "What if a figure of the box were another, as pcie_gb_per_s=24 or num_cores=64; "
            "each option once."
        ),
    ),
]
FitHeldOut = Annotated[
    bool,
    typer.Option(
        "--fit-held-out",
        help="Learn also from published figures that are kept to judge predictions.",
    ),
]


NOTHING_KNOWN = (
    "the cost model knows nothing of your own programs, and predicts none of their trials; "
    f"{typed('analysis')} scaling says how they scaled as far as they were run"
)


def predict(
    db: Db,
    filters: Filters = None,
    to: ToOption = None,
    hardware: HardwareOption = None,
    on: OnOption = None,
    link: LinkOption = None,
    fit_held_out: FitHeldOut = False,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: SourceOption = None,
    as_json: Json = False,
) -> None:
    """Predict untried cells, with intervals, from the rows that filters choose. A prediction is no
    measurement.
    """
    read = Source(selection=select(db, filters, sweep, origin, source))
    of_known_programs(read.selection.origin, "what it would reach on other devices")
    of_models = [result for result in read.results if not result.is_of_program]
    if not of_models:
        raise StoreError(NOTHING_KNOWN)
    wanted = _wanted(to, on, link)
    filtered_out = _filtered_out(read)
    kinds = alike(of_models)
    found: list[Prediction] = []
    notes = sweep_notes(of_models)
    if len(of_models) < len(read.results):
        notes.append(f"left out: {NOTHING_KNOWN}")
    able = {results[0].environment.key for results in kinds}
    failed = [
        f"{result.environment.host}: nothing to learn from: none of these has a number"
        for result in of_models
        if result.environment.key not in able
    ]
    for results in kinds:
        try:
            guess = _guess(results, hardware, read)
            known = learned(results, guess, _notes(read), fits_held_out=fit_held_out)
            target = _target(known.guess.hardware, on, link)
            predicted = predictions(known, cells(known.rows, wanted), target)
        except NothingToLearnError as error:
            failed.append(str(error))
        else:
            found += predicted
            notes.append(f"{known.environment.host}: {known.guess.reason}")
            notes += _weaknesses(known, predicted, filtered_out)
    if not found:
        raise StoreError("\n".join(dict.fromkeys(failed)))
    notes += [f"not predicted: {why}" for why in dict.fromkeys(failed)]
    is_refused = all(one.refusal is not None for one in found)
    if not is_refused:
        notes = [*_never_pooled(kinds), *notes]
    found.sort(key=order)
    why_refused = f"nothing could be predicted: all {len(found)} cells were refused"
    if as_json:
        records = {"notes": notes, "predictions": [_record(one) for one in found]}
        print_json({"error": why_refused} | records if is_refused else records)
    else:
        show(make_console(), found, notes, _target_named(on, link))
    if is_refused:
        print(f"analysis: {why_refused}", file=sys.stderr)
        raise typer.Exit(USAGE)


def _never_pooled(kinds: Sequence[Sequence[Result]]) -> list[str]:
    """Say what rows were kept apart by."""
    environments = {results[0].environment.key for results in kinds}
    items = sorted({results[0].item for results in kinds})
    free = {tuple(results[0].free.items()) for results in kinds}
    names = sorted({name for of_kind in free for name, _ in of_kind})
    found = []
    if len(environments) > 1:
        found.append(f"{len(environments)} environments")
    if len(items) > 1:
        found.append(f"trials that count {listed(items)}")
    if len(free) > 1:
        found.append(f"{len(free)} settings of {listed(names)}")
    return [f"{listed(found)}: each is predicted from its own rows alone"] if found else []


def _wanted(
    to: Sequence[str] | None, on: str | None, link: Sequence[str] | None
) -> dict[str, list[str]]:
    """Raise StoreError when nothing new is asked for."""
    wanted: dict[str, list[str]] = {}
    for text in to or ():
        axis, _, values = text.partition("=")
        if not values or axis in wanted:
            raise StoreError(f"--to {text}: wanted an axis, once, and its values, as num_gpus=8,16")
        wanted[axis] = [value.strip() for value in values.split(",")]
    if not (wanted or on or link):
        raise StoreError(
            "predict what? say it as --to num_gpus=8 --to strategy=replicated_nccl, --on "
            "PROFILE, or --link pcie_gb_per_s=24"
        )
    return wanted


def _guess(results: Sequence[Result], hardware: str | None, read: Source) -> Guess:
    environment = results[0].environment
    if environment.device_kind is DeviceKind.CPU_DEVICE:
        raise NothingToLearnError(
            f"{environment.host}: CPU devices share the cores of one machine, and the cost model "
            "is of GPUs; measure on GPUs, or simulate them with engine=simulated"
        )
    if hardware is not None:
        return Guess(hardware=_profile("--hardware", hardware), reason=f"--hardware {hardware}")
    return with_probe(guess_of(environment, most_gpus(results)), results[0], read)


def _filtered_out(read: Source) -> list[Result]:
    """Return results of ours that filters of trials, or a sweep, leave out."""
    chosen = read.selection
    if not chosen.origin.is_ours or not (chosen.trial_filters or chosen.sweep):
        return []
    everything = replace(chosen, filters=tuple(chosen.attempt_filters), sweep=None)
    taken = {(one.environment.key, one.trial_id) for one in read.results}
    return [one for one in load(everything) if (one.environment.key, one.trial_id) not in taken]


def _weaknesses(
    known: Learned, asked: Sequence[Prediction], filtered_out: Sequence[Result]
) -> list[str]:
    """Name what the predictions of an environment rest on, each with the command that would mend
    it, or with the rows that filters left out."""
    found = [f"left out: {why}" for why in known.left_out]
    if not known.is_fitted:
        found.append(
            f"{known.environment.host}: these figures are kept to judge predictions, so that none "
            "is learned from; --fit-held-out learns from them"
        )
        return found
    assumed = Counter(assumption for row in known.rows for assumption in row.assumed)
    for assumption, num in assumed.items():
        found.append(f"assumed of {num} of {len(known.rows)} rows (?): {assumption}")
    learned_from = {name for one in asked for name in one.rests_on}
    rows = [row for row in known.rows if row.name in learned_from]
    if len(rows) == 1 and max(one.work.num_gpus for one in asked) > 1:
        found.append(
            "one trial only: nothing shows how fast GPUs exchange gradients"
            f"{_mended(rows[0].on(2).work, known, filtered_out)}"
        )
    if all(row.work.num_gpus > 1 for row in rows):
        found.append(
            "no baseline: without a row of 1 GPU, computing and communicating are hard to tell "
            f"apart{_mended(_alone(rows[0]), known, filtered_out)}"
        )
    for result in known.results:
        camps = contradiction(Sample.of(result.repeats, result.unit))
        if camps is not None:
            found.append(
                f"repeats of trial {result.trial_id} contradict each other: {camps.words}; "
                f"see {typed('analysis')} explain"
            )
    return found


def _alone(row: Row) -> Work:
    """Return its work on one GPU, where nothing is shared, however more share it."""
    work = row.on(1).work
    abilities = VARIABLE_UPDATES.get(work.variable_update)
    if abilities is None or abilities.least_replicas == 1:
        return work
    return replace(
        work,
        variable_update=DEFAULT_UPDATE,
        local_parameter_device="gpu",
        all_reduce="none",
    )


def _mended(work: Work, known: Learned, filtered_out: Sequence[Result]) -> str:
    """Return the rows like this work that filters left out, else the command that measures it."""
    there = [
        one.trial_id[:ID_DIGITS]
        for one in filtered_out
        if one.environment.key == known.environment.key
        and one.throughput is not None
        and one.axes["model"] == work.network.name
        and one.axes["precision"] == work.precision
        and (one.num_gpus > 1) is (work.num_gpus > 1)
    ]
    if there:
        which = f"{counted(len(there), 'such trial')}, as {there[0]}"
        return f"; the filters left out {which}: choose it, too"
    command = measuring(work, known.results)
    return f"; measure: {command}" if command else ""


def _notes(read: Source) -> dict[str, str]:
    """Return the notes of published figures, which say what their axes do not."""
    if read.selection.origin is not Origin.PUBLISHED:
        return {}
    references = read.references
    return {
        result.trial_id: reference["note"]
        for result, reference in zip(published(references), references, strict=True)
    }


def _profile(option: str, name: str) -> Hardware:
    try:
        return profile(name)
    except ValueError as error:
        raise StoreError(str(error).replace("hardware=", f"{option} ", 1)) from None


def _target(own: Hardware, on: str | None, link: Sequence[str] | None) -> Hardware | None:
    """Return None for the rows' own hardware."""
    if on is None and not link:
        return None
    return relinked(own if on is None else _profile("--on", on), link or ())


def _target_named(on: str | None, link: Sequence[str] | None) -> str:
    """Name another box as headings do; empty where it is the rows' own."""
    if not link:
        return on or ""
    return f"{on or 'their own box'} with {listed(link)}"


def _record(one: Prediction) -> dict[str, Any]:
    work = one.work
    record: dict[str, Any] = {
        "is_measurement": False,
        "environment": one.environment.key,
        "machine": one.environment.machine,
        "item": one.item,
        **one.free,
        "hardware": one.hardware.name,
        "model": work.network.name,
        "seq_len": work.network.seq_len,
        "is_batch_size_reported": one.is_batch_known,
        "is_strategy_reported": one.is_known,
        "other_axes": dict(one.apart),
        "batch_size": None if one.is_undivided else work.batch_size,
        "strategy": one.strategy,
        **{axis: getattr(work, axis) for axis in _AXES},
        "rests_on": one.rests_on,
        "origin": one.environment.origin,
        "figure": one.figure,
        "error": one.error,
    }
    if one.refusal is not None:
        return record | {"refused": one.refusal.reason, "measure_first": one.measure_first or None}
    assert one.predictive is not None
    parts = one.predictive.parts
    return record | {
        "throughput": one.predictive.throughput,
        "low": one.predictive.low,
        "high": one.predictive.high,
        "uncertain": one.predictive.uncertain,
        "candidates": [asdict(candidate) for candidate in one.predictive.candidates],
        "parts": {name: getattr(parts, name) for name in _PARTS},
        "bottleneck": parts.bottleneck,
        "memory_bytes": parts.memory_bytes,
    }
