"""`scalemark judge`: whether a change makes a trial faster, or another metric better."""

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from scalemark.cli import entry_point, terminal
from scalemark.cli.entry_point import USAGE
from scalemark.records.overrides import ID_DIGITS
from scalemark.text import untrusted, wording
from store.command_line import OK, Db, Json
from store.errors import StoreError
from sweeper import SweepRefusedError
from sweeper.early_stopping import judge as judging
from sweeper.early_stopping import rule
from sweeper.early_stopping.metric import FALLS, THROUGHPUT, Metric, parse_kept
from sweeper.grid.plan_view import machine_line

NOT_BETTER = 1
USUAL_ATTEMPTS, OF_ITSELF, MOST_ATTEMPTS = 60, 20, 1000
_LONGEST = 5000  # characters of what a program printed last

MEANINGS = {
    rule.ChangeVerdict.BETTER: "{better}",
    rule.ChangeVerdict.WORSE: "{worse}",
    rule.ChangeVerdict.BROKEN: "{broken} is worse than --keep allows",
    rule.ChangeVerdict.NO_GAIN: "a gain of {margin:g} % is unlikely; it may be {slower}",
    rule.ChangeVerdict.UNDECIDED: "{why}",
    rule.ChangeVerdict.FAILED: "{why}",
    rule.ChangeVerdict.INTERRUPTED: (
        "its number in the series is spent; the same command begins anew"
    ),
    rule.ChangeVerdict.QUIET: "four of five gains of {margin:g} % are found here",
    rule.ChangeVerdict.NOISY: "fewer than four of five gains of {margin:g} % are found here",
}


_Changes = typer.Argument(
    metavar="CHANGE...",
    help="What differs, as for a sweep: batch_size=128 xla=on, or +axes.ref=my-branch.",
    show_default=False,
)
_Baseline = typer.Option(
    metavar="TRIAL",
    help="The trial to beat, always given: the beginning of its id in `scalemark list`.",
    show_default=False,
)
_Keep = typer.Option(
    metavar="NAME=PERCENT",
    help="No win unless this rises by less (loss=0.5%) or falls by less (acc=-1%).",
)
_Budget = typer.Option(
    min=1,
    max=MOST_ATTEMPTS,
    help="Most attempts, of both sides together; --dry-run says how many a win takes at least.",
    show_default=f"{USUAL_ATTEMPTS}, or {OF_ITSELF} with --aa",
)


def judge(
    db: Db,
    baseline: Annotated[str, _Baseline] = "",
    changes: Annotated[list[str] | None, _Changes] = None,
    metric: Annotated[
        str, typer.Option(help="Judge by a number that the program prints, as val_loss.")
    ] = THROUGHPUT,
    lower: Annotated[bool, typer.Option("--lower", help="Less of the metric is better.")] = False,
    keep: Annotated[list[str] | None, _Keep] = None,
    budget: Annotated[int | None, _Budget] = None,
    margin: Annotated[float, typer.Option(help="The gain that matters, in percent.")] = 2.0,
    aa: Annotated[
        bool, typer.Option("--aa", help="Run the baseline against itself: which gains are found?")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Markdown, for a pull request.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Judge whether a change makes a trial better: run both in turn until that is sure. Exit codes:
    0 better, 1 not better, 2 cannot be judged, 70 an error of scalemark, 130 interrupted.
    """
    if not baseline:
        raise StoreError("wanted --baseline TRIAL, the trial to beat; scalemark list shows all")
    if not 0 < margin < 100:
        raise typer.BadParameter(f"--margin {margin:g}: wanted percent, more than 0 and below 100")
    if lower and metric == THROUGHPUT:
        raise typer.BadParameter("--lower: more throughput is better; name a number by --metric")
    if not lower and FALLS.search(metric):
        raise typer.BadParameter(f"--metric {metric}: less of it is better; add --lower")
    if markdown and as_json:
        raise typer.BadParameter("--markdown and --json: choose one")
    asked = judging.Asked(
        db=db,
        baseline=baseline,
        changes=tuple(changes or ()),
        budget=budget or (OF_ITSELF if aa else USUAL_ATTEMPTS),
        margin=margin / 100,
        metric=Metric(name=metric, lower=lower),
        kept=_kept(keep or ()),
        aa=aa,
    )
    _judge(asked, dry_run=dry_run, as_json=as_json, markdown=markdown)


def _kept(given: Sequence[str]) -> tuple[rule.KeptMetric, ...]:
    try:
        kept = {each.name: each for each in map(parse_kept, given)}
    except SweepRefusedError as error:
        raise typer.BadParameter(str(error)) from error
    if len(kept) < len(given):
        raise typer.BadParameter("--keep: one limit for each metric")
    return tuple(kept.values())


def _judge(asked: judging.Asked, *, dry_run: bool, as_json: bool, markdown: bool) -> None:
    """Print the plan, run it, print the answer, and end with its exit code."""
    try:
        planned = judging.plan(asked)
        plan = judging.JudgeAnswer(planned=planned)
        if dry_run:
            return _print(plan, as_json=as_json, markdown=markdown)
        for line in answer_lines(plan):
            print(f"judge: {untrusted.quoted_lines(line, _LONGEST)}", file=sys.stderr)
        answer = judging.judge(planned, ["scalemark", *sys.argv[1:]])
    except SweepRefusedError as error:
        raise StoreError(str(error)) from error
    with terminal.reader_may_leave():
        _print(answer, as_json=as_json, markdown=markdown)
    assert answer.proposal is not None
    verdict = answer.proposal.verdict
    if verdict is rule.ChangeVerdict.INTERRUPTED:
        raise typer.Exit(entry_point.INTERRUPTED)
    if answer.proposal.baseline_failed:
        raise typer.Exit(USAGE)
    is_good = verdict in (rule.ChangeVerdict.BETTER, rule.ChangeVerdict.QUIET)
    raise typer.Exit(OK if is_good else NOT_BETTER)


def _print(answer: judging.JudgeAnswer, *, as_json: bool, markdown: bool) -> None:
    if as_json:
        return terminal.print_json(answer)
    lines = "\n".join(answer_lines(answer)).splitlines()
    if markdown:
        change = f"change: {wording.joined(answer.planned.asked.masked_changes)}"
        machine = machine_line(answer.planned.sweep.machine, answer.planned.sweep.inventory)
        first, *others = map(untrusted.for_markdown, [*lines, change, machine])
        lines = [f"**{first}**", "", *(f"- {line}" for line in others)]
    print(untrusted.quoted_lines("\n".join(lines), _LONGEST))


def answer_lines(answer: judging.JudgeAnswer) -> Iterator[str]:
    """Describe the plan, or the result where there is one."""
    planned, proposal = answer.planned, answer.proposal
    if proposal is None:
        yield from _plan_lines(planned)
    else:
        yield f"{str(proposal.verdict).replace('_', ' ')}: {_meaning(planned.asked, proposal)}"
        yield from answer.failures
    if planned.other_work:
        yield (
            f"other work: the two differ in {', '.join(planned.other_work)}, so that a gain of "
            f"{planned.asked.metric.name} may be of easier items and not of a better way"
        )
    if answer.parity:
        yield answer.parity
    if proposal is not None:
        yield from _result_lines(answer, proposal)
    if planned.asked.aa:
        return
    wins = wording.counted(planned.place.num_wins, "win")
    yield (
        f"proposal {planned.place.number} of this database, after {wins}; of all wins of this "
        f"database at most {100 * planned.place.allowed:g} % are false on average"
    )


def _meaning(asked: judging.Asked, proposal: judging.Proposal) -> str:
    """Say what the verdict means for the metric."""
    better, worse, slower = "it is faster", "it is slower", "slower"
    metric = asked.metric.name
    if metric != THROUGHPUT:
        better, worse, slower = f"{metric} is better", f"{metric} is worse", "worse"
    kept = ", ".join(each.name for each in proposal.kept)
    if kept:
        better += f", and {kept} is kept"
    broken = ", ".join(each.name for each in proposal.kept if each.is_kept is False)
    assert proposal.verdict is not None
    return MEANINGS[proposal.verdict].format(
        margin=100 * asked.margin,
        why=proposal.why,
        better=better,
        worse=worse,
        slower=slower,
        broken=broken,
    )


def _plan_lines(planned: judging.PlannedProposal) -> Iterator[str]:
    asked = planned.asked
    yield f"baseline  {planned.ids[rule.JudgedSide.BASELINE][:ID_DIGITS]}"
    if asked.metric.name != THROUGHPUT:
        yield f"metric    {asked.metric.name}, {'less' if asked.metric.lower else 'more'} is better"
    for each in asked.kept:
        yield f"keep      {_kept_text(each)}"
    if asked.aa:
        yield f"{wording.counted(asked.budget, 'attempt')} of it, against itself"
        return
    changes = wording.joined(asked.masked_changes)
    yield f"change    {planned.ids[rule.JudgedSide.CHANGE][:ID_DIGITS]}: {changes}"
    yield (
        f"at most {wording.counted(asked.budget, 'attempt')}; a win of this proposal takes "
        f"{planned.least_attempts} or more"
    )
    order = ", which drift: both sides take turns from the beginning"
    if planned.runs.num_alone > 1:
        order = ": the change runs alone first, and may be given up beside them"
    elif len(planned.earlier) < rule.LEAST_EARLIER:
        order = f", fewer than {rule.LEAST_EARLIER}: both sides take turns from the beginning"
    runs = wording.counted(len(planned.earlier), "run")
    yield f"{runs} of the baseline with this software in the last two hours{order}"


def _result_lines(answer: judging.JudgeAnswer, proposal: judging.Proposal) -> Iterator[str]:
    asked, percents = answer.planned.asked, answer.gain_percents
    num_baseline = len(proposal.values(rule.JudgedSide.BASELINE))
    if percents[0] is not None:
        if asked.metric.lower:  # it falls by what it gains
            gain, low, high = (None if each is None else -each for each in percents)
            percents = [gain, high, low]
        beside = "" if num_baseline else ", beside earlier runs of the baseline"
        yield f"{asked.metric.name} {_interval_text(*percents)}{beside}"
    for each in proposal.kept:
        if each.pairs:
            yield _kept_text(each)
    spread = answer.spread_percent
    if spread is not None and asked.aa:
        least = rule.FINDABLE * spread
        yield f"runs spread by {spread:.2g} %: ask for a gain of {least:.2g} % or more"
    yield (
        f"{wording.counted(proposal.num_attempts, 'attempt')} of {asked.budget}: "
        f"{len(proposal.values(rule.JudgedSide.CHANGE))} of the change and {num_baseline} of "
        f"the baseline completed, in sweep {answer.planned.sweep.name}"
    )


def _kept_text(kept: rule.KeptMetric) -> str:
    """Return `loss +0.1 % [-0.3, +0.4], may rise by less than 0.5 %: kept`."""
    limit = f"may {'rise' if kept.limit > 0 else 'fall'} by less than {100 * abs(kept.limit):g} %"
    moved = kept.moved
    if moved is None:
        return f"{kept.name} {limit}"
    shares = (moved.value, moved.low, moved.high)
    moved_text = _interval_text(*(None if share is None else 100 * share for share in shares))
    answer = {True: "kept", False: "broken", None: "not known"}[kept.is_kept]
    return f"{kept.name} {moved_text}, {limit}: {answer}"


def _interval_text(percent: float | None, low: float | None, high: float | None) -> str:
    interval = ""
    if low is not None and high is not None:
        interval = f" [{low:+.1f}, {high:+.1f}]"
    return f"{percent:+.1f} %{interval}"
