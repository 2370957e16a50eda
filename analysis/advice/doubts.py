"""What stands against an answer: suspect numbers, repeats that contradict each other, failures,
replicas that train apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from analysis.advice.description import described
from analysis.advice.facts import Facts
from analysis.advice.questions import Question
from analysis.advice.ranking import Candidate, Ranking
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from scalemark.records.outcomes import Outcome


def doubts(question: Question, ranking: Ranking | None, facts: Facts) -> list[str]:
    """Sentences."""
    show = facts.source.selection.show_command  # about an attempt whose number follows
    in_question = (
        []
        if ranking is None
        else [
            ranking.pick,
            *(one.candidate for one in (*ranking.tied, *ranking.unclear, *ranking.out)),
        ]
    )
    if ranking is not None and ranking.top is not ranking.pick:
        in_question.insert(0, ranking.top)
    found = list({one.result.trial_id: one for one in in_question}.values())
    return [
        *_suspect(question, found, show),
        *_contradictory(found, show),
        *_partly_failed(question, found, facts),
        *_failed(question, show),
        *_apart(question),
    ]


def _suspect(question: Question, in_question: Sequence[Candidate], show: str) -> Iterator[str]:
    doubted = [one.result for one in in_question if not one.result.is_valid]
    what = "in doubt at its source" if question.is_published else "suspect"
    if doubted:
        last = "" if question.is_published else f"; {show} {doubted[0].attempt_ids[-1]} says why"
        yield f"The number of {described(doubted[0])} is {what}{last}."
    if more := sum(not one.is_valid for one in question.able) - len(doubted):
        others = f"{more} {'more ' if doubted else ''}of {len(question.able)} numbers behind this"
        is_are, none = ("is", "not") if more == 1 else ("are", "none of them")
        yield f"{others} {is_are} {what}, {none} of a choice that could win."


def _contradictory(in_question: Sequence[Candidate], show: str) -> Iterator[str]:
    for one in in_question:
        if found := contradiction(Sample.of(one.result.repeats)):
            yield (
                f"Repeats of {described(one.result)} contradict each other ({found.words}): something else ran beside some, "
                f"or the machine changed; {show} {one.result.attempt_ids[-1]} tells of one."
            )


_ENDED = {
    Outcome.OUT_OF_MEMORY: "ran out of memory",
    Outcome.TIMED_OUT: "timed out",
    Outcome.UNSUPPORTED: "cannot run here",
    Outcome.INVALID: "brought no number that may be quoted",
    Outcome.INTERRUPTED: "were interrupted",
}


def _partly_failed(
    question: Question, in_question: Sequence[Candidate], facts: Facts
) -> Iterator[str]:
    """Choices with a number, of which not all repeats have one."""
    show = facts.source.selection.show_command
    named = [one.result for one in in_question if one.result.failed]
    for one in named:
        asked = len(one.failed) + len(one.repeats)
        yield (
            f"{len(one.failed)} of {asked} repeats of {described(one)} brought no number ({_ways(one.failed)}); "
            f"{show} {facts.attempt_without_number(one)} tells of one."
        )
    others = [
        one
        for one in question.able
        if one.failed and one.trial_id not in {other.trial_id for other in named}
    ]
    if others:
        total = sum(len(one.failed) + len(one.repeats) for one in others)
        failed = [way for one in others for way in one.failed]
        yield (
            f"{len(failed)} of {total} repeats of {len(others)} other choice{'s' if len(others) > 1 else ''} brought no number "
            f"({_ways(failed)}); {show} {facts.attempt_without_number(others[-1])} tells of one."
        )


def _ways(outcomes: Sequence[str]) -> str:
    """As `2 ran out of memory, 1 failed`."""
    return ", ".join(
        f"{count} {_ENDED.get(Outcome(one), one)}" for one, count in Counter(outcomes).most_common()
    )


def _failed(question: Question, show: str) -> Iterator[str]:
    without = [one for one in question.choices if one.throughput is None]
    if not without:
        return
    ways = _ways([one.outcome for one in without])
    last = without[-1].attempt_ids[-1:]
    told = f"; {show} {last[0]} tells of one" if last else ""
    is_are = "is" if len(without) == 1 else "are"
    yield (
        f"{len(without)} of {len(question.choices)} choices brought no number and {is_are} not "
        f"judged ({ways}){told}."
    )


def _apart(question: Question) -> Iterator[str]:
    if question.apart:
        yield (
            f"Left out: {len(question.apart)} with variable_update independent, "
            "whose replicas train a model each and not one together."
        )
