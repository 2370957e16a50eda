"""The frames of `import scalemark`: one table of their columns, and what fills each of them."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, TypeVar

import pandas as pd

from analysis.advise.answer import Recommendation
from analysis.compare.pairs import PairRow, comparison
from analysis.compare.sides import ComparedSide
from analysis.compare.words import sentence
from analysis.results import Result
from analysis.scaling.curves import scalings
from analysis.statistics.judgement import Decision
from scalemark.records.trial import AXES
from scalemark.text.wording import SortKey, natural
from store.reading.sweeps import ListedSweep

_Method = TypeVar("_Method", bound=Callable[..., Any])


class NothingFoundWarning(UserWarning):
    """A frame is empty. The text says why; `frame.attrs["why"]` has it, too."""


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """One column of a frame."""

    name: str
    dtype: str
    meaning: str = ""
    fill: str | Callable[[Any], object] = ""  # an attribute; empty: the one of this name

    def cell(self, source: object) -> object:
        """Return its value in the row that is made from `source`."""
        fill = self.fill or self.name
        value = attrgetter(fill)(source) if isinstance(fill, str) else fill(source)
        return str(value) if isinstance(value, StrEnum) else value


def _axis(name: str) -> Callable[[Result], object]:
    """Sources report some numbers in words, and most axes not at all."""
    wants_text = AXES[name].type is str

    def fill(result: Result) -> object:
        value = result.axes.get(name)
        if wants_text and value is not None:
            return str(value)
        return value if isinstance(value, bool | int | float) else None

    return fill


_DTYPES = {bool: "boolean", int: "Int64", float: "float64", str: "str"}
_FIRST = (
    FrameColumn("model", "str", fill=_axis("model")),
    FrameColumn("strategy", "str"),
    FrameColumn("num_gpus", "int64"),
    FrameColumn("hosts", "int64"),
    FrameColumn("batch_size", "Int64", "per GPU, and micro-batch", _axis("batch_size")),
    FrameColumn("precision", "str", fill=_axis("precision")),
    FrameColumn("throughput", "float64", "items/s of all replicas: geometric mean of the repeats"),
    FrameColumn("throughput_low", "float64", "95 % CI over repeats; within the only one", "low"),
    FrameColumn("throughput_high", "float64", fill="high"),
    FrameColumn(
        "num_repeats", "int64", "processes behind the number", lambda row: len(row.repeats)
    ),
    FrameColumn("num_failed", "int64", "repeats without a number", lambda row: len(row.failed)),
    FrameColumn("speed_up", "float64", "against the baseline"),
    FrameColumn("efficiency", "float64", "speed-up per GPU; 1.0 is ideal"),
    FrameColumn("outcome", "str", "completed, or how the newest attempt ended"),
    FrameColumn("is_valid", "bool", "no verdict says anything against it"),
    FrameColumn("item", "str", "what is counted: images, tokens; all other axes follow"),
)
_OTHER_AXES = tuple(
    FrameColumn(name, _DTYPES[axis.type], fill=_axis(name))
    for name, axis in AXES.items()
    if name not in ("model", "num_gpus", "hosts", "batch_size", "precision")
)
_LAST = (
    FrameColumn("mfu", "float64", "model FLOPs utilization, 0..1", "usage.mfu"),
    FrameColumn("memory_bytes", "Int64", "of the device that needs most", "usage.memory_bytes"),
    FrameColumn("variable_bytes", "Int64", fill="usage.variable_bytes"),
    FrameColumn("optimizer_state_bytes", "Int64", fill="usage.optimizer_state_bytes"),
    FrameColumn("origin", "str", "who made the number", "environment.origin"),
    FrameColumn("environment", "str", "key of machine and software", "environment.key"),
    FrameColumn("host", "str", fill="environment.host"),
    FrameColumn("machine", "str", "one line", "environment.machine"),
    FrameColumn("versions", "str", "one line", "environment.versions"),
    FrameColumn("device_kind", "str", "what num_gpus counts", "environment.device_kind"),
    FrameColumn("shares_host", "bool", "others ran beside it", "environment.shares_host"),
    FrameColumn("trial_id", "str"),
    FrameColumn("attempts", "object", "numbers of its attempts", "attempt_ids"),
    FrameColumn("repeats", "object", "throughput of each; free axes follow, as axes.zero"),
)
TRIALS = (*_FIRST, *_OTHER_AXES, *_LAST)
SCALING = (
    FrameColumn("speed_up_low", "float64", "95 % CI; NaN of single runs"),
    FrameColumn("speed_up_high", "float64"),
    FrameColumn(
        "marginal_efficiency",
        "float64",
        "what each GPU since the row before adds, as a share of a first one; below 0.5 it does "
        "not pay",
        "added_share",
    ),
    FrameColumn("marginal_efficiency_low", "float64", fill="added_share_low"),
    FrameColumn("marginal_efficiency_high", "float64", fill="added_share_high"),
    FrameColumn("baseline_strategy", "str", "what the speed-up is against"),
    FrameColumn("baseline_num_gpus", "Int64"),
)
STOP = FrameColumn("stops_paying_at", "Int64", "the most GPUs of the curve that pay; NA: all do")
SCALING_ROW = (*_FIRST, *SCALING, STOP, *_OTHER_AXES, *_LAST)


def _answer(row: PairRow) -> str:
    judged = row.judgement
    if judged is None:
        return "nothing to compare"
    if judged.answer is not Decision.DIFFERENT:
        return str(judged.answer)
    return "a is faster" if judged.ratio.ratio > 1 else "b is faster"


def _item(row: PairRow) -> str:
    return row.a.item if row.b.throughput is None else row.b.item


def _of_ratio(name: str) -> Callable[[PairRow], object]:
    return lambda row: getattr(row.judgement.ratio, name) if row.judgement else None


COMPARISON = (
    FrameColumn(
        "a", "str", "what makes the side what it is; before it the axes of the pair", "name_a"
    ),
    FrameColumn("b", "str", fill="name_b"),
    FrameColumn("a_throughput", "float64", "items/s; NaN without a number", "a.throughput"),
    FrameColumn("b_throughput", "float64", fill="b.throughput"),
    FrameColumn("item", "str", "what is counted", _item),
    FrameColumn("ratio", "float64", "of a to b", _of_ratio("ratio")),
    FrameColumn("ratio_low", "float64", "95 % CI", _of_ratio("low")),
    FrameColumn("ratio_high", "float64", "", _of_ratio("high")),
    FrameColumn(
        "answer", "str", "a or b is faster, tie, not conclusive, nothing to compare", _answer
    ),
    FrameColumn(
        "is_sure",
        "bool",
        "decided, and over processes",
        lambda row: row.judgement is not None and row.judgement.answer is not Decision.UNKNOWN,
    ),
    FrameColumn("a_num_repeats", "int64", "", lambda row: len(row.a.repeats)),
    FrameColumn("b_num_repeats", "int64", "", lambda row: len(row.b.repeats)),
    FrameColumn("why", "str", "the answer in a sentence", sentence),
    FrameColumn("a_trial_id", "str", fill="a.trial_id"),
    FrameColumn("b_trial_id", "str", fill="b.trial_id"),
)
CHOICES = (
    FrameColumn("question", "int64", "choices compete within one: the same work and machine"),
    FrameColumn("standing", "str", "best, tie, unclear, raced out, worse"),
    FrameColumn("is_taken", "bool", "the advice: the cheapest of those that tie"),
    FrameColumn("score", "float64", "by the goal, larger is better"),
    FrameColumn("vs_best", "float64", "share of the best score"),
    FrameColumn("vs_best_low", "float64", "95 % CI"),
    FrameColumn("vs_best_high", "float64"),
)
SWEEPS = (
    FrameColumn("sweep", "str", "its name"),
    FrameColumn("started_at", "datetime64[us, UTC]"),
    FrameColumn("finished_at", "datetime64[us, UTC]", "NaT while something is left to run"),
    FrameColumn("models", "str", "parted by commas", lambda row: ",".join(row.models)),
    FrameColumn("engines", "str", "parted by commas", lambda row: ",".join(row.engines)),
    FrameColumn("num_trials", "int64", "that it asked for"),
    FrameColumn("num_attempts", "int64", "its own; what was finished earlier has none"),
    FrameColumn("num_completed", "int64", "of its own"),
    FrameColumn("reason", "str", "what `sweep.reason` said"),
    FrameColumn("command", "str", "the arguments"),
)


def lists(columns: Sequence[FrameColumn]) -> Callable[[_Method], _Method]:
    """Add a table of columns to the docstring of the method that returns them."""

    def add(method: _Method) -> _Method:
        rows = [f"| {one.name} | {one.dtype} | {one.meaning} |" for one in columns]
        table = "\n".join(["| column | dtype | |", "|---|---|---|", *rows])
        method.__doc__ = f"{inspect.cleandoc(method.__doc__ or '')}\n\n{table}"
        return method

    return add


def frame(columns: Sequence[FrameColumn], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows with these columns; what a row lacks is missing (NaN or NA)."""
    cells = {}
    for column in columns:
        values = [row.get(column.name) for row in rows]
        cells[column.name] = pd.Series(values, dtype=column.dtype)
    return pd.DataFrame(cells)


def empty(columns: Sequence[FrameColumn], why: str) -> pd.DataFrame:
    """Return a frame without rows, and warn why it has none."""
    nothing = frame(columns, [])
    nothing.attrs["why"] = why
    warnings.warn(why, NothingFoundWarning, stacklevel=4)
    return nothing


def trials_frame(results: Sequence[Result]) -> pd.DataFrame:
    rows = [_trial(result) for result in sorted(results, key=_order)]
    return frame((*TRIALS, *_free(results)), rows)


def scaling_frame(results: Sequence[Result]) -> pd.DataFrame:
    by_key = {(result.environment.key, result.trial_id): result for result in results}
    points = []
    for scaling in scalings(results):
        for curve in scaling.curves:
            stop = curve.stops_paying
            for point in curve.points:
                result = by_key[scaling.environment, point.trial_id]
                row = _trial(result) | _cells(SCALING, point)
                row[STOP.name] = stop.num_gpus if stop else None
                points.append((result, row))
    points.sort(key=lambda point: _order(point[0]))
    columns = (*SCALING_ROW, *_free([result for result, _ in points]))
    return frame(columns, [row for _, row in points])


def comparison_frame(a: ComparedSide, b: ComparedSide) -> pd.DataFrame:
    """Raises StoreError where no two trials can be compared, with the reason."""
    rows = comparison(a, b).rows
    axes = dict.fromkeys(axis for row in rows for axis in row.setting)
    columns = (*(FrameColumn(axis, "object") for axis in axes), *COMPARISON)
    records = [{**row.setting, **_cells(COMPARISON, row)} for row in rows]
    return frame(columns, records).infer_objects()


def choices_frame(answers: Sequence[Recommendation]) -> pd.DataFrame:
    """Return what each answer ranked, the best first."""
    rows = []
    for number, answer in enumerate(answers):
        ranking = answer.ranking
        if ranking is None:
            continue
        for candidate, behind, standing in ranking.standings:
            row = _trial(candidate.result)
            row["question"] = number
            row["standing"] = standing
            row["is_taken"] = candidate.result is ranking.pick.result
            row["score"] = candidate.score
            row["vs_best"] = 1 / behind.ratio if behind else 1.0
            row["vs_best_low"] = 1 / behind.high if behind and behind.high else None
            row["vs_best_high"] = 1 / behind.low if behind and behind.low else None
            rows.append(row)
    results = [result for answer in answers for result in answer.question.able]
    return frame((*CHOICES, *TRIALS, *_free(results)), rows)


def sweeps_frame(sweeps: Sequence[ListedSweep]) -> pd.DataFrame:
    return frame(SWEEPS, [_cells(SWEEPS, sweep) for sweep in sweeps])


def _cells(columns: Iterable[FrameColumn], source: object) -> dict[str, Any]:
    return {column.name: column.cell(source) for column in columns}


def _trial(result: Result) -> dict[str, Any]:
    return _cells(TRIALS, result) | result.free


def _free(results: Iterable[Result]) -> list[FrameColumn]:
    """Return the columns of axes that only some results have, as those of a user's program."""
    names = dict.fromkeys(name for result in results for name in result.free)
    return [FrameColumn(name, "object") for name in names]


def _order(result: Result) -> tuple[SortKey, ...]:
    """Sort by model, then batch and precision, then as strategies scale, then by all axes."""
    axes = result.axes
    first = ("model", "batch_size", "precision", "strategy", "hosts", "num_gpus")
    others = [name for name in (*AXES, *result.free) if name not in first]
    texts = [*(str(axes.get(name, "")) for name in (*first, *others)), result.environment.key]
    return tuple(natural(text) for text in texts)
