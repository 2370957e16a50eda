"""Advice as `analysis advise` prints it, with its choices as a frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import pandas as pd
from rich.console import Console

from analysis.advice.answer import Answer
from analysis.advice.one_screen import screen
from analysis.advice.ranking import Behind, Candidate, Ranking
from analysis.newest import Newest
from analysis.results import Result
from analysis.text.one_screen import show
from frames import trials
from frames.empty import frame
from scalemark.cli.terminal import PIPE_WIDTH
from store.reading.not_run import NotRun

_COLUMNS = {
    "question": "int64",
    "standing": "str",
    "is_taken": "bool",
    "score": "float64",
    "vs_best": "float64",
    "vs_best_low": "float64",
    "vs_best_high": "float64",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to take, how sure that is, and what to run next. Printed, it is the screen of
    `analysis advise`.
    """

    headline: str  # the answer, in a sentence for each question
    next_step: str  # commands of trials that could change it, a line each; empty without one
    choices: pd.DataFrame  # see `Results.advise`
    text: str = field(repr=False)  # what the command prints

    def __repr__(self) -> str:
        return self.text


def dtypes(results: Sequence[Result] = ()) -> dict[str, str]:
    return _COLUMNS | trials.dtypes(results)


def advice_of(
    found: Sequence[Answer], newest: Newest | None, notes: Sequence[str], left: NotRun | None
) -> Advice:
    shown = screen(found, left)
    paper = Console(
        file=StringIO(),
        width=PIPE_WIDTH,
        highlight=False,
        force_terminal=False,
        force_jupyter=False,
    )
    show(paper, shown, newest, notes, brief=False)
    assert isinstance(paper.file, StringIO)
    results = [result for one in found for result in one.question.able]
    rows = [row for number, one in enumerate(found) for row in _rows(number, one)]
    return Advice(
        headline=" ".join(shown.headlines),
        next_step="\n".join(shown.next_step.commands) if shown.next_step else "",
        choices=frame(rows, dtypes(results)),
        text=paper.file.getvalue().rstrip(),
    )


def _rows(number: int, one: Answer) -> Iterator[Mapping[str, Any]]:
    """Yield the best first."""
    ranking = one.ranking
    if ranking is None:
        return
    yield _record(number, ranking, ranking.top, None, "best")
    for standing, of in (
        ("tie", ranking.tied),
        ("unclear", ranking.unclear),
        ("raced out", ranking.out),
        ("worse", ranking.worse),
    ):
        for behind in of:
            yield _record(number, ranking, behind.candidate, behind, standing)


def _record(
    number: int, ranking: Ranking, candidate: Candidate, behind: Behind | None, standing: str
) -> dict[str, Any]:
    return trials.record(candidate.result) | {
        "question": number,
        "standing": standing,
        "is_taken": candidate.result is ranking.pick.result,
        "score": candidate.score,
        "vs_best": 1 / behind.ratio if behind else 1.0,
        "vs_best_low": 1 / behind.high if behind and behind.high else None,
        "vs_best_high": 1 / behind.low if behind and behind.low else None,
    }
