"""`scalemark predict`: measured curves, carried on to more GPUs.

With throughput T on n GPUs, t(n) = n / T is the time of one item on one GPU: constant where scaling
is perfect. The rules see nothing but t, so that they hold for any program.

| rule | t(n) | meaning |
|---|---|---|
| linear | t(most) | no further loss |
| ring | a + b 2 (n-1)/n | the bytes of a ring all-reduce (Patarasu and Yuan 2009) |
| doubling | t(most) x loss^log2(n/most) | each doubling loses the same share |
| amdahl | a + b (n-1) | a share of the work is serial (Amdahl 1967) |

The prediction is the weighted median of the first three. A rule weighs by its errors on the largest
count of each curve of the same box, predicted from half of the GPUs or fewer (Bates and Granger
1969 combine forecasts so). Amdahl's law replaces them where slower links begin beyond the curve and
it has lost something already. All constants are fitted to published curves:
`python -m benchmarks.prediction` shows how far off the predictions are.
"""

import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from analysis import options, screen, selection, titles
from analysis.advise.questions import axes_apart
from analysis.known_boxes import fast_group, num_gpus_there
from analysis.results import Environment, Result, setting
from scalemark.cli.entry_point import USAGE
from scalemark.cli.terminal import make_console, print_columns, print_json
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import AXES
from scalemark.stats.welch import typical
from scalemark.text.wording import as_typed, counted, listed, natural, shortened
from store.command_line import Db, Filters, Json, OriginOption, Sweep
from store.errors import StoreError

Curve = Mapping[int, float]
"""Throughput by number of GPUs."""


class Basis(StrEnum):
    """What a prediction rests on."""

    CURVE = "curve"  # the rules
    SLOWER_LINKS = "slower links"  # Amdahl's law: GPUs beyond the curve are reached more slowly
    NO_GAIN = "no gain"  # the last GPUs of the curve added next to nothing
    ONE_COUNT = "one count"  # what published curves usually lose


@dataclass(frozen=True, slots=True, kw_only=True)
class Extrapolation:
    """A curve's throughput on more GPUs than it has."""

    throughput: float
    low: float  # of the 95 % interval
    high: float
    basis: Basis


def extrapolate(
    curve: Curve, num_gpus: int, beside: Iterable[Curve] = (), fast_group: int | None = None
) -> Extrapolation:
    """Predict the throughput on `num_gpus`, which is more than the curve has.

    `beside` are curves of the same box. `fast_group` is how many GPUs reach each other by the
    fastest links, where the curve's replicas exchange gradients over these; None where unknown.
    """
    counts = sorted(curve)
    most, doublings = counts[-1], math.log2(num_gpus / counts[-1])
    logs = {count: _log_time(curve, count) for count in counts}
    if len(counts) == 1:
        log = logs[most] + _USUAL_LOSS * doublings
        return _extrapolation(num_gpus, log, _ONE_COUNT_WIDTH * doublings, Basis.ONE_COUNT)
    loss = max(0.0, logs[most] - logs[counts[0]])
    width = (_LEAST_WIDTH + _WIDTH_OF_LOSS * loss) * math.sqrt(doublings)
    is_beyond = fast_group is not None and most <= fast_group < num_gpus
    if is_beyond:
        width += _BEYOND_WIDTH
    # what each of the last GPUs added, over what each of those before them had
    before = counts[-2]
    gain = (curve[most] - curve[before]) / (most - before) / (curve[before] / before)
    if gain < _LEAST_GAIN:
        log = math.log(num_gpus / curve[most])
        return _extrapolation(num_gpus, log, width + _NO_GAIN_WIDTH, Basis.NO_GAIN)
    if is_beyond and loss > _VISIBLE_LOSS:
        log = _fitted(_amdahl_shape, logs, num_gpus)
        return _extrapolation(num_gpus, log, width, Basis.SLOWER_LINKS)
    log = _weighted_median(by_rules(logs, num_gpus), _weights([*beside]))
    return _extrapolation(num_gpus, log, width, Basis.CURVE)


def _log_time(curve: Curve, count: int) -> float:
    return math.log(count / curve[count])


def _extrapolation(num_gpus: int, log: float, width: float, basis: Basis) -> Extrapolation:
    """Turn the log of a time into throughput, with an interval of `width` to each side."""
    throughput = num_gpus / math.exp(log)
    return Extrapolation(
        throughput=throughput,
        low=throughput * math.exp(-width),
        high=throughput * math.exp(width),
        basis=basis,
    )


def by_rules(logs: Mapping[int, float], num_gpus: int) -> dict[str, float]:
    """Return log t on `num_gpus` by each rule, from log t of two or more counts."""
    counts = sorted(logs)
    first, most = counts[0], counts[-1]
    per_doubling = (logs[most] - logs[first]) / math.log2(most / first)
    # more GPUs never take less time for an item than the most that were measured
    return {
        "linear": logs[most],
        "ring": max(logs[most], _fitted(_ring_shape, logs, num_gpus)),
        "doubling": logs[most] + max(0.0, per_doubling) * math.log2(num_gpus / most),
    }


_Floats = NDArray[np.float64]


def _ring_shape(counts: _Floats) -> _Floats:
    return np.column_stack([np.ones(len(counts)), 2 * (counts - 1) / counts])


def _amdahl_shape(counts: _Floats) -> _Floats:
    return np.column_stack([np.ones(len(counts)), counts - 1])


def _fitted(shape: Callable[[_Floats], _Floats], logs: Mapping[int, float], num_gpus: int) -> float:
    """Fit t = shape @ (a, b) by least squares of relative errors, a and b not below 0."""
    counts = np.array(sorted(logs), float)
    columns = shape(counts) / np.exp([logs[int(count)] for count in counts])[:, None]
    parts = np.linalg.lstsq(columns, np.ones(len(counts)))[0]
    if (parts < 0).any():  # then one of them is 0
        alone = np.diag(columns.sum(axis=0) / (columns**2).sum(axis=0))
        parts = min(alone, key=lambda parts: float(((columns @ parts - 1) ** 2).sum()))
    return float(np.log(shape(np.array([float(num_gpus)]))[0] @ parts))


def _weights(curves: Sequence[Curve]) -> dict[str, float]:
    """Return the weight of each rule by its usual error, and by its errors on these curves."""
    errors = list(filter(None, map(_errors, curves)))
    weights = {}
    for name, usual in _USUAL_ERROR.items():
        missed = sum(min(_LARGEST_ERROR, abs(error[name])) ** 2 for error in errors)
        weights[name] = (1 + len(errors)) / (usual**2 + missed)
    return weights


def _errors(curve: Curve) -> dict[str, float]:
    """Return how far off each rule is on the curve's largest count, in logs; empty where too few
    counts have half of its GPUs or fewer.
    """
    most = max(curve)
    kept = {count: _log_time(curve, count) for count in curve if count <= most / 2}
    if len(kept) < 2:
        return {}
    reached = _log_time(curve, most)
    return {name: log - reached for name, log in by_rules(kept, most).items()}


def _weighted_median(logs: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """Return the middle of the candidates, between the two that it lies between."""
    names = sorted(logs, key=logs.__getitem__)
    shares = np.array([weights[name] for name in names])
    shares = shares / shares.sum()
    ranks = np.cumsum(shares) - shares / 2
    return float(np.interp(0.5, ranks, [logs[name] for name in names]))


# All of these are of logs of t, over published curves.
_USUAL_ERROR = {"linear": 0.04, "ring": 0.03, "doubling": 0.045}
_LARGEST_ERROR = 0.15  # that counts: one stray row must not decide
_USUAL_LOSS = 0.03  # per doubling, of curves of which one count is known
_ONE_COUNT_WIDTH = 0.13  # to each side, per doubling
_LEAST_WIDTH = 0.05  # to each side
_WIDTH_OF_LOSS = 0.9  # times the loss of the curve so far
_BEYOND_WIDTH = 0.25  # more, where slower links begin: DGX-1 boxes of 2017 lost so much there
_NO_GAIN_WIDTH = 1.0  # more: nothing shows how far throughput may fall
_LEAST_GAIN = 0.25  # below it the last GPUs added next to nothing
_VISIBLE_LOSS = 0.05


MOST_TIMES = 8
"""More GPUs than a curve has, at most: further on errors of every rule grow without bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownCurve:
    """The results that differ in the number of GPUs alone, each count with its fewest hosts."""

    results: tuple[Result, ...]  # with a number, by increasing number of GPUs

    @property
    def environment(self) -> Environment:
        return self.results[0].environment

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def throughput(self) -> dict[int, float]:
        """Return the throughput by number of GPUs; figures of one count are averaged."""
        values_of: dict[int, list[float]] = defaultdict(list)
        for result in self.results:
            if result.throughput is not None:
                values_of[result.num_gpus].append(result.throughput)
        return {num_gpus: typical(values) for num_gpus, values in values_of.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A curve on more GPUs. It is no measurement, and is never stored."""

    curve: KnownCurve
    num_gpus: int
    rests_on: Curve  # its counts below
    reached: Extrapolation | None  # None where it is declined
    declined: str  # why it is not predicted

    @property
    def figure(self) -> float | None:
        """The figure of this count, which the prediction does not rest on."""
        return self.curve.throughput.get(self.num_gpus)

    @property
    def setting(self) -> dict[str, object]:
        """The axes that the curve's trials share, of a program those that programs have."""
        first = self.curve.first
        axes = setting(first)
        if first.is_of_program:
            for name in list(axes):
                if name in AXES and first.spec.lacks(AXES[name]):
                    del axes[name]
        return axes

    def facts(self) -> dict[str, object]:
        """Return what --json prints of it."""
        environment, first = self.curve.environment, self.curve.first
        trials = [each for each in self.curve.results if each.num_gpus < self.num_gpus]
        reached = dict.fromkeys(field.name for field in fields(Extrapolation))
        if self.reached is not None:
            reached = asdict(self.reached)
        return {
            "environment": environment.key,
            "machine": environment.machine,
            "origin": environment.origin,
            "model": str(first.axes["model"]),
            "strategy": first.way,
            "setting": self.setting,
            "num_gpus": self.num_gpus,
            "unit": first.unit,
            "rests_on": [trial.trial_id for trial in trials],
            "num_counts": len(self.rests_on),
            **reached,
            "declined": self.declined,
            "figure": self.figure,
        }


def curves(results: Iterable[Result]) -> list[KnownCurve]:
    """Group results with a number by environment, what they count, and curve."""
    grouped: dict[tuple[object, ...], list[Result]] = defaultdict(list)
    for result in results:
        if result.throughput is not None:
            grouped[result.environment.key, result.item, result.curve].append(result)
    made = []
    for group in grouped.values():
        fewest: dict[int, int] = {}
        for result in group:
            fewest[result.num_gpus] = min(result.hosts, fewest.get(result.num_gpus, result.hosts))
        of_curve = [result for result in group if result.hosts == fewest[result.num_gpus]]
        made.append(KnownCurve(results=tuple(sorted(of_curve, key=lambda result: result.num_gpus))))
    return made


def prediction_of(curve: KnownCurve, num_gpus: int, beside: Sequence[KnownCurve]) -> Prediction:
    """Predict one count from the smaller ones; `beside` are all curves of the same results."""
    smaller = _below(curve, num_gpus)
    reason = _why_not(curve, smaller, num_gpus)
    reached = None
    if not reason:
        of_box = []
        for other in beside:
            below = _below(other, num_gpus)
            if below and other.environment.key == curve.environment.key:
                of_box.append(below)
        axes, fast = curve.first.axes, None
        if axes.get("local_parameter_device") != "cpu":  # no such link leads to the host
            by_ring = str(axes.get("all_reduce") or "nccl").startswith("nccl")
            fast = fast_group(curve.environment, num_gpus, by_ring=by_ring)
        reached = extrapolate(smaller, num_gpus, of_box, fast)
    return Prediction(
        curve=curve, num_gpus=num_gpus, rests_on=smaller, reached=reached, declined=reason
    )


def _below(curve: KnownCurve, num_gpus: int) -> dict[int, float]:
    return {count: value for count, value in curve.throughput.items() if count < num_gpus}


def _why_not(curve: KnownCurve, smaller: Mapping[int, float], num_gpus: int) -> str:
    """Return why a count is not predicted, with what to do; empty where it is."""
    environment = curve.environment
    if environment.device_kind is DeviceKind.CPU_DEVICE:
        return "CPU devices share the cores of one machine: measure on GPUs"
    if curve.first.counts_steps:
        return "steps are counted, and a step may be larger on more GPUs: set items_per_step"
    if not smaller:
        return f"no trial of this curve has fewer than {num_gpus} GPUs: measure one"
    most = max(smaller)
    if num_gpus > MOST_TIMES * most:
        nearest = -(-num_gpus // MOST_TIMES)
        return (
            f"{num_gpus} GPUs are over {MOST_TIMES} times the {most} that were tried: measure on "
            f"{nearest} first"
        )
    there = num_gpus_there(environment)
    is_of_one_host = all(result.hosts == 1 for result in curve.results)
    if there and num_gpus > there and is_of_one_host:
        return f"{environment.host} has {there} GPUs, and the curve has no trial over several hosts"
    return ""


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
            predictions.append(prediction_of(curve, num_gpus, known))
    nothing = "nothing could be predicted"
    most = 0  # the largest measured count that its curve's smaller ones predict
    for curve in known:
        largest = max(curve.throughput)
        if not prediction_of(curve, largest, known).declined:
            most = max(most, largest)
    if most:
        nothing += f"; to check predictions by what was measured, say --to num_gpus={most}"
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
        if any(prediction.reached is not None for prediction in group):
            machine = group[0].curve.environment.machine
            screen.say(console, f"Predicted, not measured: {machine}", "bold")
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
    varied = [axis for axis in axes_apart([each.setting for each in able]) if axis != "model"]
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
        gpus = prediction.curve.environment.counted(prediction.num_gpus)
        names.append(f"{' '.join(_model_and_strategy(prediction))} on {gpus}")
    return listed(shortened(names, _MOST_NAMED))
