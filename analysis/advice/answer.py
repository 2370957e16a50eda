"""The answer to one question: what to take, what stands against it, what could change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from analysis.advice.aims import Aim, Goal
from analysis.advice.alternatives import Alternative, alternatives
from analysis.advice.doubts import doubts
from analysis.advice.facts import Facts
from analysis.advice.next_trials import Next, next_trials
from analysis.advice.questions import Question, questions
from analysis.advice.ranking import Candidate, Ranking, rank
from analysis.results import Result
from analysis.selection import Selection
from analysis.source import Source
from analysis.text.titles import ITEMS_OF_STEPS
from scalemark.records.machine import DeviceKind
from scalemark.records.origin import Origin
from store.errors import StoreError

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
    next_trials: tuple[Next, ...] = ()
    again: str = ""  # the command that answers again once more has been run


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
    again = _again(source.selection, aim, num_answers=len(asked))
    found = [replace(_answer(one, aim, facts, predicts), again=again) for one in asked]
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


def _again(selection: Selection, aim: Aim, *, num_answers: int) -> str:
    """Return the command that answers by the same aim, with what other sweeps have added.

    Without filters it is about the newest sweep and what others know of its work, which is one
    model's.
    """
    arguments = [*selection.filters]
    if aim.goal is not Goal.THROUGHPUT:
        arguments += ["--goal", str(aim.goal)]
    if aim.usd_per_gpu_hour is not None:
        arguments += ["--usd-per-gpu-hour", f"{aim.usd_per_gpu_hour:.15g}"]
    is_told = num_answers > 1
    if selection.filters:
        is_told = selection.origin is not Origin.MEASURED
    return selection.analysis("advise", *arguments, names_origin=is_told)


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
