"""`python -m analysis predict`: what untried cells would give, from rows of the same place."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from analysis.calibration.places import Guess, guess_of
from analysis.options import Filters, OriginOption, SourceOption, Sweep
from analysis.prediction.links import relinked
from analysis.prediction.measuring import measuring
from analysis.prediction.predictions import (
    Learned,
    NothingToLearnError,
    Prediction,
    cells,
    learned,
    most_gpus,
    predictions,
)
from analysis.prediction.text import order, show
from analysis.published import published
from analysis.results import Origin, Result
from analysis.selection import Selection
from analysis.source import Source
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from costs.hardware import Hardware
from costs.profiles import profile
from scalemark.cli.terminal import make_console, print_json
from scalemark.host.own_code import typed
from scalemark.records.devices import DeviceKind
from store.command_line import Db, Json
from store.errors import StoreError

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


def predict(
    db: Db,
    filters: Filters = None,
    to: ToOption = None,
    hardware: HardwareOption = None,
    on: OnOption = None,
    link: LinkOption = None,
    sweep: Sweep = None,
    origin: OriginOption = Origin.MEASURED,
    source: SourceOption = None,
    as_json: Json = False,
) -> None:
    """What untried cells would give, with an interval, from the rows that filters choose. A
    prediction is no measurement.
    """
    wanted = _wanted(to, on, link)
    chosen = Selection(
        db=db, sweep=sweep, filters=tuple(filters or ()), origin=origin, source=source
    )
    read = Source(selection=chosen)
    found: list[Prediction] = []
    notes: list[str] = []
    failed: list[str] = []
    places = _by_place(read)
    for results in places:
        try:
            known = learned(results, _guess(results, hardware), _notes(read))
            told = predictions(
                known, cells(known.rows, wanted), _target(known.guess.hardware, on, link)
            )
        except NothingToLearnError as error:
            failed.append(str(error))
        else:
            found += told
            notes += [f"{known.place.host}: {known.guess.reason}", *_weaknesses(read, known, told)]
    if not found:
        raise StoreError("\n".join(dict.fromkeys(failed)))
    if len(places) > 1:
        notes.insert(
            0, f"{len(places)} machines or softwares: each is predicted from its own rows alone"
        )
    _print(
        sorted(found, key=order),
        [*notes, *(f"not predicted: {why}" for why in dict.fromkeys(failed))],
        as_json=as_json,
    )
    if all(one.refusal is not None for one in found):
        raise StoreError(
            f"nothing could be predicted: {_counted(len(found))} refused, for the reasons above"
        )


def _print(found: Sequence[Prediction], notes: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        print_json({"notes": notes, "predictions": [_as_json(one) for one in found]})
    else:
        show(make_console(), found, notes)


def _counted(num: int) -> str:
    return "the only cell was" if num == 1 else f"all {num} cells were"


def _wanted(
    to: Sequence[str] | None, on: str | None, link: Sequence[str] | None
) -> dict[str, list[str]]:
    """Raises StoreError when nothing new is asked for."""
    wanted: dict[str, list[str]] = {}
    for text in to or ():
        axis, equals, values = text.partition("=")
        if not equals or not values:
            raise StoreError(f"--to {text}: wanted an axis and its values, as num_gpus=8,16")
        if axis in wanted:
            raise StoreError(
                f"--to {text}: {axis} is told twice; put its values into one, with commas"
            )
        wanted[axis] = [value.strip() for value in values.split(",")]
    if not (wanted or on or link):
        raise StoreError(
            "predict what? say it as --to num_gpus=8 --to strategy=replicated_nccl, --on "
            "PROFILE, or --link pcie_gb_per_s=24"
        )
    return wanted


def _by_place(read: Source) -> list[list[Result]]:
    """Rows of two places are never pooled."""
    found: dict[str, list[Result]] = defaultdict(list)
    for result in read.results:
        found[result.place.key].append(result)
    if not found:
        raise StoreError("no result is there to learn from")
    return list(found.values())


def _guess(results: Sequence[Result], hardware: str | None) -> Guess:
    place = results[0].place
    if place.device_kind is DeviceKind.CPU_STAND_IN:
        raise NothingToLearnError(
            f"{place.host}: CPU stand-ins share the cores of one machine, and the cost model is of GPUs; measure on GPUs, or "
            "simulate them with engine=simulated"
        )
    if hardware is not None:
        return Guess(hardware=_profile(hardware), reason=f"--hardware {hardware}")
    return guess_of(place, most_gpus(results))


def _weaknesses(read: Source, known: Learned, asked: Sequence[Prediction]) -> list[str]:
    """Of what a place's predictions rest on, each with the command that would mend it."""
    found = [f"left out: {why}" for why in known.left_out]
    assumed = Counter(assumption for row in known.rows for assumption in row.assumed)
    found += [
        f"assumed of {num} of {len(known.rows)} rows (?): {assumption}"
        for assumption, num in assumed.items()
    ]
    learned_from = {name for one in asked for name in one.rests_on}
    rows = [row for row in known.rows if row.name in learned_from]
    if len(rows) == 1 and max(one.work.num_gpus for one in asked) > 1:
        two = rows[0].on(2).work
        found.append(
            "one trial only: nothing tells how fast GPUs exchange gradients; measure: "
            f"{measuring(two, known.results)}"
        )
    if all(row.work.num_gpus > 1 for row in rows):
        alone = rows[0].on(1).work
        found.append(
            f"no baseline: no row is of 1 GPU, so computing and communicating are told apart badly; measure: "
            f"{measuring(alone, known.results)}"
        )
    for result in read.results:
        told = (
            contradiction(Sample.of(result.repeats))
            if result.place.key == known.place.key and result.repeats
            else None
        )
        if told is not None:
            found.append(
                f"repeats of trial {result.trial_id} contradict each other: {told.words}; "
                f"see {typed('analysis')} explain"
            )
    return found


def _notes(read: Source) -> dict[str, str]:
    """Of published figures, which say there what their axes do not."""
    if read.selection.origin is not Origin.PUBLISHED:
        return {}
    references = read.references
    return {
        result.trial_id: reference["note"]
        for result, reference in zip(published(references), references, strict=True)
    }


def _profile(name: str) -> Hardware:
    try:
        return profile(name)
    except ValueError as error:
        raise StoreError(str(error)) from None


def _target(own: Hardware, on: str | None, link: Sequence[str] | None) -> Hardware | None:
    """None is the rows' own."""
    if on is None and not link:
        return None
    return relinked(own if on is None else _profile(on), link or ())


def _as_json(one: Prediction) -> Mapping[str, Any]:
    work = one.work
    told: dict[str, Any] = {
        "is_measurement": False,
        "place": one.place.key,
        "machine": one.place.machine,
        "hardware": one.hardware.name,
        "model": work.network.name,
        "num_gpus": work.num_gpus,
        "is_batch_size_reported": one.is_batch_told,
        "is_strategy_reported": one.is_told,
        "other_axes": dict(one.apart),
        "batch_size": None if one.is_undivided else work.batch_size,
        "strategy": one.strategy,
        "variable_update": work.variable_update,
        "local_parameter_device": work.local_parameter_device,
        "all_reduce": work.all_reduce,
        "gradient_repacking": work.gradient_repacking,
        "compact_gradients": work.compact_gradients,
        "precision": work.precision,
        "xla": work.xla,
        "real_data": work.real_data,
        "rests_on": list(one.rests_on),
        "origin": str(one.place.origin),
        "figure": one.figure,
        "error": one.error,
    }
    if one.refusal is not None:
        return told | {"refused": one.refusal.reason, "measure_first": one.measure_first or None}
    assert one.predictive is not None
    parts = one.predictive.parts
    named = (
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
    return told | {
        "throughput": one.predictive.throughput,
        "low": one.predictive.low,
        "high": one.predictive.high,
        "uncertain": list(one.predictive.uncertain),
        "parts": {name: getattr(parts, name) for name in named},
        "bottleneck": parts.bottleneck,
        "memory_bytes": parts.memory_bytes,
    }
