"""Machines behind an answer, and the doubts that speak against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from analysis.advise.description import described
from analysis.advise.questions import Question
from analysis.advise.ranking import Ranking
from analysis.results import Environment, Result, is_quotable
from analysis.selection import Source
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from scalemark.records.outcomes import Outcome
from scalemark.stats.welch import two_modes
from scalemark.text.wording import counted
from simulator.costs.work import step_work
from store.reading.earlier import Durations, recorded_durations_s
from store.reading.queries import Row

_ENDED = {
    Outcome.OUT_OF_MEMORY: "ran out of memory",
    Outcome.TIMED_OUT: "timed out",
    Outcome.UNSUPPORTED: "cannot run here",
    Outcome.INVALID: "brought no number that may be quoted",
}


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The machines behind the results of a source; each is read when it is first asked for."""

    source: Source
    _durations: dict[str, Durations] = field(default_factory=dict)  # by machine

    def of(self, environment: Environment) -> Row | None:
        """Return a row of `store.reading.sweeps.machines`; None for published figures."""
        return self._machines.get(environment.key)

    def durations(self, environment: Environment) -> Durations:
        """Return the durations that were recorded on a machine."""
        machine = self.of(environment)
        if machine is None:
            return Durations()
        key = machine["key"]
        if key not in self._durations:
            recorded = recorded_durations_s(self.source.engine, key, on_devices=True)
            self._durations[key] = Durations(recorded, step_work)
        return self._durations[key]

    @cached_property
    def _machines(self) -> Mapping[str, Row]:
        if not self.source.selection.origin.is_ours:
            return {}
        by_key = {machine["key"]: machine for machine in self.source.machines}
        machines = {}
        for result in reversed(self.source.results):
            attempt = self.source.attempts[result.attempt_ids[0]]
            machines[result.environment.key] = by_key[attempt["machine"]]
        return machines


def doubts(question: Question, ranking: Ranking | None, source: Source) -> list[str]:
    """Return a sentence for each doubt."""
    show = source.selection.show_command  # about an attempt whose number follows
    contenders = _contenders(ranking)
    return [
        *_suspect(question, contenders, show),
        *_contradictory(contenders, show),
        *_failed_repeats(question, contenders, source),
        *_failed(question, show),
    ]


def _contenders(ranking: Ranking | None) -> list[Result]:
    """Return the choices that could win: the pick, and all that are not worse."""
    if ranking is None:
        return []
    contenders = [ranking.top.result, ranking.pick.result]
    for behind in (*ranking.tied, *ranking.unclear, *ranking.out):
        contenders.append(behind.candidate.result)
    return list({result.trial_id: result for result in contenders}.values())


def _suspect(question: Question, contenders: Sequence[Result], show: str) -> Iterator[str]:
    doubted = [result for result in contenders if not result.is_valid]
    what = "in doubt at its source" if question.is_of_others else "suspect"
    if doubted:
        why = "" if question.is_of_others else f"; {show} {doubted[0].attempt_ids[-1]} says why"
        yield f"The number of {described(doubted[0])} is {what}{why}."
    others = sum(not result.is_valid for result in question.able) - len(doubted)
    if others:
        numbers = counted(others, "other number")
        yield f"{what.capitalize()}: {numbers} of {len(question.able)}, of choices that cannot win."


def _contradictory(contenders: Sequence[Result], show: str) -> Iterator[str]:
    for result in contenders:
        see = f"; see {show} {result.attempt_ids[-1]}" if result.attempt_ids else ""
        groups = contradiction(Sample.of(result.repeats, result.unit))
        modes = two_modes(result.repeats)
        if groups:
            yield (
                f"Repeats of {described(result)} contradict each other ({groups.words}): something "
                f"else ran beside some, or the machine changed{see}."
            )
        elif modes:
            yield f"Repeats of {described(result)} fall into {modes.words}{see}."


def _failed_repeats(
    question: Question, contenders: Sequence[Result], source: Source
) -> Iterator[str]:
    """Name choices with a number, of which not all repeats have one: all others together."""
    named = [result for result in contenders if result.failed]
    others = [result for result in question.able if result.failed and result not in named]
    groups = [(described(result), [result]) for result in named]
    if others:
        groups.append((counted(len(others), "other choice"), others))
    for name, results in groups:
        failed = [outcome for result in results for outcome in result.failed]
        total = len(failed) + sum(len(result.repeats) for result in results)
        last = 0
        for attempt in results[-1].attempt_ids:
            if not is_quotable(source.attempts[attempt]):
                last = attempt
        yield (
            f"{len(failed)} of {total} repeats of {name} brought no number ({ways(failed)}); "
            f"see {source.selection.show_command} {last}."
        )


def ways(outcomes: Sequence[str]) -> str:
    """Count outcomes, as `2 ran out of memory, 1 failed`."""
    counts = Counter(outcomes).most_common()
    return ", ".join(f"{num} {_ENDED.get(Outcome(outcome), outcome)}" for outcome, num in counts)


def _failed(question: Question, show: str) -> Iterator[str]:
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
