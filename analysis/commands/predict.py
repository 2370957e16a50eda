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
from analysis.predict import Basis, KnownCurve, Prediction, curves
from analysis.predict import predict as predicted
from scalemark.cli.entry_point import USAGE
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
    most = _most_that_can_be_checked(known)
    if most:
        asked = [*(filters or ()), *_given("--sweep", sweep), *_given("--origin", origin)]
        asked += [*_given("--source", source), "--to", f"num_gpus={most}"]
        command = read.selection.analysis("predict", *asked)
        nothing += f"; to check predictions, predict what was measured from fewer GPUs: {command}"
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


def _most_that_can_be_checked(known: Sequence[KnownCurve]) -> int:
    """Return the largest measured count that its curve's smaller ones predict; 0 without any."""
    most = 0
    for curve in known:
        largest = max(curve.throughput)
        if not predicted(curve, largest, known).declined:
            most = max(most, largest)
    return most


def _given(option: str, value: str | None) -> tuple[str, ...]:
    """Return an option as it was typed; nothing where it was not."""
    return () if value is None else (option, str(value))


def _counts(to: str | None) -> list[int]:
    """Read `num_gpus=8,16`. Raises StoreError."""
    if to is None:
        return []
    axis, _, text = to.partition("=")
    if re.fullmatch("[0-9,]+", to):
        raise StoreError(f"--to {to[:100]}: did you mean --to num_gpus={to[:100]}?")
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
        environment, unit = prediction.curve.environment, prediction.curve.first.unit
        grouped[environment.key, unit].append(prediction)
    for group in grouped.values():
        screen.say(
            console, f"Predicted, not measured: {group[0].curve.environment.machine}", "bold"
        )
        _print_table(console, sorted(group, key=_order))
        for line in _reasons(group):
            screen.say(console, line)


def _order(prediction: Prediction) -> tuple[object, ...]:
    setting = " ".join(f"{name}={value}" for name, value in prediction.setting.items())
    names = *_model_and_strategy(prediction), setting
    return *map(natural, names), prediction.num_gpus


def _model_and_strategy(prediction: Prediction) -> tuple[str, str]:
    first = prediction.curve.first
    return str(first.axes["model"]), first.way


def _print_table(console: Console, predictions: Sequence[Prediction]) -> None:
    """Print those of one environment and unit that were not declined."""
    able = [prediction for prediction in predictions if prediction.reached is not None]
    # axes, beside model and strategy, in which the curves differ
    varied = axes_apart([{**each.setting, "model": ""} for each in able])
    first = predictions[0].curve.first
    heading, origin = f"{first.unit} [95 %]", str(first.environment.origin)
    columns = ["model", "strategy", *varied, "GPUs", heading, "from"]
    has_figures = any(prediction.figure is not None for prediction in able)
    if has_figures:
        columns.append(origin)
    rows = []
    for prediction in able:
        reached, figure = prediction.reached, prediction.figure
        assert reached is not None
        cells = [*_model_and_strategy(prediction)]
        for axis in varied:
            cells.append(as_typed(prediction.setting.get(axis)))
        low, high = titles.number(reached.low), titles.number(reached.high)
        cells += [str(prediction.num_gpus), f"{titles.number(reached.throughput)} [{low}, {high}]"]
        cells.append(counted(len(prediction.rests_on), "count"))
        if figure is not None:
            cells.append(f"{titles.number(figure)} {reached.throughput / figure - 1:+.1%}")
        elif has_figures:
            cells.append("")
        rows.append(cells)
    if rows:
        print_columns(console, columns, rows, right=frozenset(["GPUs", heading, origin]))


def _reasons(group: Sequence[Prediction]) -> Iterator[str]:
    """Yield one sentence for each basis that is less than a curve, and each reason to decline."""
    by_reason: dict[str, list[Prediction]] = defaultdict(list)
    for prediction in group:
        if prediction.declined:
            by_reason[prediction.declined].append(prediction)
        elif prediction.reached is not None and prediction.reached.basis in _DOUBTS:
            by_reason[_DOUBTS[prediction.reached.basis]].append(prediction)
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
        names.append(f"{' '.join(_model_and_strategy(prediction))} on {prediction.counted}")
    return listed(shortened(names, _MOST_NAMED))
