"""Advice on one screen: the answer, one table, one next step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from analysis.advice.aims import Goal
from analysis.advice.answer import Answer
from analysis.advice.description import cells, column_heading, described, unlike
from analysis.advice.doubts import ways
from analysis.advice.next_step import next_step
from analysis.advice.questions import names
from analysis.advice.ranking import Behind, Candidate, Ranking
from analysis.advice.text import headline, sentences
from analysis.results import setting
from analysis.text import badges
from analysis.text.numbers import number, rate_with_interval
from analysis.text.one_screen import Screen
from analysis.text.titles import named
from scalemark.text.wording import counted, fixed, listed
from store.reading.not_run import NotRun

_MOST_ROWS = 8
_MOST_NAMED = 3


def screen(answers: Sequence[Answer], left: NotRun | None = None) -> Screen:
    """Return the screen of one answer or more; of several a row for each. `left` is what the sweep
    in question has not run.
    """
    unfinished = [] if left is None else ["unfinished"]
    if len(answers) == 1:
        columns, rows, used = _of_one(answers[0])
        found = [*_of_headline(answers[0]), *unfinished]
        said = _headline(answers[0], found)
    else:
        columns, rows, used = _of_several(answers)
        found = unfinished
        said = _overview(answers, found)
    used |= dict.fromkeys(found)
    for one in answers:
        used |= dict.fromkeys(badges.of_environment(one.question.environment))
    step = next_step(answers, left)
    used |= dict.fromkeys(step.badges if step else ())
    return Screen(
        headlines=(said,),
        columns=columns,
        rows=rows,
        most_rows=_MOST_ROWS,
        next_step=step,
        badges=frozenset(used),
    )


_Table = tuple[tuple[str, ...], list[tuple[str, ...]], dict[str, None]]


def _headline(one: Answer, marked: Sequence[str]) -> str:
    said = sentences(one)[0] if one.ranking is None else headline(one, one.ranking)
    return f"{said[:-1]} ({', '.join(marked)})." if marked else said


def _of_headline(one: Answer) -> list[str]:
    """Return the badges of what is taken, and of where it was run."""
    found = badges.of_environment(one.question.environment)
    if one.ranking is not None:
        found += [*badges.of_result(one.ranking.pick.result), *_certainty(one, one.ranking)]
    return found


def _certainty(one: Answer, ranking: Ranking) -> list[str]:
    """Return how sure it is that this is the best; of published figures nobody knows."""
    if one.question.is_published or len(ranking.judged) < 2:
        return []
    if ranking.is_sure and ranking.tied and not ranking.rests_on_suspect:
        return ["tie"]
    return [ranking.certainty]


def _overview(answers: Sequence[Answer], further: Sequence[str]) -> str:
    """Say which choice is the best of how many, marked with where, and with `further` badges."""
    best: dict[str, list[str]] = defaultdict(list)
    for one in answers:
        if one.ranking:
            result = one.ranking.pick.result
            words = [f"{result.strategy} on {result.counted}", *unlike(result, one.question.able)]
            best[", ".join(words)].append(one.question.model)
    if not best:
        ended = ways([choice.outcome for one in answers for choice in one.question.choices])
        why = f" ({ended})" if ended else ""
        marked = f" ({', '.join(further)})" if further else ""
        if not any(one.question.choices for one in answers):
            return f"No advice: all that was run trains replicas apart{marked}."
        return f"No advice: nothing that was tried has a number{why}{marked}."
    ordered = sorted(best.items(), key=lambda item: -len(item[1]))
    said = [f"{choice} for {_models(models)}" for choice, models in ordered[:_MOST_NAMED]]
    if len(ordered) > _MOST_NAMED:
        said.append(f"{counted(len(ordered) - _MOST_NAMED, 'other way')} for the others")
    goal = "fastest" if answers[0].aim.goal is Goal.THROUGHPUT else "best"
    of = counted(len(answers), "answer")
    where = [badges.of_environment(one.question.environment) for one in answers]
    found = [*dict.fromkeys(badge for of_one in where for badge in of_one), *further]
    marked = f" ({', '.join(found)})" if found else ""
    models = {one.question.model for one in answers}
    each = "one per model and machine" if len(models) == len(answers) else "a row each"
    return f"{of}, {each}. The {goal}: {listed(said)}{marked}."


def _models(models: Sequence[str]) -> str:
    names = list(dict.fromkeys(models))
    return listed(names) if len(names) <= _MOST_NAMED else f"{len(names)} models"


def _of_one(one: Answer) -> _Table:
    used: dict[str, None] = {}
    rows: list[tuple[str, ...]] = []
    ranking = one.ranking
    if ranking is None:
        choices = one.question.choices
        rows += [(described(choice, is_cell=True), choice.ended) for choice in choices]
        heading = column_heading(choices[0]) if choices else "choice"
        return (heading, "outcome"), [] if one.refusal else rows, used
    ordered = list(_ordered(ranking))
    names = cells([candidate.result for candidate, _ in ordered], ranking.top.result)
    for name, (candidate, behind) in zip(names, ordered, strict=True):
        doubts = doubts_of(ranking, candidate, behind)
        if len(rows) < _MOST_ROWS:  # others are not on the screen
            used |= dict.fromkeys(doubts)
        against = "best" if behind is None else f"{fixed(1 / behind.ratio, 2)}x"
        row = [name, _throughput(one, candidate), *_score(one, candidate), against]
        if candidate is ranking.pick and behind is not None:
            doubts = ["taken", *doubts]
        rows.append((*row, ", ".join(doubts)))
    scores = (str(one.aim.goal),) if _has_score(one) else ()
    choice = column_heading(ranking.top.result)
    return (choice, unit_heading(one), *scores, "vs best", "doubts"), rows, used


def unit_heading(one: Answer) -> str:
    """Return `images/s [95 % CI]`, or without the interval where none is known."""
    return f"{one.question.unit}{_interval([one])}"


def _interval(answers: Sequence[Answer]) -> str:
    results = [result for one in answers for result in one.question.able]
    return "" if all(result.low is None for result in results) else " [95 % CI]"


def _of_several(answers: Sequence[Answer]) -> _Table:
    used: dict[str, None] = {}
    rows: list[tuple[str, ...]] = []
    devices = {one.question.environment.devices for one in answers}
    units = {one.question.unit for one in answers}
    for name, one in zip(names([one.question for one in answers]), answers, strict=True):
        if one.ranking is None:
            rows.append((name, _why_none(one), "", "", ""))
            continue
        pick = one.ranking.pick
        doubts = dict.fromkeys([*badges.of_result(pick.result), *_certainty(one, one.ranking)])
        doubts.pop("surely best", None)
        if len(rows) < _MOST_ROWS:
            used |= doubts
        throughput = _throughput(one, pick)
        if len(units) > 1:
            throughput += f" {one.question.unit}"
        where = str(pick.result.num_gpus) if len(devices) == 1 else pick.result.counted
        others = [*_unlike_others(one, pick), *unlike(pick.result, one.question.able)]
        best = ", ".join([f"{pick.result.strategy} on {where}", *others])
        rows.append((name, best, throughput, _other_way(one.ranking), ", ".join(doubts)))
    best = f"best, on N {devices.pop()}" if len(devices) == 1 else "best"
    throughput = units.pop() if len(units) == 1 else "throughput"
    throughput += _interval(answers)
    return ("model", best, throughput, "other way", "doubts"), rows, used


def _why_none(one: Answer) -> str:
    """Return why a question has no best choice, as a cell."""
    if one.refusal:
        return "cannot be judged by this goal"
    return "no number" if one.question.choices else "replicas train apart"


_OF_WAY = ("batch_size", "precision")  # what most often differs beside strategy and GPUs


def _unlike_others(one: Answer, pick: Candidate) -> list[str]:
    """Name the batch and the precision, where others were tried."""
    return [
        named(axis, pick.result.axes[axis])
        for axis in _OF_WAY
        if len({choice.axes.get(axis) for choice in one.question.able}) > 1
    ]


def _other_way(ranking: Ranking) -> str:
    """Return the best in another batch, precision or the like, else by another strategy, as
    `fp32 0.73x`; empty without one.
    """
    pick = ranking.pick
    others = sorted(ranking.judged, key=lambda one: -one.score)
    settings = [one for one in others if setting(one.result) != setting(pick.result)]
    ways = [one for one in others if one.result.strategy != pick.result.strategy]
    for one in (settings or ways)[:1]:
        said = []
        if one.result.strategy != pick.result.strategy:
            said.append(one.result.strategy)
        before, after = setting(pick.result), setting(one.result)
        differing = [
            axis for axis in (*_OF_WAY, *after, *before) if before.get(axis) != after.get(axis)
        ]
        shown = [axis for axis in differing if axis in _OF_WAY] or differing[:1]
        said += [named(axis, after.get(axis)) for axis in dict.fromkeys(shown)]
        if one.result.width != pick.result.width:
            said.append(f"on {one.result.width}")
        return f"{', '.join(said)}: {fixed(one.score / pick.score, 2)}x"
    return ""


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
    return rate_with_interval(candidate.throughput, result.low, result.high)


def _has_score(one: Answer) -> bool:
    """Return whether choices are judged by another number than their throughput."""
    return one.aim.goal is not Goal.THROUGHPUT


def _score(one: Answer, candidate: Candidate) -> list[str]:
    if not _has_score(one):
        return []
    return [one.aim.text(candidate.score, one.question.environment.devices, one.question.item)]
