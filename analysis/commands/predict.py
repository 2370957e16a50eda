"""`scalemark predict`: measured curves, carried on to more GPUs."""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import Console

from analysis import options, screen, selection, titles
from analysis.advise.questions import axes_apart
from analysis.predict import Basis, Prediction, curves
from analysis.predict import predict as predicted
from scalemark.cli.commands import USAGE
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.text.wording import as_typed, counted, listed, natural, shortened
from store.command_line import Db, Filters, Json, OriginOption, Sweep
from store.errors import StoreError

ToOption = Annotated[
    str | None,
    typer.Option(
        "--to",
        help="GPUs to predict, as num_gpus=8,16.",
        show_default="twice the most that each curve has",
    ),
]
_DOUBTS = {
    Basis.SLOWER_LINKS: (
        "slower links begin beyond the measured GPUs, so the loss is taken to grow with each GPU"
    ),
    Basis.NO_GAIN: "the last GPUs added next to nothing, so more are taken to add nothing",
    Basis.ONE_COUNT: (
        "one count of GPUs alone is measured, so the usual loss of 3 % per doubling is assumed: "
        "measure a second count"
    ),
}
_MOST_NAMED = 6  # predictions that a doubt or reason names


def predict(
    db: Db,
    filters: Filters = None,
    to: ToOption = None,
    sweep: Sweep = None,
    origin: OriginOption = None,
    source: options.SourceOption = None,
    as_json: Json = False,
) -> None:
    """Predict how fast measured curves go on to more GPUs, with intervals. A prediction is no
    measurement.
    """
    counts = _counts(to)
    read = selection.Source(selection=options.select(db, filters, sweep, origin, source))
    known = curves(read.results)
    if not known:
        raise StoreError("nothing to predict from: no chosen trial has a number")
    predictions = []
    for curve in known:
        for num_gpus in counts or [2 * max(curve.throughput)]:
            predictions.append(predicted(curve, num_gpus, known))
    nothing = "nothing could be predicted"
    is_all_declined = all(prediction.declined for prediction in predictions)
    if as_json:
        answer = {"notes": titles.sweep_notes(read.results), "predictions": predictions}
        print_json({"error": nothing} | answer if is_all_declined else answer)
    else:
        console = make_console()
        _show(console, predictions)
        for note in titles.sweep_notes(read.results):
            screen.say(console, note)
    if is_all_declined:
        print(f"predict: {nothing}", file=sys.stderr)
        raise typer.Exit(USAGE)


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
        if not re.fullmatch("0*[1-9][0-9]{0,6}", word):
            raise StoreError(
                f"--to {to[:100]}: wanted whole numbers of GPUs of up to 7 digits, as num_gpus=8,16"
            )
        counts.append(int(word))
    return sorted(set(counts))


def _show(console: Console, predictions: Sequence[Prediction]) -> None:
    """Print a table for each environment and unit, then doubts and what was declined."""
    grouped: dict[tuple[str, str], list[Prediction]] = defaultdict(list)
    for prediction in predictions:
        grouped[prediction.environment, prediction.unit].append(prediction)
    for (_, unit), group in grouped.items():
        screen.say(console, f"Predicted, not measured: {group[0].machine}", "bold")
        able = [prediction for prediction in group if prediction.throughput is not None]
        if able:
            _print_table(console, sorted(able, key=_order), unit, group[0].origin)
        for line in _reasons(group):
            screen.say(console, line)


def _order(prediction: Prediction) -> tuple[object, ...]:
    setting = " ".join(f"{name}={value}" for name, value in prediction.setting.items())
    names = natural(prediction.model), natural(prediction.strategy), natural(setting)
    return *names, prediction.num_gpus


def _print_table(
    console: Console, predictions: Sequence[Prediction], unit: str, origin: str
) -> None:
    # axes, beside model and strategy, in which the curves differ
    varied = axes_apart([{**each.setting, "model": ""} for each in predictions])
    heading = f"{unit} [95 %]"
    columns = ["model", "strategy", *varied, "GPUs", heading, "from"]
    has_figures = any(prediction.figure is not None for prediction in predictions)
    if has_figures:
        columns.append(origin)
    rows = []
    for prediction in predictions:
        cells = [prediction.model, prediction.strategy]
        cells += [as_typed(prediction.setting.get(axis)) for axis in varied]
        low, high = titles.number(prediction.low or 0.0), titles.number(prediction.high or 0.0)
        cells += [
            str(prediction.num_gpus),
            f"{titles.number(prediction.throughput or 0.0)} [{low}, {high}]",
        ]
        cells.append(counted(prediction.num_counts, "count"))
        if has_figures:
            figure, error = prediction.figure, prediction.error
            off = "" if error is None else f" {error:+.1%}"
            cells.append("" if figure is None else f"{titles.number(figure)}{off}")
        rows.append(cells)
    print_columns(console, columns, rows, right=frozenset(["GPUs", heading, origin]))


def _reasons(group: Sequence[Prediction]) -> Iterator[str]:
    """Yield one sentence for each basis that is less than a curve, and each reason to decline."""
    by_reason: dict[str, list[Prediction]] = defaultdict(list)
    for prediction in group:
        if prediction.declined:
            by_reason[prediction.declined].append(prediction)
        elif prediction.basis in _DOUBTS:
            by_reason[_DOUBTS[prediction.basis]].append(prediction)
    for reason, of_reason in by_reason.items():
        if of_reason[0].declined:
            yield f"Not predicted: {_named(of_reason)}: {reason}."
        elif len(of_reason) < len(group):
            yield f"{_named(of_reason)}: {reason}."
        else:
            yield f"{reason}."


def _named(predictions: Sequence[Prediction]) -> str:
    names = []
    for prediction in predictions:
        names.append(f"{prediction.model} {prediction.strategy} on {prediction.counted}")
    return listed(shortened(names, _MOST_NAMED))
