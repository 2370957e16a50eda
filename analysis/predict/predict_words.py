"""Predictions as people read them: a table, and one sentence for each doubt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.console import Console

from analysis.options import say
from analysis.predict.curves import Prediction
from analysis.predict.rules import Basis
from analysis.text.numbers import number
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
        predicted = [one for one in group if one.throughput is not None]
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
    has_figures = any(one.figure is not None for one in predictions)
    if has_figures:
        columns.append(origin)
    rows = []
    for one in sorted(predictions, key=_order):
        cells = [one.model, one.strategy, *(as_typed(one.setting.get(axis)) for axis in varied)]
        cells += [str(one.num_gpus), _throughput(one), counted(one.num_counts, "count")]
        if has_figures:
            cells.append(_figure(one))
        rows.append(cells)
    print_columns(console, columns, rows, right=frozenset(["GPUs", heading, origin]))


def _varied(predictions: Sequence[Prediction]) -> list[str]:
    """Return the axes, beside model and strategy, in which the curves differ."""
    names = dict.fromkeys(name for one in predictions for name in one.setting if name != "model")
    return [name for name in names if len({str(one.setting.get(name)) for one in predictions}) > 1]


def _order(one: Prediction) -> tuple[object, ...]:
    setting = " ".join(f"{name}={value}" for name, value in one.setting.items())
    return natural(one.model), natural(one.strategy), natural(setting), one.num_gpus


def _throughput(one: Prediction) -> str:
    if one.throughput is None or one.low is None or one.high is None:
        return ""
    return f"{number(one.throughput)} [{number(one.low)}, {number(one.high)}]"


def _figure(one: Prediction) -> str:
    if one.figure is None:
        return ""
    error = "" if one.error is None else f" {one.error:+.1%}"
    return f"{number(one.figure)}{error}"


def _doubts(predictions: Sequence[Prediction]) -> Iterator[str]:
    """Yield one sentence for each basis that is less than a curve, with what it is of."""
    for basis, sentence in _DOUBTS.items():
        of_basis = [one for one in predictions if one.basis is basis]
        if not of_basis:
            continue
        if len(of_basis) == len(predictions):
            yield f"{sentence}."
        else:
            yield f"{_named(of_basis)}: {sentence}."


def _declined(predictions: Sequence[Prediction]) -> Iterator[str]:
    by_reason: dict[str, list[Prediction]] = defaultdict(list)
    for one in predictions:
        if one.declined:
            by_reason[one.declined].append(one)
    for reason, declined in by_reason.items():
        yield f"Not predicted: {_named(declined)}: {reason}."


def _named(predictions: Sequence[Prediction]) -> str:
    names = dict.fromkeys(
        f"{one.model} {one.strategy} on {counted(one.num_gpus, 'GPU')}" for one in predictions
    )
    shown = list(names)[:_MOST_NAMED]
    more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
    return ", ".join(shown) + more
