"""Facts behind an answer, and the doubts that speak against it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from analysis.advise.description import described
from analysis.advise.questions import Question
from analysis.advise.ranking import Ranking
from analysis.results import Environment, Result, is_quotable
from analysis.source import Source
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from scalemark.records.outcomes import Outcome
from scalemark.stats.welch import two_modes
from scalemark.text.wording import counted
from simulator.costs.box import Hardware
from simulator.costs.work import step_work
from store.reading.earlier import Durations, recorded_durations_s
from store.reading.queries import Row


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts behind the results of a source; each is read when it is first asked for."""

    source: Source
    _durations: dict[str, Durations] = field(default_factory=dict)  # by machine

    def attempt_without_number(self, result: Result) -> int:
        """Return the last attempt that failed, of a result of which some did."""
        attempts = self.source.attempts
        failed = [number for number in result.attempt_ids if not is_quotable(attempts[number])]
        return failed[-1]

    def profile(self, environment: Environment) -> Hardware | None:
        return (
            Hardware.from_json(environment.hardware_profile)
            if environment.hardware_profile
            else None
        )

    def machine(self, environment: Environment) -> Row | None:
        """Return a row of `store.reading.sweeps.machines`; None for published figures."""
        return self._machines.get(environment.key)

    def durations(self, environment: Environment) -> Durations:
        """Return the durations that were recorded on a machine."""
        machine = self.machine(environment)
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
        found = {}
        for result in reversed(self.source.results):
            attempt = self.source.attempts[result.attempt_ids[0]]
            found[result.environment.key] = by_key[attempt["machine"]]
        return found


def doubts(question: Question, ranking: Ranking | None, facts: Facts) -> list[str]:
    """Return a sentence for each doubt."""
    show = facts.source.selection.show_command  # about an attempt whose number follows
    contenders = _contenders(ranking)
    return [
        *_suspect(question, contenders, show),
        *_contradictory(contenders, show),
        *_failed_repeats(question, contenders, facts),
        *_failed(question, show),
        *_apart(question),
    ]


def _contenders(ranking: Ranking | None) -> list[Result]:
    """Return the choices that could win: the pick, and all that are not worse."""
    if ranking is None:
        return []
    behind = (*ranking.tied, *ranking.unclear, *ranking.out)
    found = [ranking.top, ranking.pick, *(one.candidate for one in behind)]
    return list({one.result.trial_id: one.result for one in found}.values())


def _suspect(question: Question, contenders: Sequence[Result], show: str) -> Iterator[str]:
    doubted = [one for one in contenders if not one.is_valid]
    what = "in doubt at its source" if question.is_of_others else "suspect"
    if doubted:
        why = "" if question.is_of_others else f"; {show} {doubted[0].attempt_ids[-1]} says why"
        yield f"The number of {described(doubted[0])} is {what}{why}."
    others = sum(not one.is_valid for one in question.able) - len(doubted)
    if others:
        numbers = counted(others, "other number")
        yield f"{what.capitalize()}: {numbers} of {len(question.able)}, of choices that cannot win."


def _contradictory(contenders: Sequence[Result], show: str) -> Iterator[str]:
    for one in contenders:
        see = f"; see {show} {one.attempt_ids[-1]}" if one.attempt_ids else ""
        if found := contradiction(Sample.of(one.repeats, one.unit)):
            yield (
                f"Repeats of {described(one)} contradict each other ({found.words}): something "
                f"else ran beside some, or the machine changed{see}."
            )
        elif modes := two_modes(one.repeats):
            yield f"Repeats of {described(one)} fall into {modes.words}{see}."


_ENDED = {
    Outcome.OUT_OF_MEMORY: "ran out of memory",
    Outcome.TIMED_OUT: "timed out",
    Outcome.UNSUPPORTED: "cannot run here",
    Outcome.INVALID: "brought no number that may be quoted",
}


def _failed_repeats(
    question: Question, contenders: Sequence[Result], facts: Facts
) -> Iterator[str]:
    """Name choices with a number, of which not all repeats have one: all others together."""
    show = facts.source.selection.show_command
    named = [one for one in contenders if one.failed]
    others = [one for one in question.able if one.failed and one not in named]
    groups = [(described(one), [one]) for one in named]
    if others:
        groups.append((counted(len(others), "other choice"), others))
    for name, of in groups:
        failed = [outcome for one in of for outcome in one.failed]
        total = len(failed) + sum(len(one.repeats) for one in of)
        yield (
            f"{len(failed)} of {total} repeats of {name} brought no number ({ways(failed)}); "
            f"see {show} {facts.attempt_without_number(of[-1])}."
        )


def ways(outcomes: Sequence[str]) -> str:
    """Count outcomes, as `2 ran out of memory, 1 failed`."""
    counts = Counter(outcomes).most_common()
    return ", ".join(f"{count} {_ENDED.get(Outcome(one), one)}" for one, count in counts)


def _failed(question: Question, show: str) -> Iterator[str]:
    without = [one for one in question.choices if one.throughput is None]
    if not without:
        return
    ended = ways([one.outcome for one in without])
    attempts = without[-1].attempt_ids
    see = f"; see {show} {attempts[-1]}" if attempts else ""
    choices = counted(len(question.choices), "choice")
    yield f"{len(without)} of {choices} brought no number, and cannot be judged ({ended}){see}."


def _apart(question: Question) -> Iterator[str]:
    if question.apart:
        yield (
            f"Left out: {len(question.apart)} with variable_update independent, "
            "whose replicas train a model each and not one together."
        )
