"""An answer as sentences: what to take, how sure that is, what it costs and what is against it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.advice.aims import Goal
from analysis.advice.answer import Answer
from analysis.advice.description import described
from analysis.advice.doubts import ways
from analysis.advice.measure_it import measure_it
from analysis.advice.ranking import PLAUSIBLE, Behind, Candidate, Ranking
from analysis.text.numbers import number, rate_with_interval
from analysis.text.titles import host_notes, title
from scalemark.records.machine import DeviceKind
from scalemark.records.origin import Origin
from scalemark.records.trial import free_names
from scalemark.text.wording import counted, listed_phrases, shortened, single

LITTLE_LOST = 0.9  # efficiency from which on there is little to explain
_FOR = {
    Goal.THROUGHPUT: "the most {items}/s",
    Goal.PER_GPU_HOUR: "the most {items} per hour of a GPU",
    Goal.COST: "the lowest cost per {item}",
}
_MOST_NAMED = 4


def heading(answer: Answer) -> str:
    """Return the work in question, as `resnet50 (image_px 224, synthetic data)`."""
    work = answer.question.work
    shown = ["model", "image_px", "seq_len", "data", *free_names(work)]
    if answer.question.is_of_program:
        shown = ["model", "num_gpus", *free_names(work)]
    elif work.get("model_digest"):
        shown.append("model_digest")
    return title({axis: work[axis] for axis in shown if axis in work}) or "model not reported"


def sentences(answer: Answer) -> list[str]:
    ranking, model = answer.ranking, answer.question.model
    if answer.refusal:
        return [f"No advice for {model} by --goal {answer.aim.goal}: {answer.refusal}."]
    if ranking is None:
        return [_nothing(answer), *answer.doubts]
    return [
        headline(answer, ranking),
        *_sure(answer, ranking),
        *_efficiency(answer, ranking),
        *_changes(answer, ranking),
        *answer.doubts,
        *_further(answer, ranking),
        *(f"{note[:1].upper()}{note[1:]}." for note in host_notes(answer.question.able)),
    ]


def _nothing(answer: Answer) -> str:
    question = answer.question
    if not question.choices:
        return f"No advice for {question.model}: all that was run trains replicas apart."
    choices = counted(len(question.choices), "choice")
    ended = ways([one.outcome for one in question.choices])
    return f"No advice for {question.model}: none of {choices} has a number ({ended})."


def headline(answer: Answer, ranking: Ranking) -> str:
    pick, aim = ranking.pick, answer.aim
    throughput = rate_with_interval(pick.throughput, pick.result.low, pick.result.high)
    if answer.question.is_published or ranking.level:  # each of these has an interval of its own
        throughput = number(pick.throughput, exactly=answer.question.is_published)
    brought = f"{throughput} {pick.result.unit}"
    if aim.goal is not Goal.THROUGHPUT:
        score = aim.text(pick.score, answer.question.environment.devices, answer.question.item)
        brought = f"{score} at {brought}"
    if len(answer.question.choices) == 1:
        return f"Only one way was tried: {described(pick.result)} brings {brought}."
    wanted = _FOR[aim.goal].format(items=answer.question.item, item=single(answer.question.item))
    if ranking.level:
        others = [described(one.result, against=pick.result) for one in ranking.level[1:]]
        names = _listed([described(pick.result), *others])
        return f"For {wanted}, no choice is ahead: {names} bring {brought} each."
    verb = "run" if answer.question.is_of_program else "train"
    model, choice = answer.question.model, described(pick.result)
    if pick.result.strategy != model:  # of a program without axes of its own, its name
        choice = f"{model} with {choice}"
    return f"For {wanted}, {verb} {choice}: {brought}."


def _sure(answer: Answer, ranking: Ranking) -> Iterator[str]:
    if len(answer.question.able) < 2:
        return
    if answer.question.is_published:
        yield f"How sure: as sure as its source, which has no repeats{_next_behind(ranking)}."
        return
    if ranking.tied:
        yield _as_good(ranking)
    if ranking.out:
        yield (
            f"Put out of a race: {_names(ranking.out, ranking.top)}; not likely to lead after all "
            "repeats, but not proven slower."
        )
    if ranking.unclear:
        names = _names(ranking.unclear, ranking.top)
        yield f"Unsure: {_why_unclear(ranking)}, so {names} may be as good or better."
        yield from far_unclear(ranking)
    elif ranking.rests_on_suspect:
        what = "in doubt at its source" if answer.question.is_of_others else "suspect"
        yield f"Unsure: its number is {what}{_next_behind(ranking)}."
    elif ranking.worse and ranking.is_sure:
        yield _next_worse(ranking)


def _as_good(ranking: Ranking) -> str:
    others = [ranking.top, *(one.candidate for one in ranking.tied)]
    names = [
        described(one.result, against=ranking.pick.result)
        for one in others
        if one is not ranking.pick
    ]
    gain = ""
    if ranking.top is not ranking.pick:
        gain = f" (up to {ranking.top.score / ranking.pick.score - 1:.1%} more)"
    return (
        f"As good, as far as the repeats tell: {_listed(names)}{gain}; the one with the fewest "
        "devices, then the plainest, is taken."
    )


def _next_behind(ranking: Ranking) -> str:
    behind = [*ranking.unclear, *ranking.out, *ranking.worse]
    if not behind:
        return ""
    name = described(behind[0].candidate.result, against=ranking.top.result)
    how_far = "level with it" if behind[0].is_level else f"{behind[0].share:.1%} behind"
    return f"; the next, {name}, is {how_far}"


def _why_unclear(ranking: Ranking) -> str:
    nearest = ranking.unclear[0]
    if nearest.low is None:
        return f"there is a single run of {_run_once(ranking, nearest)}"
    num = 1 + len(ranking.unclear) + len(ranking.tied)
    return f"{counted(num, 'choice')} are too close to call"


def _run_once(ranking: Ranking, behind: Behind) -> str:
    """Name which of the best and one behind it has a single run; at least one has."""
    sides = {"it": ranking.top, "what comes next": behind.candidate}
    once = [name for name, side in sides.items() if len(side.scores) < 2]
    return "each" if len(once) == len(sides) else once[0]


def far_unclear(ranking: Ranking) -> Iterator[str]:
    """Say of the single run that is farthest behind, and yet unclear, what spread is assumed."""
    far = [one for one in ranking.unclear if one.low is None and one.share >= PLAUSIBLE]
    if not far:
        return
    name = described(far[-1].candidate.result, against=ranking.top.result)
    yield (
        f"Why {name} is unclear though {far[-1].share:.1%} behind: single runs are compared as if "
        f"processes differed by {far[-1].deviation:.1%} (standard deviation, from few or no "
        f"repeats), and the first of {counted(len(ranking.judged), 'choice')} may have been lucky; "
        "repeats would tell."
    )


def _next_worse(ranking: Ranking) -> str:
    nearest, unproven = ranking.worse[0], ranking.unproven
    name = described(nearest.candidate.result, against=ranking.top.result)
    share = f"{nearest.share:.1%}"
    if nearest.share_low is not None and nearest.share_high is not None:
        share = f"{share} [{nearest.share_low:.1%}, {nearest.share_high:.1%}]"
    is_ours = nearest.candidate.result.environment.origin.is_ours
    least = min(len(one.scores) for one in (ranking.top, nearest.candidate))
    how = f"from {least} or more {'processes' if is_ours else 'repeats'} each"
    if unproven is None:
        return f"Sure, {how}: the next, {name}, is {share} behind."
    if unproven is nearest:
        is_once = unproven.low is None
        runs = f"a single run of {_run_once(ranking, unproven)}" if is_once else "few repeats"
        return f"Likely, though from {runs}: the next, {name}, is {share} behind."
    of = described(unproven.candidate.result, against=ranking.top.result)
    runs = "there is a single run" if unproven.low is None else "there are few repeats"
    return f"Likely: the next, {name}, is {share} behind, {how}; of {of}, farther behind, {runs}."


def _efficiency(answer: Answer, ranking: Ranking) -> Iterator[str]:
    """Say how much is lost, where it is much, and what explains it."""
    pick, environment = ranking.pick.result, answer.question.environment
    if pick.num_gpus == 1 or environment.device_kind is DeviceKind.CPU_DEVICE:
        return
    if pick.efficiency is None or pick.efficiency >= LITTLE_LOST or pick.baseline is None:
        if answer.explain:
            yield f"{answer.explain} says where its time goes."
        return
    baseline = environment.counted(pick.baseline.num_gpus, pick.baseline.hosts)
    why = f"; {answer.explain} says what holds it back" if answer.explain else ""
    yield (
        f"It reaches {pick.speed_up:.2f}x of what it does on {baseline}, an efficiency of "
        f"{pick.efficiency:.0%}{why}."
    )


def _changes(answer: Answer, ranking: Ranking) -> Iterator[str]:
    for one in answer.alternatives:
        if one.candidate is None:
            yield f"Mind that {one.caveat}; nothing that can be advised was tried {one.without}."
        else:
            best = described(one.candidate.result, against=ranking.pick.result)
            good = f"{one.ratio:.2f}x as good"
            yield f"Mind that {one.caveat}; {one.without} the best is {best}, {good}."


def _further(answer: Answer, ranking: Ranking) -> Iterator[str]:
    if answer.next_trials:
        yield "The cheapest trials that could change this stand below."
    elif answer.question.environment.origin is Origin.PUBLISHED:
        command = measure_it(answer.question, ranking.pick.result)
        if command:
            yield f"These are published figures; to measure on your own machine: {command}"


def _names(behind: Sequence[Behind], top: Candidate) -> str:
    return _listed([described(one.candidate.result, against=top.result) for one in behind])


def _listed(choices: Sequence[str]) -> str:
    return listed_phrases(shortened(choices, _MOST_NAMED))
