"""An answer in words: what to take, how sure that is, what more GPUs buy, what it changes, and what
is against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.advice.aims import Aim, Goal
from analysis.advice.answer import Answer
from analysis.advice.by_count import Bought
from analysis.advice.description import described
from analysis.advice.measure_it import measure_it
from analysis.advice.more_repeats import why_none
from analysis.advice.ranking import Behind, Candidate, Ranking
from analysis.results import Origin, Result
from analysis.scaling.text import LITTLE_LOST, brings
from analysis.text.numbers import number, span
from analysis.text.titles import host_notes, title
from analysis.text.wording import counted, listed_phrases, shortened
from scalemark.records.devices import DeviceKind

_FOR = {
    Goal.THROUGHPUT: "the most images/s",
    Goal.PER_GPU_HOUR: "the most images per hour of a GPU",
    Goal.COST: "the lowest cost per image",
    Goal.DEADLINE: "the fewest GPU-hours in time",
    Goal.ENERGY: "the least energy per image",
}
_SCORE = {
    Goal.THROUGHPUT: "the images/s",
    Goal.PER_GPU_HOUR: "the images per GPU-hour",
    Goal.COST: "the images for the money",
    Goal.DEADLINE: "the images per GPU-hour",
    Goal.ENERGY: "the images per joule",
}
_MOST_NAMED = 4


def heading(answer: Answer) -> str:
    """As `resnet50 (image_px 224, synthetic data)`."""
    work = answer.question.work
    return title({axis: work[axis] for axis in ("model", "image_px", "data") if axis in work})


def sentences(answer: Answer) -> list[str]:
    ranking = answer.ranking
    if answer.refusal:
        return [
            f"No advice for {answer.question.model} by --goal {answer.aim.goal}: {answer.refusal}."
        ]
    if ranking is None:
        return [_nothing(answer), *answer.doubts]
    return [
        _headline(answer, ranking),
        *_sure(answer, ranking),
        *_efficiency(answer, ranking),
        *_more_gpus(answer),
        *_more_hosts(answer),
        *_changes(answer),
        *answer.doubts,
        *_further(answer),
        *(f"{note[:1].upper()}{note[1:]}." for note in host_notes(answer.question.able)),
    ]


def _nothing(answer: Answer) -> str:
    question = answer.question
    if not question.choices:
        return f"No advice for {question.model}: all that was run trains replicas apart."
    todo = (
        "see below what may run"
        if answer.next_trials
        else "mend what they failed for, and run them again"
    )
    return (
        f"No advice for {question.model}: none of {counted(len(question.choices), 'choice')} has "
        f"a number; {todo}."
    )


def _headline(answer: Answer, ranking: Ranking) -> str:
    pick, place, aim = ranking.pick, answer.question.place, answer.aim
    images = (
        f"{number(pick.throughput, exactly=answer.question.is_published)} images/s{_interval(pick)}"
    )
    judged = (
        ""
        if aim.goal is Goal.THROUGHPUT or ranking.misses
        else f"{aim.text(pick.score, place.devices)} at "
    )
    if ranking.misses:
        hours = (aim.num_images or 0.0) / (3600 * pick.throughput)
        least = f"{number(hours)} h instead of {number(aim.deadline_h or 0.0)} h"
        return (
            f"Nothing that was tried is in time: the fastest, {described(pick.result)}, takes "
            f"{least} ({images})."
        )
    if len(answer.question.choices) == 1:
        return (
            f"Only one way was tried, so there is nothing to choose: {described(pick.result)} "
            f"brings {judged}{images}."
        )
    told = f"{judged}{images}{_in_time(aim, pick)}"
    return (
        f"For {_FOR[aim.goal]}, train {answer.question.model} with {described(pick.result)}: "
        f"{told}."
    )


def _interval(one: Candidate) -> str:
    low, high = one.result.low, one.result.high
    return "" if low is None or high is None else f" [{span(low, high, one.throughput)}]"


def _in_time(aim: Aim, pick: Candidate) -> str:
    needed = aim.needed_throughput
    if needed is None:
        return ""
    hours = (aim.num_images or 0.0) / (3600 * pick.throughput)
    doubt = (
        ""
        if pick.result.low is None or pick.result.low >= needed
        else ", which its interval does not make sure"
    )
    return f", done in {number(hours)} h{doubt}"


def _sure(answer: Answer, ranking: Ranking) -> Iterator[str]:
    if len(answer.question.able) < 2:
        return
    if answer.question.is_published:
        yield (
            "How sure: as sure as its source, which tells one figure each, without "
            f"repeats{_next_behind(ranking)}."
        )
        return
    if ranking.tied:
        others = [ranking.top, *(one.candidate for one in ranking.tied)]
        names = _listed(
            [
                described(one.result, against=ranking.pick.result)
                for one in others
                if one is not ranking.pick
            ]
        )
        gain = (
            f" (up to {ranking.top.typical / ranking.pick.typical - 1:.1%} more)"
            if ranking.top is not ranking.pick
            else ""
        )
        taken = "of these the one with the fewest devices, then the plainest, is taken"
        yield (
            f"As good, as far as the repeats tell: {names}{gain}; "
            f"{taken}{_beside_compare(ranking, ranking.tied)}."
        )
    if ranking.out:
        yield _out_of_race(ranking)
    if ranking.unclear:
        names = _listed(
            [described(one.candidate.result, against=ranking.top.result) for one in ranking.unclear]
        )
        beside = _beside_compare(ranking, ranking.unclear)
        yield (
            f"Not sure: {_why_unclear(ranking)}, so {names} may be as good or "
            f"better{beside}{_no_repeats(ranking)}."
        )
    elif ranking.worse:
        nearest = ranking.worse[0]
        name = described(nearest.candidate.result, against=ranking.top.result)
        yield (
            f"{_how_sure(ranking)}{name}, is {_share(nearest)} "
            f"behind{_beside_compare(ranking, [nearest])}."
        )


def _out_of_race(ranking: Ranking) -> str:
    """What a race says of those that it put out, and what it does not say."""
    names = _listed(
        [described(one.candidate.result, against=ranking.top.result) for one in ranking.out]
    )
    they = "it" if len(ranking.out) == 1 else "they"
    return (
        f"Put out of a race: {names}; {they} would hardly lead after all repeats, "
        f"but the repeats do not tell that {they} {'is' if they == 'it' else 'are'} slower."
    )


def _next_behind(ranking: Ranking) -> str:
    behind = [*ranking.unclear, *ranking.out, *ranking.worse]
    if not behind:
        return ""
    return (
        f"; the next, {described(behind[0].candidate.result, against=ranking.top.result)}, is "
        f"{behind[0].share:.1%} behind"
    )


def _why_unclear(ranking: Ranking) -> str:
    nearest = ranking.unclear[0]
    if nearest.low is None:
        return (
            "there is one process alone of it or of what comes next, and another may be faster "
            "or slower"
        )
    if nearest.is_of_too_few:
        return (
            f"there are too few repeats for {len(ranking.judged)} choices, some of which look "
            "worse by chance"
        )
    return "its repeats scatter too much to tell it from what comes next"


def _no_repeats(ranking: Ranking) -> str:
    """Why none are asked for of the nearest that is unclear."""
    told = why_none(ranking, ranking.unclear[0])
    return f"; {told}" if told else ""


def _how_sure(ranking: Ranking) -> str:
    nearest = ranking.worse[0]
    least = min(len(one.scores) for one in (ranking.top, nearest.candidate))
    the_next = "what comes after these" if ranking.tied or ranking.out else "the next"
    if nearest.low is None:
        return f"Fairly sure, though from one process alone: {the_next}, "
    if not nearest.is_proven:
        return f"Fairly sure, though from few repeats: {the_next}, "
    return f"Sure, from {least} or more processes each: {the_next}, "


def _beside_compare(ranking: Ranking, told: Sequence[Behind]) -> str:
    """Why `compare` answers otherwise, where it does: it has the repeats of the two alone."""
    for one in told:
        if one.alone is None or one.low is None or (one.alone > 1) == (one in ranking.worse):
            continue
        name = described(one.candidate.result, against=ranking.top.result)
        if one.alone > 1:
            return (
                f" (`compare` tells {name} apart: of {len(ranking.judged)} choices some seem so "
                "far apart by chance)"
            )
        return (
            " (`compare` cannot tell from their own repeats alone: here counts also how far "
            "those of other choices differ)"
        )
    return ""


def _share(one: Behind) -> str:
    known = (
        ""
        if one.share_low is None or one.share_high is None
        else f" [{one.share_low:.1%}..{one.share_high:.1%}]"
    )
    return f"{one.share:.1%}{known}"


def _efficiency(answer: Answer, ranking: Ranking) -> Iterator[str]:
    """Where there is something to be had still, how much; and what tells where the time goes."""
    pick, place = ranking.pick.result, answer.question.place
    if pick.num_gpus == 1 or place.device_kind is DeviceKind.CPU_STAND_IN:
        return
    if pick.efficiency is None or pick.efficiency >= LITTLE_LOST or pick.baseline is None:
        yield f"{answer.explain} says where its time goes."
        return
    yield (
        f"It reaches {pick.speed_up:.2f}x of what it does on {place.counted(pick.baseline.num_gpus, pick.baseline.hosts)}, "
        f"an efficiency of {pick.efficiency:.0%}; {answer.explain} says what holds it back."
    )


def _more_gpus(answer: Answer) -> Iterator[str]:
    place = answer.question.place
    if not answer.bought:
        return
    if place.device_kind is DeviceKind.CPU_STAND_IN:
        one = answer.bought[0]
        counts = f"{one.more.result.counted} instead of {one.fewer.result.width}{_on_one_host(one)}"
        not_said = "whether more pay is not said: stand-ins share the machine's cores"
        yield f"{counts} bring {_gain(one)} the images/s{_else(one)}; {not_said}."
        return
    for one in answer.bought:
        yield f"{_buys(one)}."
    ranking = answer.ranking
    if (
        answer.stop is not None
        and ranking is not None
        and ranking.pick.result.num_gpus > answer.stop.num_gpus
    ):
        sure = "" if answer.stop.is_sure else "perhaps "
        told = f"{sure}more than {answer.stop.num_gpus} do not pay: {brings(answer.stop.added)}"
        yield f"By the rule that a GPU should bring half of one of the first, {told}."


def _more_hosts(answer: Answer) -> Iterator[str]:
    """Where as many GPUs over fewer hosts were tried, and are slower."""
    one = answer.spread
    if one is not None:
        counts = f"{one.more.result.counted} instead of as many {_where(one.fewer.result)}"
        yield f"{counts} bring {_gain(one)} the images/s for the same GPU-hours{_else(one)}."


def _where(result: Result) -> str:
    return "on one host" if result.hosts == 1 else f"over {result.hosts}"


def _on_one_host(one: Bought) -> str:
    """Where the more are over several."""
    return " on one host" if one.fewer.result.hosts == 1 < one.more.result.hosts else ""


def _buys(one: Bought) -> str:
    counts = f"{one.more.result.width} instead of {one.fewer.result.counted}{_on_one_host(one)}"
    if one.gain < 1:
        return (
            f"{counts} are slower: {_gain(one)} the images/s for {one.gpu_hours:.3g}x the "
            f"GPU-hours{_else(one)}"
        )
    each = f"each image then takes {one.per_image:.2f}x the GPU-hours"
    return (
        f"{counts} buys {_gain(one)} the images/s for {one.gpu_hours:.3g}x the GPU-hours "
        f"({each}){_else(one)}"
    )


def _else(one: Bought) -> str:
    """What differs beside strategy and GPUs, where nothing is there to compare like with like."""
    if one.is_alike:
        return ""
    more, fewer = one.more.result, one.fewer.result
    both = f"{described(more, against=fewer)} is compared with {described(fewer, against=more)}"
    return f", not by {more.place.devices} alone: {both}"


def _gain(one: Bought) -> str:
    known = "" if one.low is None or one.high is None else f" [{one.low:.2f}..{one.high:.2f}]"
    return f"{one.gain:.2f}x{known}"


def _changes(answer: Answer) -> Iterator[str]:
    pick = answer.ranking.pick if answer.ranking else None
    for one in answer.alternatives:
        if one.candidate is None or one.ratio is None or pick is None:
            yield f"Mind that {one.caveat}; nothing {_tried(answer)} {one.without}."
        else:
            best = described(one.candidate.result, against=pick.result)
            yield (
                f"Mind that {one.caveat}; {one.without} the best is {best}, with "
                f"{one.ratio:.2f}x {_SCORE[answer.aim.goal]}."
            )


def _tried(answer: Answer) -> str:
    return "that was tried is in time" if answer.aim.goal is Goal.DEADLINE else "was tried"


def _further(answer: Answer) -> Iterator[str]:
    if answer.next_trials:
        yield "The cheapest trials that could change this stand below."
    elif answer.question.place.origin is Origin.PUBLISHED:
        yield f"These are figures of others; {_measure_it(answer)}."


def _measure_it(answer: Answer) -> str:
    found = (
        None if answer.ranking is None else measure_it(answer.question, answer.ranking.pick.result)
    )
    if found is None:
        return (
            f"sweep.py has no model {answer.question.model} to measure them on a machine of yours"
        )
    return (
        f"on a machine of yours {found.command} measures "
        f"{'the same' if found.is_the_same else 'the like'}"
    )


def _listed(choices: Sequence[str]) -> str:
    return listed_phrases(shortened(choices, _MOST_NAMED))
