"""The answer to one question: what to take, what it changes, and the next step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from analysis import again
from analysis.advise.description import described
from analysis.advise.evidence import Machines, doubts
from analysis.advise.next_trials import REPEATS, NextTrial, cost_text, measure_it, next_trials
from analysis.advise.questions import Goal, Objective, Question, names, questions
from analysis.advise.ranking import Candidate, Ranking, rank
from analysis.again import is_settled, is_worth_again
from analysis.options import NextStep
from analysis.results import Result
from analysis.selection import Selection, Source
from analysis.statistics.contradictions import contradiction
from analysis.statistics.planning import MOST_WORTH_IT
from analysis.statistics.sample import Sample
from analysis.titles import ITEMS_OF_STEPS
from scalemark.cli.terminal import UNPRINTED
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.text.wording import counted, listed, shortened
from simulator.costs.box import Hardware
from store.errors import StoreError
from store.reading.sweeps import NotRun

_DIGITS = 8  # of a trial's id, to name it
_MOST_NAMED = 3
_ENOUGH = 2 * REPEATS  # repeats that contradict each other: more of them would, too
_AXES = {
    "staged_vars": "staged_vars uses the weights of the step before: another algorithm than SGD",
    "compact_gradients": "compact_gradients sends gradients as half precision",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A property of the pick that may be unwanted."""

    caveat: str  # what it does, and why one might not want it
    without: str  # as `in fp32`
    candidate: Candidate | None  # the best that does not; None where none was tried
    ratio: float | None  # its score, times that of the pick


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """The advice for one question and one objective."""

    question: Question
    objective: Objective
    refusal: str = ""  # why its goal cannot be judged here; empty where it can
    # how sure it is that the pick is the best; unknown of published figures
    certainty: str | None = None
    ranking: Ranking | None = None  # None: there is nothing to judge
    alternatives: tuple[Alternative, ...] = ()
    doubts: tuple[str, ...] = ()
    next_trials: tuple[NextTrial, ...] = ()
    # the command that says what holds the pick back, or without a number what the first attempt
    # said; empty without one
    explain: str = field(default="", metadata=UNPRINTED)
    # the command that measures published figures on one's own machine
    measure_it: str = field(default="", metadata=UNPRINTED)


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
    refusal = _refusal(question, objective)
    if refusal:
        return Recommendation(
            question=question,
            objective=objective,
            refusal=refusal,
            doubts=tuple(doubts(question, None, source)),
        )
    ranking = rank(question.able, objective)
    answer = Recommendation(
        question=question,
        objective=objective,
        ranking=ranking,
        doubts=tuple(doubts(question, ranking, source)),
        next_trials=tuple(next_trials(question, ranking, objective, machines)),
    )
    if ranking is None:
        failed = [attempt for result in question.choices for attempt in result.attempt_ids]
        show_first = f"{source.selection.show_command} {min(failed)}" if failed else ""
        return replace(answer, explain=show_first)
    is_judged = len(ranking.judged) > 1 and not question.is_published
    return replace(
        answer,
        certainty=ranking.certainty if is_judged else None,
        measure_it=measure_it(question, ranking.pick.result) if question.is_published else "",
        alternatives=tuple(alternatives(ranking.pick, ranking.judged)),
        explain=_explain(source.selection, question, ranking.pick),
    )


def _explain(selection: Selection, question: Question, pick: Candidate) -> str:
    if question.is_of_program or selection.origin is Origin.ELSEWHERE:
        return ""  # what ran is not known, or nothing takes its steps apart
    trial = pick.result.trial_id[:_DIGITS]
    is_told = selection.origin is not Origin.MEASURED
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


def alternatives(pick: Candidate, candidates: Sequence[Candidate]) -> Iterator[Alternative]:
    """Yield the best choices that change the training less than the pick does."""
    best_first = sorted(candidates, key=lambda candidate: candidate.score, reverse=True)
    for axis, caveat in _AXES.items():
        if pick.result.axes.get(axis):
            others = [other for other in best_first if not other.result.axes.get(axis)]
            yield _alternative(caveat, f"without {axis}", pick, others)
    precision = _precision(pick)
    if precision not in ("fp32", ""):
        others = [other for other in best_first if _precision(other) == "fp32"]
        caveat = f"{precision} changes the numerics of the training"
        yield _alternative(caveat, "in fp32", pick, others)
    smaller = [other for other in best_first if _trains_on_smaller(other, pick)]
    if not smaller:
        return
    size, unit = _per_device, "batch_size {}"
    sizes = f" ({_per_device(pick)} per device, {_in_all(pick)} in all)"
    if pick.result.is_of_program:
        sizes = ""  # how its batch divides among devices is its own
    if _is_strong(pick):
        size, unit = _in_all, "{} in all"
    least = min(size(other) for other in smaller)
    caveat = f"a larger batch changes the training{sizes}: this is about throughput only"
    others = [other for other in smaller if size(other) == least]
    yield _alternative(caveat, f"with {unit.format(least)}", pick, others)


def _alternative(
    caveat: str, without: str, pick: Candidate, others: Sequence[Candidate]
) -> Alternative:
    if not others:
        return Alternative(caveat=caveat, without=without, candidate=None, ratio=None)
    ratio = others[0].score / pick.score
    return Alternative(caveat=caveat, without=without, candidate=others[0], ratio=ratio)


def _precision(candidate: Candidate) -> str:
    return str(candidate.result.axes["precision"] or "").rstrip("?").partition("+")[0]


def _trains_on_smaller(other: Candidate, pick: Candidate) -> bool:
    """Return whether its batch of all devices is smaller.

    Under weak scaling fewer devices with the same batch each do not count.
    """
    if not _per_device(other) or _in_all(other) >= _in_all(pick):
        return False
    return _per_device(other) < _per_device(pick) or (_is_strong(other) and _is_strong(pick))


def _is_strong(candidate: Candidate) -> bool:
    return bool(candidate.result.axes.get("scaling") == "strong")


def _per_device(candidate: Candidate) -> int:
    """Return the batch of a device; 0 where a source does not report it."""
    return int(candidate.result.axes["batch_size"] or 0)


def _in_all(candidate: Candidate) -> int:
    return _per_device(candidate) * candidate.result.num_gpus


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
        result = answer.ranking.pick.result if answer.ranking else None
        if result is not None and is_worth_again(result, answer.question.able):
            why = f"measure {prefix}{described(result)} again, it is one suspect run"
            return NextStep(why=why, commands=(again.again(result, REPEATS),))
    cheapest: tuple[float, str, Recommendation, NextTrial] | None = None
    for prefix, answer in named:
        for trial in answer.next_trials[:1]:  # the cheapest of its own
            seconds = math.inf if trial.gpu_seconds is None else trial.gpu_seconds
            if cheapest is None or seconds < cheapest[0]:
                cheapest = seconds, prefix, answer, trial
    if cheapest is not None:
        _, prefix, answer, trial = cheapest
        why = f"{prefix}{trial.why}{_stays_suspect(answer)}"
        cost = cost_text(answer.question, trial)
        return NextStep(why=why, commands=trial.commands, cost=cost)
    for prefix, answer in named:
        step = _without_trials(answer)
        if step is not None:
            return replace(step, why=f"{prefix}{step.why}")
    return None


def _stays_suspect(answer: Recommendation) -> str:
    """Say that measuring again, which was advised first, did not mend what is taken."""
    result = answer.ranking.pick.result if answer.ranking else None
    if result is None or not is_settled(result):
        return ""
    runs = counted(len(result.repeats), "run")
    return f"; {result.strategy} on {result.counted} stays suspect after {runs}"


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
    if answer.measure_it:
        return NextStep(why="measure it on your own machine", commands=(answer.measure_it,))
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
    camps = [rival for rival in rivals if contradiction(Sample.of(rival.scores))]
    if camps and len(camps[0].scores) < _ENOUGH:
        result = camps[0].result
        why = (
            f"measure {described(result)} again while nothing else runs, for its repeats "
            "contradict each other"
        )
        command = again.again(result, max(REPEATS, len(result.repeats)))
        return NextStep(why=why, commands=(command,))
    few = f"{MOST_WORTH_IT} more" if not camps else "more"
    why = f"take any of them, {shown}; {few} repeats would not tell them apart"
    return NextStep(why=why)
