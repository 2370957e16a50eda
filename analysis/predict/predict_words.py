"""Predictions as people read them: a table, and one sentence for each doubt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.console import Console

from analysis.options import say
from analysis.predict.curves import Prediction
from analysis.predict.rules import Basis
from analysis.titles import number
from scalemark.cli.terminal import print_columns
from scalemark.text.wording import as_typed, counted, natural

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


def show(console: Console, predictions: Sequence[Prediction]) -> None:
    """Print a table for each environment and unit, then doubts and what was declined."""
    grouped: dict[tuple[str, str], list[Prediction]] = defaultdict(list)
    for prediction in predictions:
        grouped[prediction.environment, prediction.unit].append(prediction)
    for (_, unit), group in grouped.items():
        origin = group[0].origin
        say(console, f"Predicted, not measured: {group[0].machine}", "bold")
        predicted = [prediction for prediction in group if prediction.throughput is not None]
        if predicted:
            _print_table(console, predicted, unit, origin)
        for line in (*_doubts(predicted), *_declined(group)):
            say(console, line)


def _print_table(
    console: Console, predictions: Sequence[Prediction], unit: str, origin: str
) -> None:
    varied = _varied(predictions)
    heading = f"{unit} [95 %]"
    columns = ["model", "strategy", *varied, "GPUs", heading, "from"]
    has_figures = any(prediction.figure is not None for prediction in predictions)
    if has_figures:
        columns.append(origin)
    rows = []
    for prediction in sorted(predictions, key=_order):
        cells = [
            prediction.model,
            prediction.strategy,
            *(as_typed(prediction.setting.get(axis)) for axis in varied),
        ]
        cells += [
            str(prediction.num_gpus),
            _throughput(prediction),
            counted(prediction.num_counts, "count"),
        ]
        if has_figures:
            cells.append(_figure(prediction))
        rows.append(cells)
    print_columns(console, columns, rows, right=frozenset(["GPUs", heading, origin]))


def _varied(predictions: Sequence[Prediction]) -> list[str]:
    """Return the axes, beside model and strategy, in which the curves differ."""
    names = dict.fromkeys(
        name for prediction in predictions for name in prediction.setting if name != "model"
    )
    return [
        name
        for name in names
        if len({str(prediction.setting.get(name)) for prediction in predictions}) > 1
    ]


def _order(prediction: Prediction) -> tuple[object, ...]:
    setting = " ".join(f"{name}={value}" for name, value in prediction.setting.items())
    return (
        natural(prediction.model),
        natural(prediction.strategy),
        natural(setting),
        prediction.num_gpus,
    )


def _throughput(prediction: Prediction) -> str:
    if prediction.throughput is None or prediction.low is None or prediction.high is None:
        return ""
    return f"{number(prediction.throughput)} [{number(prediction.low)}, {number(prediction.high)}]"


def _figure(prediction: Prediction) -> str:
    if prediction.figure is None:
        return ""
    error = "" if prediction.error is None else f" {prediction.error:+.1%}"
    return f"{number(prediction.figure)}{error}"


def _doubts(predictions: Sequence[Prediction]) -> Iterator[str]:
    """Yield one sentence for each basis that is less than a curve, with what it is of."""
    for basis, sentence in _DOUBTS.items():
        of_basis = [prediction for prediction in predictions if prediction.basis is basis]
        if not of_basis:
            continue
        if len(of_basis) == len(predictions):
            yield f"{sentence}."
        else:
            yield f"{_named(of_basis)}: {sentence}."


def _declined(predictions: Sequence[Prediction]) -> Iterator[str]:
    by_reason: dict[str, list[Prediction]] = defaultdict(list)
    for prediction in predictions:
        if prediction.declined:
            by_reason[prediction.declined].append(prediction)
    for reason, declined in by_reason.items():
        yield f"Not predicted: {_named(declined)}: {reason}."


def _named(predictions: Sequence[Prediction]) -> str:
    names = dict.fromkeys(
        f"{prediction.model} {prediction.strategy} on {counted(prediction.num_gpus, 'GPU')}"
        for prediction in predictions
    )
    shown = list(names)[:_MOST_NAMED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more
