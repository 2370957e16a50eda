"""The answer to one question: what to take, what speaks against it, and the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis import again
from analysis.advise.next_trials import (
    REPEATS,
    Machines,
    NextTrial,
    cost_text,
    next_trials,
)
from analysis.advise.questions import Goal, Objective, Question, described, names, questions, ways
from analysis.advise.ranking import Ranking, rank
from analysis.again import is_worth_again
from analysis.judgement import contradiction
from analysis.results import Result
from analysis.screen import NextStep
from analysis.selection import Selection, Source
from analysis.titles import ITEMS_OF_STEPS
from scalemark.cli.terminal import UNPRINTED
from scalemark.records.machine import DeviceKind
from scalemark.records.overrides import ID_DIGITS
from scalemark.records.references import Origin
from scalemark.text.wording import counted, listed, shortened
from simulator.costs.box import Hardware
from store.errors import StoreError
from store.reading.sweeps import NotRun

_MOST_NAMED = 3
_ENOUGH = 2 * REPEATS  # repeats that contradict each other: more of them would, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The advice for one question and one objective."""

    question: Question
    objective: Objective
    refusal: str = ""  # why its goal cannot be judged here; empty where it can
    # how sure it is that the pick is the best; unknown of published figures
    certainty: str | None = None
    ranking: Ranking | None = None  # None: there is nothing to judge
    command: str = ""  # the pick's command line, ready to paste, where it is of a program
    doubts: tuple[str, ...] = ()
    next_trials: tuple[NextTrial, ...] = ()
    # trial -> why its number is suspect
    reasons: Mapping[str, tuple[str, ...]] = field(default_factory=dict, metadata=UNPRINTED)
    # the command that says what holds the pick back, or without a number what the first attempt
    # said; empty without one
    explain: str = field(default="", metadata=UNPRINTED)

    @property
    def pick(self) -> Result | None:
        """The choice that is advised."""
        return self.ranking.pick.result if self.ranking else None


def recommend(
    source: Source, objective: Objective, *, wanted: Callable[[Result], bool] | None = None
) -> list[Recommendation]:
    """Answer for each environment and work, never across.

    `wanted` tells which results an answer must be about, one at least; all without it.

    Raises StoreError where nothing was found, or the goal's inputs are missing everywhere.
    """
    machines = Machines(source=source)
    asked = questions(source.results)
    if wanted is not None:
        # all that was asked for may train replicas apart
        asked = [question for question in asked if any(map(wanted, question.choices))] or asked
    answers = [_answer(question, objective, machines) for question in asked]
    if all(answer.refusal for answer in answers):
        reasons = dict.fromkeys(answer.refusal for answer in answers)
        raise StoreError(f"--goal {objective.goal}: {'; '.join(reasons)}")
    return answers


def _answer(question: Question, objective: Objective, machines: Machines) -> Recommendation:
    source, profile = machines.source, question.environment.hardware_profile
    if objective.goal is Goal.COST and objective.usd_per_gpu_hour is None and profile:
        price = Hardware.from_json(profile).usd_per_gpu_hour
        objective = replace(objective, usd_per_gpu_hour=price)
    show = source.selection.show_command
    refusal = _refusal(question, objective)
    if refusal:
        doubts = tuple(_without_number(question, show))
        return Recommendation(
            question=question, objective=objective, refusal=refusal, doubts=doubts
        )
    ranking = rank(question.able, objective)
    reasons = _reasons(question, source)
    answer = Recommendation(
        question=question,
        objective=objective,
        ranking=ranking,
        doubts=(*_doubts(ranking, reasons, show), *_without_number(question, show)),
        next_trials=tuple(next_trials(question, ranking, objective, machines)),
        reasons=reasons,
    )
    if ranking is None:
        failed = [attempt for result in question.choices for attempt in result.attempt_ids]
        return replace(answer, explain=f"{show} {min(failed)}" if failed else "")
    pick = ranking.pick.result
    is_judged = len(ranking.judged) > 1 and not question.is_published
    return replace(
        answer,
        certainty=ranking.certainty if is_judged else None,
        command=again.filled(pick),
        explain=_explain(source.selection, question, pick),
    )


def _explain(selection: Selection, question: Question, pick: Result) -> str:
    if question.is_of_program or selection.origin is Origin.ELSEWHERE:
        return ""  # what ran is not known, or nothing takes its steps apart
    is_told = selection.origin is not Origin.MEASURED
    trial = pick.trial_id[:ID_DIGITS]
    return selection.analysis("explain", "--trial", trial, names_origin=is_told)


def _refusal(question: Question, objective: Objective) -> str:
    """Return why the goal cannot be judged here; empty where it can."""
    if objective.goal is Goal.THROUGHPUT:
        return ""
    if any(result.counts_steps for result in question.able):
        return (
            "these trials count steps, and the work of a step is not known; add e.g. "
            f"{ITEMS_OF_STEPS} to the command line, and run it again"
        )
    if question.environment.device_kind is DeviceKind.CPU_DEVICE:
        return (
            "CPU devices share one machine, and are not paid for one by one; try --goal throughput"
        )
    if objective.goal is Goal.COST and objective.usd_per_gpu_hour is None:
        return "needs the price, as --usd-per-gpu-hour 2.5; without one try --goal per_gpu_hour"
    return ""


def _reasons(question: Question, source: Source) -> dict[str, tuple[str, ...]]:
    """Return why numbers are suspect, by trial."""
    reasons = {}
    for result in question.able:
        of_result: dict[str, None] = {}
        for attempt in result.attempt_ids if not result.is_valid else ():
            of_result |= dict.fromkeys(source.attempts[attempt]["verdict_reasons"] or ())
        if of_result:
            reasons[result.trial_id] = tuple(of_result)
    return reasons


def _doubts(
    ranking: Ranking | None, reasons: Mapping[str, Sequence[str]], show: str
) -> Iterator[str]:
    """Yield a sentence for each doubt about the pick, and about what might be as good."""
    if ranking is None:
        return
    contenders = [ranking.pick.result, ranking.top.result]
    for behind in (*ranking.tied, *ranking.unclear, *ranking.out):
        contenders.append(behind.candidate.result)
    distinct = {result.trial_id: result for result in contenders}
    for result in distinct.values():
        see = f"; see {show} {result.attempt_ids[-1]}" if result.attempt_ids else ""
        groups = contradiction(result.repeats)
        if result.is_suspect:
            why = reasons.get(result.trial_id, ("its verdict says so",))[0]
            yield f"The number of {described(result)} is suspect: {why}{see}."
        elif not result.is_valid:
            yield f"The source of {described(result)} doubts the number."
        if groups:
            name = described(result)
            yield f"Repeats of {name} contradict each other ({groups.words(result.unit)}){see}."


def _without_number(question: Question, show: str) -> Iterator[str]:
    """Yield what was tried, and cannot be judged."""
    without = [result for result in question.choices if result.throughput is None]
    if without:
        ended = ways([result.outcome for result in without])
        attempts = without[-1].attempt_ids
        see = f"; see {show} {attempts[-1]}" if attempts else ""
        choices = counted(len(question.choices), "choice")
        yield f"{len(without)} of {choices} brought no number, and cannot be judged ({ended}){see}."
    if question.apart:
        yield (
            f"Left out: {len(question.apart)} with variable_update independent, "
            "whose replicas train a model each and not one together."
        )


def next_step(answers: Sequence[Recommendation], left: NotRun | None = None) -> NextStep | None:
    """Return what is `left` of the sweep, else the trials that most cheaply could change an answer,
    else what explains the first.
    """
    if left is not None and not left.is_running:
        which = f"the {left.num_trials} of {counted(left.num_asked_for, 'trial')}"
        if left.num_trials == left.num_asked_for:
            which = f"all {counted(left.num_asked_for, 'trial')}"
        why = f"run {which} that sweep {left.sweep} has left"
        return NextStep(why=why, commands=(left.command,))
    prefixes = [""] * len(answers)
    if len(answers) > 1:
        prefixes = [f"{name}: " for name in names([answer.question for answer in answers])]
    named = list(zip(prefixes, answers, strict=True))
    if all(answer.ranking is None for answer in answers):
        return _of_failures(named)
    for prefix, answer in named:
        # nothing else is worth a trial before
        if answer.pick is not None and is_worth_again(answer.pick, answer.question.able):
            why = f"measure {prefix}{described(answer.pick)} again, it is one suspect run"
            return NextStep(why=why, commands=(again.again(answer.pick, REPEATS),))
    # the first of each is its cheapest
    trials = [(prefix, answer) for prefix, answer in named if answer.next_trials]
    if trials:
        prefix, answer = min(trials, key=lambda entry: entry[1].next_trials[0].sort_key)
        trial = answer.next_trials[0]
        cost = cost_text(answer.question, trial)
        return NextStep(why=f"{prefix}{trial.why}", commands=trial.commands, cost=cost)
    for prefix, answer in named:
        step = _without_trials(answer)
        if step is not None:
            return replace(step, why=f"{prefix}{step.why}")
    return None


def _of_failures(named: Sequence[tuple[str, Recommendation]]) -> NextStep | None:
    """Return what shows the first failure, and what may mend it."""
    shows = next((answer.explain for _, answer in named if answer.explain), "")
    if not shows:
        return None
    for prefix, answer in named:
        for trial in answer.next_trials:
            why = f"see what the first said; {prefix}{trial.why}"
            return NextStep(why=why, commands=(shows, *trial.commands))
    return NextStep(why="see what the first said", commands=(shows,))


def _without_trials(answer: Recommendation) -> NextStep | None:
    """Return what to do where no trial is worth running."""
    ranking, question = answer.ranking, answer.question
    if ranking is None:
        return None
    if ranking.unclear:
        return _unclear(question, ranking)
    if answer.explain:
        return NextStep(why="where its time goes", commands=(answer.explain,))
    result = ranking.pick.result
    if not question.is_of_others:
        return None
    if len(result.repeats) == 1:
        why = f"measure {described(result)} again, {REPEATS} times; there is one run of it"
        return NextStep(why=why)
    if result.num_gpus < max(other.num_gpus for other in question.able):
        return None
    more = result.environment.counted(2 * result.num_gpus, result.hosts)
    return NextStep(why=f"measure {result.strategy} on {more} as well, to see whether more pay")


def _unclear(question: Question, ranking: Ranking) -> NextStep:
    """Say what would tell choices apart where no sweep of ours is worth it, or can be made."""
    rivals = [ranking.top, *(behind.candidate for behind in ranking.unclear)]
    others = [described(rival.result, against=ranking.top.result) for rival in rivals[1:]]
    shown = listed([described(ranking.top.result), *shortened(others, _MOST_NAMED)])
    if not question.environment.origin.is_ours:
        least = min(len(rival.scores) for rival in rivals)
        num = REPEATS if least < REPEATS else 2 * least
        why = f"measure {shown} again, with the program that measured them, {num} times each"
        return NextStep(why=why)
    camps = [rival for rival in rivals if contradiction(rival.scores)]
    if camps and len(camps[0].scores) < _ENOUGH:
        result = camps[0].result
        why = (
            f"measure {described(result)} again while nothing else runs, for its repeats "
            "contradict each other"
        )
        command = again.again(result, max(REPEATS, len(result.repeats)))
        return NextStep(why=why, commands=(command,))
    return NextStep(why=f"take any of them, {shown}; more repeats would hardly tell them apart")
