"""The command that measures on one's own machine what others published."""

from __future__ import annotations

from analysis.advice.questions import Question
from analysis.results import Result
from scalemark.abilities.folder import names
from scalemark.host.own_code import typed
from scalemark.models import trainable
from scalemark.records.strategies import STRATEGY_COLUMNS
from scalemark.records.trial import AXES


def measure_it(question: Question, pick: Result) -> str:
    """Return the command for all numbers of GPUs of the question; empty without such a model.

    Axes that the source does not report, or not in our words, are left to the sweep, as are those
    that it takes as they were.
    """
    model = question.model.rstrip("?")
    if model not in trainable():
        return ""
    precision, _, compiler = str(pick.axes["precision"]).partition("+")
    said = [f"model={model}"]
    if pick.strategy in STRATEGY_COLUMNS.values():
        said.append(f"strategy={pick.strategy}")
    if pick.axes["batch_size"]:
        said.append(f"batch_size={pick.axes['batch_size']}")
    if precision in names("trainer/precisions") and precision != AXES["precision"].given:
        said.append(f"precision={precision}")
    if pick.axes["data"] == "synthetic":  # where real pictures are is for each to say
        said.append("data=synthetic")
    if compiler == "XLA":
        said.append("xla=on")
    counts = sorted({one.num_gpus for one in question.able})
    said.append(f"num_gpus={','.join(map(str, counts))}")
    return " ".join([typed("sweep"), "-m", *said])
