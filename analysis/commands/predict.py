"""`python -m analysis predict`: measured curves, carried on to more GPUs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from analysis.options import Filters, OriginOption, SourceOption, Sweep, say, select
from analysis.predict.curves import KnownCurve, Prediction, curves
from analysis.predict.curves import predict as predict_one
from analysis.predict.predict_words import show
from analysis.selection import Source
from analysis.titles import sweep_notes
from scalemark.cli.terminal import make_console, print_json
from store.command_line import USAGE, Db, Json
from store.errors import StoreError

ToOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        help="GPUs to predict, as num_gpus=8,16.",
        show_default="twice the most that each curve has",
    ),
]


def predict(
    db: Db,
    filters: Filters = None,
    to: ToOption = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: SourceOption = None,
    as_json: Json = False,
) -> None:
    """Predict how fast measured curves go on to more GPUs, with intervals. A prediction is no
    measurement.
    """
    counts = _counts(to)
    read = Source(selection=select(db, filters, sweep, origin, source))
    known = curves(read.results)
    if not known:
        raise StoreError("nothing to predict from: no chosen trial has a number")
    predictions = [prediction for curve in known for prediction in _of_curve(curve, counts, known)]
    nothing = "nothing could be predicted"
    is_all_declined = all(prediction.declined for prediction in predictions)
    if as_json:
        answer = {"notes": sweep_notes(read.results), "predictions": predictions}
        print_json({"error": nothing} | answer if is_all_declined else answer)
    else:
        console = make_console()
        show(console, predictions)
        for note in sweep_notes(read.results):
            say(console, note)
    if is_all_declined:
        print(f"analysis: {nothing}", file=sys.stderr)
        raise typer.Exit(USAGE)


def _of_curve(
    curve: KnownCurve, counts: Sequence[int], known: Sequence[KnownCurve]
) -> list[Prediction]:
    wanted = counts or [2 * max(curve.throughput)]
    return [predict_one(curve, num_gpus, known) for num_gpus in wanted]


def _counts(to: str | None) -> list[int]:
    """Read `num_gpus=8,16`. Raises StoreError."""
    if to is None:
        return []
    axis, _, text = to.partition("=")
    if axis != "num_gpus":
        raise StoreError(
            f"--to {to}: a prediction carries a curve on to more GPUs, as --to num_gpus=8,16; "
            f"measure another {axis}, or simulate it with engine=simulated"
        )
    counts = []
    for word in text.split(","):
        if not (word.isascii() and word.isdecimal() and int(word)):
            raise StoreError(f"--to {to}: wanted whole numbers of GPUs, as num_gpus=8,16")
        counts.append(int(word))
    return sorted(set(counts))
