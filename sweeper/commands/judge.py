"""`scalemark judge`: whether a change makes a trial faster."""

from __future__ import annotations

import math
import sys
from typing import Annotated

import typer

from scalemark.cli import entry_point
from scalemark.cli.terminal import print_json, reader_may_leave
from scalemark.text.untrusted import quoted_lines
from store.command_line import OK, USAGE, Db, Json
from store.errors import StoreError
from sweeper.early_stopping import judge as judging
from sweeper.early_stopping.answer import MOST_ATTEMPTS, JudgeAnswer, answer_lines
from sweeper.early_stopping.rule import ChangeVerdict
from sweeper.errors import SweepRefusedError

NOT_BETTER = 1
BUDGET = 60  # attempts
MARGIN_PERCENT = 2.0
FALSE_WINS_PERCENT = 5.0
_LONGEST = 5000  # characters of what a program printed last


Changes = Annotated[
    list[str],
    typer.Argument(
        metavar="CHANGE...",
        help="What differs, as for a sweep: batch_size=128 xla=on, or +axes.foo=2.",
        show_default=False,
    ),
]
Baseline = Annotated[
    str, typer.Option(metavar="TRIAL", help="The trial to beat: the beginning of its id.")
]
Attempts = Annotated[
    int, typer.Option(min=1, max=MOST_ATTEMPTS, help="Most attempts, of both sides together.")
]
Minutes = Annotated[
    float | None,
    typer.Option(metavar="MINUTES", help="Start no run that would end later than this."),
]
Margin = Annotated[float, typer.Option(help="The gain that matters, in percent of throughput.")]
FalseWins = Annotated[float, typer.Option(help="Percent of a series' wins that may be false.")]
Series = Annotated[
    str, typer.Option(help="Name of the series; else all proposals of the database are one.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Look at no earlier runs of the baseline.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")]


def judge(
    changes: Changes,
    db: Db,
    baseline: Baseline,
    budget: Attempts = BUDGET,
    budget_min: Minutes = None,
    margin: Margin = MARGIN_PERCENT,
    false_wins: FalseWins = FALSE_WINS_PERCENT,
    series: Series = "",
    fresh: Fresh = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Judge whether a change makes a trial faster: run both in turn until that is sure. Exit codes:
    0 better, 1 not better, 2 cannot be judged, 70 an error of scalemark, 130 interrupted.
    """
    _check_percent("--margin", margin)
    _check_percent("--false-wins", false_wins)
    if budget_min is not None and not 0 < budget_min < math.inf:
        raise typer.BadParameter(f"--budget-min {budget_min:g}: wanted minutes, more than 0")
    asked = judging.Asked(
        db=db,
        baseline=baseline,
        changes=tuple(changes),
        budget=budget,
        budget_s=None if budget_min is None else 60 * budget_min,
        margin=margin / 100,
        allowed=false_wins / 100,
        series=series,
        fresh=fresh,
    )
    try:
        proposal = judging.plan(asked)
        if dry_run:
            return _print(proposal.answer, as_json=as_json)
        for line in answer_lines(proposal.answer):
            print(f"judge: {quoted_lines(line, _LONGEST)}", file=sys.stderr)
        answer = judging.judge(proposal, ["scalemark", *sys.argv[1:]])
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error
    with reader_may_leave():
        _print(answer, as_json=as_json)
    raise typer.Exit(_exit_code(answer))


def _exit_code(answer: JudgeAnswer) -> int:
    if answer.verdict is ChangeVerdict.INTERRUPTED:
        return entry_point.INTERRUPTED
    if answer.error:
        return USAGE
    return OK if answer.verdict is ChangeVerdict.BETTER else NOT_BETTER


def _print(answer: JudgeAnswer, *, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        print(quoted_lines("\n".join(answer_lines(answer)), _LONGEST))


def _check_percent(option: str, value: float) -> None:
    if not 0 < value < 100:
        raise typer.BadParameter(f"{option} {value:g}: wanted percent, more than 0 and below 100")
