"""An answer to one question: what to take, what else there is, what stands against it, and what
could change it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from analysis.advice.aims import Aim, Goal
from analysis.advice.alternatives import Alternative, alternatives
from analysis.advice.by_count import Bought, bought, by_count, spread
from analysis.advice.doubts import doubts
from analysis.advice.facts import Facts
from analysis.advice.next_trials import Next, next_trials
from analysis.advice.questions import Question, questions
from analysis.advice.ranking import Candidate, Ranking, candidates, rank
from analysis.results import Origin, Place, Result
from analysis.scaling.curves import curve_of
from analysis.scaling.paying import Stop, stop
from analysis.selection import Selection
from analysis.source import Source
from scalemark.host.own_code import typed
from scalemark.records.devices import DeviceKind
from scalemark.text.redact import command_line
from store.database import default_url
from store.errors import StoreError

_DIGITS = 8  # of a trial's id, to name it


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """To one question, for one aim."""

    question: Question
    aim: Aim
    refusal: str  # why its aim cannot be judged here; empty where it can
    ranking: Ranking | None  # None: there is nothing to judge
    fastest: tuple[Candidate, ...]  # on each number of GPUs
    bought: tuple[Bought, ...]
    spread: Bought | None  # by more hosts, for as many GPUs
    stop: Stop | None  # of the pick's own curve, where more GPUs do not pay
    alternatives: tuple[Alternative, ...]
    doubts: tuple[str, ...]
    explain: str  # the command that says what holds the pick back; empty without one
    next_trials: tuple[Next, ...]


def answers(source: Source, aim: Aim, *, predicts: bool = False) -> list[Answer]:
    """One per place and work, never across; `predicts` as `next_trials` has it.

    Raises StoreError where nothing was found, or the goal's inputs are missing everywhere.
    """
    facts = Facts(source=source)
    found = [
        _answer(one, _priced(one.place, aim, facts), facts, predicts)
        for one in questions(source.results)
    ]
    if all(one.refusal for one in found):
        raise StoreError(
            f"--goal {aim.goal}: {'; '.join(dict.fromkeys(one.refusal for one in found))}"
        )
    return found


def _answer(question: Question, aim: Aim, facts: Facts, predicts: bool) -> Answer:
    refusal = _refusal(question, aim, facts)
    ranking = None if refusal else rank(question, aim, facts.watts)
    found = candidates(question.able, Aim() if ranking and ranking.misses else aim, facts.watts)
    fastest = by_count(found)
    curve = (
        []
        if ranking is None
        else curve_of([one for one in question.able if _is_on_curve(one, ranking.pick.result)])
    )
    return Answer(
        question=question,
        aim=aim,
        refusal=refusal,
        ranking=ranking,
        fastest=tuple(fastest),
        bought=() if ranking is None else tuple(bought(ranking.pick, found)),
        spread=None if ranking is None else spread(ranking.pick, found),
        stop=stop(curve) if question.place.device_kind is not DeviceKind.CPU_STAND_IN else None,
        alternatives=() if ranking is None else tuple(alternatives(ranking.pick, ranking.judged)),
        doubts=tuple(doubts(question, ranking, facts)),
        explain="" if ranking is None else _explain(facts.source.selection, ranking),
        next_trials=()
        if refusal
        else tuple(next_trials(question, ranking, aim, facts, predicts=predicts)),
    )


def _is_on_curve(one: Result, pick: Result) -> bool:
    return one.course == pick.course


def _explain(selection: Selection, ranking: Ranking) -> str:
    named = [] if selection.db == default_url() else ["--db", selection.db]
    origin = [] if selection.origin is Origin.MEASURED else ["--origin", str(selection.origin)]
    trial = ranking.pick.result.trial_id[:_DIGITS]
    return f"{typed('analysis')} {command_line(['explain', *named, *origin, '--trial', trial])}"


def _priced(place: Place, aim: Aim, facts: Facts) -> Aim:
    """A hardware profile may tell its price."""
    profile = facts.profile(place)
    if (
        aim.goal is not Goal.COST
        or aim.usd_per_gpu_hour is not None
        or profile is None
        or profile.usd_per_gpu_hour is None
    ):
        return aim
    return replace(aim, usd_per_gpu_hour=profile.usd_per_gpu_hour)


_OF_SINGLE_GPUS = (Goal.PER_GPU_HOUR, Goal.COST, Goal.DEADLINE, Goal.ENERGY)


def _refusal(question: Question, aim: Aim, facts: Facts) -> str:
    """Why the goal cannot be judged here; empty where it can."""
    if aim.goal in _OF_SINGLE_GPUS and question.place.device_kind is DeviceKind.CPU_STAND_IN:
        return (
            "CPU stand-ins share one machine, and nobody pays for them one by one; --goal "
            "throughput can be asked"
        )
    if aim.goal is Goal.COST and aim.usd_per_gpu_hour is None:
        return (
            "needs the price, as --usd-per-gpu-hour 2.5; without one there is --goal per_gpu_hour"
        )
    if (
        aim.goal is Goal.ENERGY
        and question.able
        and not any(watts for one in question.able for watts in facts.watts(one))
    ):
        return (
            f"needs the power of the GPUs, {_no_power(question)}; without it there is --goal "
            "per_gpu_hour"
        )
    return ""


def _no_power(question: Question) -> str:
    if question.is_published:
        return "which published figures do not tell"
    if question.place.origin is Origin.SIMULATED:
        return f"and the hardware profile of {question.place.host} has no power_w"
    return (
        f"and no attempt on {question.place.host} has it: NVML did not tell, or they were "
        "measured before it was asked"
    )
