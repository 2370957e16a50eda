"""The command that measures on one's own machine what others published: what of it can be said in
words of `sweep.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.advice.questions import Question
from analysis.results import Result
from scalemark.abilities.folder import names
from scalemark.host.own_code import typed
from scalemark.models import trainable
from scalemark.records.strategies import STRATEGY_COLUMNS

_DATA = ("synthetic",)  # which pictures the real ones of others are, and where, is for each to say


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureIt:
    """How to run what was published."""

    command: str
    is_the_same: bool  # whether the command says all that the source does


def measure_it(question: Question, pick: Result) -> MeasureIt | None:
    """On all numbers of GPUs of the question. None where `sweep.py` lacks the model."""
    model = question.model.rstrip("?")
    if model not in trainable():
        return None
    precision, _, compiler = str(pick.axes["precision"]).partition("+")
    batch_size, data = pick.axes["batch_size"], str(pick.axes["data"])
    told = {
        "strategy": pick.strategy if pick.strategy in STRATEGY_COLUMNS.values() else "",
        "batch_size": str(batch_size or ""),
        "precision": precision if precision in names("trainer/precisions") else "",
        "data": data if data in _DATA else "",
    }
    xla = ["xla=on"] if compiler == "XLA" else []
    counts = ",".join(str(num) for num in sorted({one.num_gpus for one in question.able}))
    said = [
        f"model={model}",
        *(f"{axis}={value}" for axis, value in told.items() if value),
        *xla,
        f"num_gpus={counts}",
    ]
    return MeasureIt(
        command=" ".join([typed("sweep"), "-m", *said]),
        is_the_same=model == question.model and all(told.values()),
    )
