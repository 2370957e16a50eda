"""The one step that a screen of advice suggests: what to run, or what to measure elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from analysis import again
from analysis.advice.answer import Answer
from analysis.advice.description import described
from analysis.advice.measure_it import measure_it
from analysis.advice.next_trials import REPEATS, cost, cost_text
from analysis.advice.questions import names
from analysis.advice.ranking import Ranking
from analysis.statistics.contradictions import contradiction
from analysis.statistics.planning import MOST_WORTH_IT
from analysis.statistics.sample import Sample
from analysis.suspect_run import is_settled, is_worth_again
from analysis.text.one_screen import NextStep
from scalemark.text.wording import counted, listed, shortened
from store.reading.not_run import NotRun

_MOST_NAMED = 3
_ENOUGH = 2 * REPEATS  # repeats that contradict each other: more of them would, too


def next_step(answers: Sequence[Answer], left: NotRun | None = None) -> NextStep | None:
    """Return what is `left` of the sweep, else the trials that most cheaply could change an answer,
    else what explains the first.
    """
    if left is not None and not left.is_running:
        return NextStep(why=f"run {_left(left)}", commands=(left.command,), then=answers[0].again)
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
            then=answer.again,
            badges=todo.badges,
            cost=cost_text(answer.question, todo),
        )
    for one in answers:
        if one.ranking and one.ranking.unclear:
            return _unclear(one, one.ranking, _which(one, answers))
        if one.explain and one.ranking:
            return NextStep(why="where its time goes", commands=(one.explain,))
        if one.ranking and (command := _measured_here(one, one.ranking)):
            return NextStep(why="measure it on your own machine", commands=(command,))
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
            return NextStep(why=why, commands=(shows, *todo.commands), then=one.again)
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
            return NextStep(why=why, commands=(again.again(result, REPEATS),), then=one.again)
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
        return NextStep(why=f"{which}{why}", commands=(command,), then=one.again)
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


def _measured_here(one: Answer, ranking: Ranking) -> str:
    return measure_it(one.question, ranking.pick.result) if one.question.is_published else ""
