"""`scalemark judge`: whether a change makes a trial faster."""

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from scalemark.cli import entry_point, terminal
from scalemark.records.overrides import ID_DIGITS
from scalemark.text import untrusted, wording
from store.command_line import OK, USAGE, Db, Json
from store.errors import StoreError
from sweeper import SweepRefusedError
from sweeper.early_stopping import judge as judging
from sweeper.early_stopping.judge import JudgeAnswer
from sweeper.early_stopping.rule import LEAST_EARLIER, ChangeVerdict, Runs

NOT_BETTER = 1
MOST_ATTEMPTS = 1000
_LONGEST = 5000  # characters of what a program printed last

MEANINGS = {
    ChangeVerdict.BETTER: "it is faster",
    ChangeVerdict.WORSE: "it is slower",
    ChangeVerdict.NO_GAIN: "a gain of {margin:g} % is unlikely; it may be slower",
    ChangeVerdict.UNDECIDED: "{why}",
    ChangeVerdict.FAILED: "{why}",
    ChangeVerdict.INTERRUPTED: "its number in the series is spent; the same command begins anew",
}


def judge(
    changes: Annotated[
        list[str],
        typer.Argument(
            metavar="CHANGE...",
            help="What differs, as for a sweep: batch_size=128 xla=on, or +axes.foo=2.",
            show_default=False,
        ),
    ],
    db: Db,
    baseline: Annotated[
        str, typer.Option(metavar="TRIAL", help="The trial to beat: the beginning of its id.")
    ],
    budget: Annotated[
        int, typer.Option(min=1, max=MOST_ATTEMPTS, help="Most attempts, of both sides together.")
    ] = 60,
    margin: Annotated[
        float, typer.Option(help="The gain that matters, in percent of throughput.")
    ] = 2.0,
    false_wins: Annotated[
        float, typer.Option(help="Percent of a series' wins that may be false.")
    ] = 5.0,
    series: Annotated[
        str, typer.Option(help="Name of the series; else all proposals of the database are one.")
    ] = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Look at no earlier runs of the baseline.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    as_json: Json = False,
) -> None:
    """Judge whether a change makes a trial faster: run both in turn until that is sure. Exit codes:
    0 better, 1 not better, 2 cannot be judged, 70 an error of scalemark, 130 interrupted.
    """
    for option, percent in (("--margin", margin), ("--false-wins", false_wins)):
        if not 0 < percent < 100:
            raise typer.BadParameter(
                f"{option} {percent:g}: wanted percent, more than 0 and below 100"
            )
    asked = judging.Asked(
        db=db,
        baseline=baseline,
        changes=tuple(changes),
        budget=budget,
        margin=margin / 100,
        allowed=false_wins / 100,
        series=series,
        fresh=fresh,
    )
    _judge(asked, dry_run=dry_run, as_json=as_json)


def _judge(asked: judging.Asked, *, dry_run: bool, as_json: bool) -> None:
    """Print the plan, run it, print the answer, and end with its exit code."""
    try:
        proposal = judging.plan(asked)
        if dry_run:
            return _print(proposal.answer, as_json=as_json)
        for line in answer_lines(proposal.answer):
            print(f"judge: {untrusted.quoted_lines(line, _LONGEST)}", file=sys.stderr)
        answer = judging.judge(proposal, ["scalemark", *sys.argv[1:]])
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error
    with terminal.reader_may_leave():
        _print(answer, as_json=as_json)
    if answer.verdict is ChangeVerdict.INTERRUPTED:
        raise typer.Exit(entry_point.INTERRUPTED)
    if answer.baseline_failed:
        raise typer.Exit(USAGE)
    raise typer.Exit(OK if answer.verdict is ChangeVerdict.BETTER else NOT_BETTER)


def _print(answer: JudgeAnswer, *, as_json: bool) -> None:
    if as_json:
        terminal.print_json(answer)
    else:
        print(untrusted.quoted_lines("\n".join(answer_lines(answer)), _LONGEST))


def answer_lines(answer: JudgeAnswer) -> Iterator[str]:
    """Describe the plan, or the result where there is one."""
    if answer.verdict is None:
        yield from _plan_lines(answer)
    else:
        meaning = MEANINGS[answer.verdict].format(margin=answer.margin_percent, why=answer.why)
        yield f"{answer.verdict.replace('_', ' ')}: {meaning}"
        yield from answer.failures
    if answer.other_work:
        yield (
            f"other work: the two differ in {', '.join(answer.other_work)}, so that a gain of "
            "throughput may be of easier items and not of a faster way"
        )
    if answer.parity:
        yield answer.parity
    if answer.verdict is not None:
        yield from _result_lines(answer)
    series = "this database"
    if answer.series:
        series = f"series {answer.series}"
    wins = wording.counted(answer.wins_before, "win")
    yield (
        f"proposal {answer.number} of {series}, after {wins}; of all wins of {series} at most "
        f"{answer.false_wins_percent:g} % are false on average"
    )


def _plan_lines(answer: JudgeAnswer) -> Iterator[str]:
    took = "of unknown duration"
    if answer.expected_s is not None:
        took = f"{wording.duration_text(answer.expected_s)} per attempt"
    yield f"baseline  {answer.baseline[:ID_DIGITS]}, {took}"
    yield f"change    {answer.change[:ID_DIGITS]}: {wording.joined(answer.changes)}"
    yield (
        f"at most {wording.counted(answer.budget, 'attempt')}; a win of this proposal takes "
        f"{answer.least_attempts} or more"
    )
    earlier = answer.earlier_throughputs
    order = ", which drift: both sides take turns from the beginning"
    if Runs(earlier=earlier).num_alone > 1:
        order = ": the change runs alone first, and may be given up beside them"
    elif len(earlier) < LEAST_EARLIER:
        order = f", fewer than {LEAST_EARLIER}: both sides take turns from the beginning"
    runs = wording.counted(len(earlier), "run")
    yield f"{runs} of the baseline with this software in the last two hours{order}"


def _result_lines(answer: JudgeAnswer) -> Iterator[str]:
    if answer.gain_percent is not None:
        interval = ""
        if answer.low_percent is not None and answer.high_percent is not None:
            interval = f" [{answer.low_percent:+.1f}, {answer.high_percent:+.1f}]"
        beside = ", beside earlier runs of the baseline"
        if answer.baseline_throughputs:
            beside = ""
        yield f"throughput {answer.gain_percent:+.1f} %{interval}{beside}"
    yield (
        f"{wording.counted(answer.attempts, 'attempt')} of {answer.budget}: "
        f"{len(answer.change_throughputs)} of the change and {len(answer.baseline_throughputs)} of "
        f"the baseline completed, in sweep {answer.sweep}"
    )
    if answer.budget_is_spent:
        yield "these runs leave it open: judge it again with a larger budget"
