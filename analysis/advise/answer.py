"""The answer to one question: what to take, what it changes, and the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from analysis import again
from analysis.advise.description import described
from analysis.advise.evidence import Facts, doubts
from analysis.advise.next_trials import REPEATS, Next, cost, cost_text, measure_it, next_trials
from analysis.advise.questions import Aim, Goal, Question, names, questions
from analysis.advise.ranking import Candidate, Ranking, rank
from analysis.results import Result
from analysis.selection import Selection
from analysis.source import Source
from analysis.statistics.contradictions import contradiction
from analysis.statistics.planning import MOST_WORTH_IT
from analysis.statistics.sample import Sample
from analysis.suspect_run import is_settled, is_worth_again
from analysis.text.one_screen import NextStep
from analysis.text.titles import ITEMS_OF_STEPS
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.text.wording import counted, listed, shortened
from store.errors import StoreError
from store.reading.sweeps import NotRun

_DIGITS = 8  # of a trial's id, to name it


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The advice for one question and one aim."""

    question: Question
    aim: Aim
    refusal: str = ""  # why its aim cannot be judged here; empty where it can
    ranking: Ranking | None = None  # None: there is nothing to judge
    alternatives: tuple[Alternative, ...] = ()
    doubts: tuple[str, ...] = ()
    # the command that says what holds the pick back, or without a number what the first attempt
    # said; empty without one
    explain: str = ""
    measure_it: str = ""  # the command that measures published figures on one's own machine
    next_trials: tuple[Next, ...] = ()

    @property
    def certainty(self) -> str | None:
        """Return how sure it is that the pick is the best; of published figures nobody knows."""
        if self.ranking is None or self.question.is_published or len(self.ranking.judged) < 2:
            return None
        return self.ranking.certainty


def answers(
    source: Source,
    aim: Aim,
    *,
    predicts: bool = False,
    wanted: Callable[[Result], bool] | None = None,
) -> list[Answer]:
    """Answer for each environment and work, never across; `predicts` as in `next_trials`.

    `wanted` tells which results an answer must be about, one at least; all without it.

    Raises StoreError where nothing was found, or the goal's inputs are missing everywhere.
    """
    facts = Facts(source=source)
    asked = questions(source.results)
    if wanted is not None:
        # all that was asked for may train replicas apart
        asked = [one for one in asked if any(map(wanted, one.choices))] or asked
    found = [_answer(one, aim, facts, predicts) for one in asked]
    if all(one.refusal for one in found):
        reasons = dict.fromkeys(one.refusal for one in found)
        raise StoreError(f"--goal {aim.goal}: {'; '.join(reasons)}")
    return found


def _answer(question: Question, aim: Aim, facts: Facts, predicts: bool) -> Answer:
    aim = _priced(question, aim, facts)
    if refusal := _refusal(question, aim):
        refused_doubts = tuple(doubts(question, None, facts))
        return Answer(question=question, aim=aim, refusal=refusal, doubts=refused_doubts)
    ranking = rank(question.able, aim)
    answer = Answer(
        question=question,
        aim=aim,
        ranking=ranking,
        doubts=tuple(doubts(question, ranking, facts)),
        next_trials=tuple(next_trials(question, ranking, aim, facts, predicts=predicts)),
    )
    if ranking is None:
        return replace(answer, explain=_show_first(question, facts.source.selection))
    pick = ranking.pick
    return replace(
        answer,
        measure_it=measure_it(question, pick.result) if question.is_published else "",
        alternatives=tuple(alternatives(pick, ranking.judged)),
        # nothing takes the steps of a foreign program apart
        explain="" if question.is_of_program else _explain(facts.source.selection, pick),
    )


def _explain(selection: Selection, pick: Candidate) -> str:
    if selection.origin is Origin.ELSEWHERE:
        return ""  # what ran is not known
    trial = pick.result.trial_id[:_DIGITS]
    is_told = selection.origin is not Origin.MEASURED
    return selection.analysis("explain", "--trial", trial, names_origin=is_told)


def _show_first(question: Question, selection: Selection) -> str:
    failed = [attempt for one in question.choices for attempt in one.attempt_ids]
    return f"{selection.show_command} {min(failed)}" if failed else ""


def _priced(question: Question, aim: Aim, facts: Facts) -> Aim:
    """Take the price of a hardware profile where none was given."""
    profile = facts.profile(question.environment)
    if aim.goal is not Goal.COST or aim.usd_per_gpu_hour is not None or profile is None:
        return aim
    return replace(aim, usd_per_gpu_hour=profile.usd_per_gpu_hour)


def _refusal_of_steps(question: Question, aim: Aim) -> str:
    """Return why trials of which steps are counted have no score; empty where they have one."""
    if aim.goal is Goal.THROUGHPUT or not any(one.counts_steps for one in question.able):
        return ""
    return (
        "these trials count steps, and nobody knows what a step is worth; add e.g. "
        f"{ITEMS_OF_STEPS} to the command line, and run it again"
    )


def _refusal(question: Question, aim: Aim) -> str:
    """Return why the goal cannot be judged here; empty where it can."""
    if refusal := _refusal_of_steps(question, aim):
        return refusal
    if aim.goal is Goal.THROUGHPUT:
        return ""
    environment = question.environment
    if environment.device_kind is DeviceKind.CPU_DEVICE:
        return (
            "CPU devices share one machine, and are not paid for one by one; try --goal throughput"
        )
    if aim.goal is Goal.COST and aim.usd_per_gpu_hour is None:
        return "needs the price, as --usd-per-gpu-hour 2.5; without one try --goal per_gpu_hour"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A property of the pick that may be unwanted."""

    caveat: str  # what it does, and why one might not want it
    without: str  # as `in fp32`
    candidate: Candidate | None  # the best that does not; None where none was tried
    ratio: float | None  # its score, times that of the pick


_AXES = {
    "staged_vars": "staged_vars uses the weights of the step before: another algorithm than SGD",
    "compact_gradients": "compact_gradients sends gradients as half precision",
}


def alternatives(pick: Candidate, candidates: Sequence[Candidate]) -> Iterator[Alternative]:
    best_first = sorted(candidates, key=lambda one: one.score, reverse=True)
    for axis, caveat in _AXES.items():
        if pick.result.axes.get(axis):
            others = [one for one in best_first if not one.result.axes.get(axis)]
            yield _alternative(caveat, f"without {axis}", pick, others)
    precision = _precision(pick)
    if precision not in ("fp32", ""):
        others = [one for one in best_first if _precision(one) == "fp32"]
        caveat = f"{precision} changes the numerics of the training"
        yield _alternative(caveat, "in fp32", pick, others)
    smaller = [one for one in best_first if _trains_on_smaller(one, pick)]
    if not smaller:
        return
    size, unit = _per_device, "batch_size {}"
    sizes = f" ({_per_device(pick)} per device, {_in_all(pick)} in all)"
    if pick.result.is_of_program:
        sizes = ""  # how its batch divides among devices is its own
    if _is_strong(pick):
        size, unit = _in_all, "{} in all"
    least = min(size(one) for one in smaller)
    caveat = f"a larger batch changes the training{sizes}: this is about throughput only"
    others = [one for one in smaller if size(one) == least]
    yield _alternative(caveat, f"with {unit.format(least)}", pick, others)


def _alternative(
    caveat: str, without: str, pick: Candidate, others: Sequence[Candidate]
) -> Alternative:
    if not others:
        return Alternative(caveat=caveat, without=without, candidate=None, ratio=None)
    ratio = others[0].score / pick.score
    return Alternative(caveat=caveat, without=without, candidate=others[0], ratio=ratio)


def _precision(one: Candidate) -> str:
    return str(one.result.axes["precision"] or "").rstrip("?").partition("+")[0]


def _trains_on_smaller(one: Candidate, pick: Candidate) -> bool:
    """Return whether its batch of all devices is smaller.

    Under weak scaling fewer devices with the same batch each do not count.
    """
    if not _per_device(one) or _in_all(one) >= _in_all(pick):
        return False
    return _per_device(one) < _per_device(pick) or (_is_strong(one) and _is_strong(pick))


def _is_strong(one: Candidate) -> bool:
    return bool(one.result.axes.get("scaling") == "strong")


def _per_device(one: Candidate) -> int:
    """Return the batch of a device; 0 where a source does not report it."""
    return int(one.result.axes["batch_size"] or 0)


def _in_all(one: Candidate) -> int:
    return _per_device(one) * one.result.num_gpus


_MOST_NAMED = 3
_ENOUGH = 2 * REPEATS  # repeats that contradict each other: more of them would, too


def next_step(answers: Sequence[Answer], left: NotRun | None = None) -> NextStep | None:
    """Return what is `left` of the sweep, else the trials that most cheaply could change an answer,
    else what explains the first.
    """
    if left is not None and not left.is_running:
        return NextStep(why=f"run {_left(left)}", commands=(left.command,))
    if all(one.ranking is None for one in answers):
        return _of_failures(answers)
    if step := _again(answers):
        return step
    found = [(one, todo) for one in answers for todo in one.next_trials if todo.commands]
    if found:
        answer, todo = min(found, key=lambda item: cost(item[1]))
        why = f"{_which(answer, answers)}{todo.why}{_stays_suspect(answer)}"
        return NextStep(
            why=why,
            commands=todo.commands,
            badges=todo.badges,
            cost=cost_text(answer.question, todo),
        )
    for one in answers:
        if one.ranking and one.ranking.unclear:
            return _unclear(one, one.ranking, _which(one, answers))
        if one.explain and one.ranking:
            return NextStep(why="where its time goes", commands=(one.explain,))
        if one.measure_it:
            return NextStep(why="measure it on your own machine", commands=(one.measure_it,))
        if one.ranking and one.question.is_of_others and (why := _elsewhere(one, one.ranking)):
            return NextStep(why=f"{_which(one, answers)}{why}")
    return None


def _left(left: NotRun) -> str:
    which = f"the {left.num_trials} of {counted(left.num_asked_for, 'trial')}"
    if left.num_trials == left.num_asked_for:
        which = f"all {counted(left.num_asked_for, 'trial')}"
    return f"{which} that sweep {left.sweep} has left"


def _which(one: Answer, of: Sequence[Answer]) -> str:
    if len(of) < 2:
        return ""
    return f"{names([each.question for each in of])[of.index(one)]}: "


def _stays_suspect(one: Answer) -> str:
    """Say that measuring again, which was advised first, did not mend what is taken."""
    result = one.ranking.pick.result if one.ranking else None
    if result is None or not is_settled(result):
        return ""
    runs = counted(len(result.repeats), "run")
    return f"; {result.strategy} on {result.counted} stays suspect after {runs}"


def _of_failures(answers: Sequence[Answer]) -> NextStep | None:
    """Return what shows the first failure, and what may mend it."""
    shows = next((one.explain for one in answers if one.explain), "")
    if not shows:
        return None
    for one in answers:
        for todo in one.next_trials:
            why = f"see what the first said; {_which(one, answers)}{todo.why}"
            return NextStep(why=why, commands=(shows, *todo.commands))
    return NextStep(why="see what the first said", commands=(shows,))


def _again(answers: Sequence[Answer]) -> NextStep | None:
    """Measure again what is taken where it is one run, and suspect: nothing else is worth a trial
    before.
    """
    for one in answers:
        result = one.ranking.pick.result if one.ranking else None
        if result is not None and is_worth_again(result, one.question.able):
            name = f"{_which(one, answers)}{described(result)}"
            why = f"measure {name} again, it is one suspect run"
            return NextStep(why=why, commands=(again.again(result, REPEATS),))
    return None


def _unclear(one: Answer, ranking: Ranking, which: str) -> NextStep:
    """Say what would tell choices apart where no sweep of ours is worth it, or can be made."""
    rivals = [ranking.top, *(behind.candidate for behind in ranking.unclear)]
    others = [described(rival.result, against=ranking.top.result) for rival in rivals[1:]]
    shown = listed([described(ranking.top.result), *shortened(others, _MOST_NAMED)])
    if not one.question.environment.origin.is_ours:
        least = min(len(rival.scores) for rival in rivals)
        num = REPEATS if least < REPEATS else 2 * least
        why = f"measure {shown} again, with the program that measured them, {num} times each"
        return NextStep(why=f"{which}{why}")
    camps = [rival for rival in rivals if contradiction(Sample.of(rival.scores))]
    if camps and len(camps[0].scores) < _ENOUGH:
        result = camps[0].result
        why = (
            f"measure {described(result)} again while nothing else runs, for its repeats "
            "contradict each other"
        )
        command = again.again(result, max(REPEATS, len(result.repeats)))
        return NextStep(why=f"{which}{why}", commands=(command,))
    few = f"{MOST_WORTH_IT} more" if not camps else "more"
    why = f"take any of them, {shown}; {few} repeats would not tell them apart"
    return NextStep(why=f"{which}{why}")


def _elsewhere(one: Answer, ranking: Ranking) -> str:
    """Say what the program that measured may tell; empty where that is not plain."""
    result = ranking.pick.result
    if len(result.repeats) == 1:
        return f"measure {described(result)} again, {REPEATS} times; there is one run of it"
    if result.num_gpus < max(other.num_gpus for other in one.question.able):
        return ""
    more = result.environment.counted(2 * result.num_gpus, result.hosts)
    return f"measure {result.strategy} on {more} as well, to see whether more pay"
