"""Advice on one screen: the answer, one table, one next step."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from analysis.advice.aims import Goal
from analysis.advice.answer import Answer
from analysis.advice.description import column_heading, described
from analysis.advice.measure_it import measure_it
from analysis.advice.ranking import Behind, Candidate, Ranking
from analysis.advice.text import headline, sentences
from analysis.text import badges
from analysis.text.numbers import number, with_interval
from analysis.text.one_screen import Screen
from scalemark.text.wording import counted, listed

_MOST_ROWS = 8
_MOST_NAMED = 3


def screen(answers: Sequence[Answer]) -> Screen:
    """Return the screen of one answer or more; of several a row for each."""
    if len(answers) == 1:
        columns, rows, used = _of_one(answers[0])
        said = _headline(answers[0])
    else:
        columns, rows, used = _of_several(answers)
        said = _overview(answers)
    for one in answers:
        used |= dict.fromkeys(badges.of_environment(one.question.environment))
    return Screen(
        headlines=(said,),
        columns=columns,
        rows=rows,
        most_rows=_MOST_ROWS,
        next_step=_next_step(answers),
        badges=frozenset(used),
    )


_Table = tuple[tuple[str, ...], list[tuple[str, ...]], dict[str, None]]


def _headline(one: Answer) -> str:
    if one.ranking is None:
        return sentences(one)[0]
    found = [
        *badges.of_environment(one.question.environment),
        *badges.of_result(one.ranking.pick.result),
    ]
    said = headline(one, one.ranking)
    return f"{said[:-1]} ({', '.join(found)})." if found else said


def _overview(answers: Sequence[Answer]) -> str:
    """Say which choice is the best of how many."""
    best: dict[str, list[str]] = defaultdict(list)
    for one in answers:
        if one.ranking:
            result = one.ranking.pick.result
            best[f"{result.strategy} on {result.counted}"].append(one.question.model)
    if not best:
        return "No advice: nothing that was tried has a number."
    ordered = sorted(best.items(), key=lambda item: -len(item[1]))
    said = [f"{choice} for {_models(models)}" for choice, models in ordered[:_MOST_NAMED]]
    if len(ordered) > _MOST_NAMED:
        said.append(f"{len(ordered) - _MOST_NAMED} other ways for the others")
    goal = "fastest" if answers[0].aim.goal is Goal.THROUGHPUT else "best"
    of = counted(len(answers), "answer")
    return f"{of}, one per model and machine. The {goal}: {listed(said)}."


def _models(models: Sequence[str]) -> str:
    names = list(dict.fromkeys(models))
    return listed(names) if len(names) <= _MOST_NAMED else f"{len(names)} models"


def _of_one(one: Answer) -> _Table:
    used: dict[str, None] = {}
    unit = f"{one.question.unit} [95 % CI]"
    if one.ranking is None:
        return ("choice", unit), [], used
    rows = []
    for candidate, behind in _ordered(one.ranking):
        doubts = doubts_of(one.ranking, candidate, behind)
        used |= dict.fromkeys(doubts)
        against = "best" if behind is None else f"{1 / behind.ratio:.2f}x"
        name = described(candidate.result, against=one.ranking.top.result, is_cell=True)
        cells = [name, _throughput(one, candidate), *_score(one, candidate), against]
        if candidate is one.ranking.pick and behind is not None:
            doubts = ["taken", *doubts]
        rows.append((*cells, ", ".join(doubts)))
    scores = () if one.aim.goal is Goal.THROUGHPUT else (str(one.aim.goal),)
    choice = column_heading(one.ranking.top.result)
    return (choice, unit, *scores, "vs best", "doubts"), rows, used


def _of_several(answers: Sequence[Answer]) -> _Table:
    used: dict[str, None] = {}
    rows: list[tuple[str, ...]] = []
    models = [one.question.model for one in answers]
    for one in answers:
        environment = one.question.environment
        name = one.question.model
        if models.count(name) > 1:
            name = f"{name} @{environment.host}"
        if one.ranking is None:
            rows.append((name, "no number", "", ""))
            continue
        behind = next((found for _, found in _ordered(one.ranking) if found), None)
        pick = one.ranking.pick
        # only a tie or an unclear one says something of the best
        doubts = dict.fromkeys(badges.of_result(pick.result))
        if behind is not None:
            doubts |= dict.fromkeys(_standing(one.ranking, behind))
        used |= doubts
        throughput = f"{_throughput(one, pick)} {one.question.unit}"
        best = f"{pick.result.strategy} on {pick.result.counted}"
        rows.append((name, best, throughput, ", ".join(doubts)))
    return ("model", "best", "throughput [95 % CI]", "doubts"), rows, used


def _ordered(ranking: Ranking) -> Iterator[tuple[Candidate, Behind | None]]:
    yield ranking.top, None
    for behind in (*ranking.tied, *ranking.unclear, *ranking.out, *ranking.worse):
        yield behind.candidate, behind


def doubts_of(ranking: Ranking, candidate: Candidate, behind: Behind | None) -> list[str]:
    """Return the badges of one row; `behind` is how far it is from the best."""
    standing = [] if behind is None else _standing(ranking, behind)
    return [*standing, *badges.of_result(candidate.result)]


def _standing(ranking: Ranking, behind: Behind) -> list[str]:
    for badge, marked in (
        ("tie", ranking.tied),
        ("unclear", ranking.unclear),
        ("raced out", ranking.out),
    ):
        if any(one is behind for one in marked):
            return [badge]
    return []


def _throughput(one: Answer, candidate: Candidate) -> str:
    result = candidate.result
    if one.question.is_published:
        return number(candidate.throughput, exactly=True)
    return with_interval(candidate.throughput, result.low, result.high)


def _score(one: Answer, candidate: Candidate) -> list[str]:
    if one.aim.goal is Goal.THROUGHPUT:
        return []
    return [one.aim.text(candidate.score, one.question.environment.devices, one.question.item)]


def _next_step(answers: Sequence[Answer]) -> tuple[str, str] | None:
    """Return the cheapest trial that could change an answer, else what explains the first."""
    found = [
        (math.inf if todo.gpu_seconds is None else todo.gpu_seconds, len(todo.commands), todo)
        for one in answers
        for todo in one.next_trials
        if todo.commands
    ]
    if found:
        *_, todo = min(found, key=lambda item: item[:2])
        return todo.why, todo.commands[0]
    for one in answers:
        if one.explain:
            return "where its time goes", one.explain
        if one.ranking and (command := _measured_here(one, one.ranking)):
            return "measure it on your own machine", command
    return None


def _measured_here(one: Answer, ranking: Ranking) -> str:
    return measure_it(one.question, ranking.pick.result) if one.question.is_published else ""
