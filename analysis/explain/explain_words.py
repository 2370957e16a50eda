"""Words for explanations: the terminal prints these."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from analysis import again, badges
from analysis.advise.description import SHOWN, cells, column_heading, described, marks
from analysis.again import is_worth_again
from analysis.explain.ablations import Ablation
from analysis.explain.causes import Bound
from analysis.explain.explanations import Explanation, StepRow
from analysis.explain.observed import UNTIMED, SlowReplicas
from analysis.explain.verdicts import Confidence
from analysis.results import Result
from analysis.screen import NextStep, Screen
from analysis.selection import Selection
from analysis.titles import with_interval
from scalemark.records.overrides import ID_DIGITS
from scalemark.text.wording import listed

COLUMNS = ("where the step goes", "ms [95 % CI]", "share", "trials")
_MOST_ROWS = 10
_REPEATS = 3  # of a suspect single run
_SHOWS = {
    Ablation.ALONE: "one replica alone, the ideal",
    Ablation.INDEPENDENT: "independent replicas, which tell contention from communication",
    Ablation.FAST_LINKS: "the same without a slow network between hosts, which shows its cost",
    Ablation.REDUCING: "the same on synthetic data, which shows what the input costs",
    Ablation.READING: "the same without distortions",
    Ablation.MANY_STEPS: "many steps per call, which show what calls cost",
    Ablation.LARGER_BATCH: "a larger batch, which shows what is fixed",
    Ablation.FLOOR: "the trivial model, the floor of a step",
}
_VERDICTS = {
    Bound.CONTENTION: "slowed by contention",
    Bound.SLOW_REPLICA: "held back by a slow replica",
}


def screen(explained: Sequence[Explanation], selection: Selection) -> Screen:
    """Return where the step of one trial goes, or of several the verdicts, the worst first.

    `selection` is what was asked for: commands name its database.
    """
    used: set[str] = set()
    for explanation in explained:
        of_place = badges.of_environment(explanation.target.environment)
        used.update(badge for badge in of_place if badge in SHOWN)
    if len(explained) == 1:
        (explanation,) = explained
        headline, slow = verdict(explanation), explanation.slow_replicas
        if slow.slow and explanation.diagnosis.bound is not Bound.SLOW_REPLICA:
            headline += f" {slow_replica(slow)}."
        return Screen(
            headlines=(headline,),
            columns=COLUMNS,
            rows=list(rows(explanation)),
            right=frozenset(("share",)),
            most_rows=_MOST_ROWS,
            next_step=_next_step(explained, selection),
            badges=frozenset(used),
        )
    worst_first = sorted(explained, key=_lost, reverse=True)
    lines = list(_verdict_rows(worst_first))
    for line in lines:
        used.update(line[-1].split(", "))
    heading = column_heading(worst_first[0].target)
    return Screen(
        headlines=tuple(_headlines(worst_first)),
        columns=("model", heading, "lost", "held back by", "doubts"),
        rows=lines,
        right=frozenset(("lost",)),
        most_rows=_MOST_ROWS,
        next_step=_next_step(_fastest_first(worst_first), selection),
        badges=frozenset(used),
    )


def verdict(explanation: Explanation) -> str:
    """Return the answer in a sentence, then how much of the ideal is reached, then a doubt."""
    diagnosis, steps = explanation.diagnosis, explanation.steps
    name = named(explanation.target)
    if diagnosis.bound is None:
        why = f"{diagnosis.why[0].upper()}{diagnosis.why[1:]}"
        return f"{name}: cannot tell what holds it back. {why}."
    is_likely = diagnosis.confidence is Confidence.LIKELY
    bound = _VERDICTS.get(diagnosis.bound, diagnosis.bound)
    sentences = [f"{name} is {'probably ' if is_likely else ''}{bound}: {diagnosis.why}."]
    is_wide = explanation.target.num_gpus > 1 and diagnosis.bound is not Bound.HEALTHY
    if steps.efficiency is not None and is_wide:
        sentences.append(f"It reaches {percent(steps.efficiency)} of {steps.ideal}.")
    if is_likely:
        sentences.append(f"Not sure: {diagnosis.doubts[0]}.")
    return " ".join(sentences)


def rows(explanation: Explanation) -> Iterator[tuple[str, ...]]:
    """Yield the step from its base upwards, the whole step, and what overlaps its parts."""
    steps, target = explanation.steps, explanation.target
    names = {
        Ablation.ALONE: f"{target.environment.counted(1)} alone: compute",
        Ablation.ALONE_READING: f"{target.environment.counted(1)} alone, with its input",
        Ablation.INDEPENDENT: f"{target.environment.counted(target.num_gpus)}, each for itself",
    }
    base, *parts = steps.parts
    yield _row(names.get(steps.base, "not known: the whole step"), base)
    for part in parts:
        yield _row(part.what, part)
    whole = StepRow(what="", seconds=steps.step, share=1.0, trials=(target.trial_id,))
    yield _row("= the step", whole)
    for row in steps.within:
        yield _row(f"within: {row.what}", row)


def details(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield sentences with commands: slow replicas, what to try, and what is missing."""
    slow = explanation.slow_replicas
    if slow != UNTIMED:
        yield f"{slow_replica(slow)}.", ""
    for note in explanation.notes:
        yield f"{note[0].upper()}{note[1:]}.", ""
    for remedy in explanation.remedies:
        yield f"Try {remedy.change}: {remedy.why}.", remedy.command
    for missing in explanation.missing:
        yield f"Missing: {_SHOWS[missing.ablation]}.", missing.command
    if explanation.measure_all:
        yield "All but a larger batch at once:", explanation.measure_all


def slow_replica(slow: SlowReplicas) -> str:
    """Return which replica is slow, or why it is unknown."""
    if slow.unknown or slow.slowest is None:
        return f"Which replica is slow cannot be told: {slow.unknown}"
    if not slow.slow:
        high = f"{slow.slowest.high:.0%}"
        return f"No replica is slow: {slow.slowest.replica} takes at most {high} longer"
    names = listed([replica.replica for replica in slow.slow])
    longer = listed(
        [f"{replica.value:.0%} [{replica.low:.0%}, {replica.high:.0%}]" for replica in slow.slow]
    )
    if len(slow.slow) == 1:
        return f"{names} is slow: its own compute takes {longer} longer than the others'"
    return f"{names} are slow: their own compute takes {longer} longer than the others'"


def named(target: Result) -> str:
    """Return as `vgg16, replicated_nccl on 8 GPUs, batch_size 32, fp32`."""
    return f"{target.axes['model']}, {described(target)}"


def percent(share: float) -> str:
    """Format a share, with digits where it would else read as the threshold that it misses."""
    if 0.095 <= share < 0.105 or 0.895 <= share < 0.905:
        return f"{100 * share:.3g}%"
    return f"{share:.0%}"


def _row(what: str, row: StepRow) -> tuple[str, ...]:
    ms = row.seconds.times(1e3)
    trials = " - ".join(trial[:ID_DIGITS] for trial in row.trials)
    return what, with_interval(ms.value, ms.low, ms.high), percent(row.share), trials


def _verdict_rows(worst_first: Sequence[Explanation]) -> Iterator[tuple[str, ...]]:
    of_model: dict[object, list[Result]] = defaultdict(list)
    for explanation in worst_first:
        of_model[explanation.target.axes["model"]].append(explanation.target)
    choices = {}
    for alike in of_model.values():
        for target, choice in zip(alike, cells(alike, alike[0]), strict=True):
            choices[target.environment.key, target.trial_id] = choice
    for explanation in worst_first:
        target, diagnosis = explanation.target, explanation.diagnosis
        efficiency = explanation.steps.efficiency
        lost = "?" if efficiency is None else percent(1 - efficiency)
        bound = str(diagnosis.bound or diagnosis.confidence)
        if diagnosis.confidence is Confidence.LIKELY:
            bound = f"probably {bound}"
        choice = choices[target.environment.key, target.trial_id]
        doubts = ", ".join(marks(target, explanation.seen.doubts))
        yield str(target.axes["model"]), choice, lost, bound, doubts


def _headlines(worst_first: Sequence[Explanation]) -> Iterator[str]:
    """Yield how many trials are held back by what, and the verdict on the worst."""
    bounds = Counter(
        str(explanation.diagnosis.bound or Confidence.CANNOT_TELL) for explanation in worst_first
    )
    counts = [f"{num} {bound}" for bound, num in bounds.items()]
    yield f"{len(worst_first)} trials: {', '.join(counts)}."
    for explanation in worst_first:
        if explanation.diagnosis.bound not in (None, Bound.HEALTHY):
            yield verdict(explanation)
            return


def _lost(explanation: Explanation) -> float:
    efficiency = explanation.steps.efficiency
    return 0.0 if efficiency is None else 1 - efficiency


def _fastest_first(worst_first: Sequence[Explanation]) -> list[Explanation]:
    """Put the fastest of each model first whose replicas train together: advice takes these."""
    fastest: dict[object, Explanation] = {}
    for explanation in worst_first:
        target = explanation.target
        key = target.environment.key, target.axes["model"]
        known = fastest.get(key)
        is_faster = known is None or (target.throughput or 0) > (known.target.throughput or 0)
        if is_faster and not target.trains_apart:
            fastest[key] = explanation
    return [*sorted(fastest.values(), key=_lost, reverse=True), *worst_first]


def _next_step(explained: Sequence[Explanation], selection: Selection) -> NextStep | None:
    """Return the first remedy, else the first trial that is missing; before either the repeats of a
    suspect single run.
    """
    targets = [explanation.target for explanation in explained]
    for explanation in explained:
        target = explanation.target
        trial = target.trial_id[:ID_DIGITS]
        of_which = f"{named(target)}: " if len(explained) > 1 else ""
        if is_worth_again(target, targets):
            why = f"{of_which}measure it again, it is one suspect run"
            return NextStep(why=why, commands=(again.again(target, _REPEATS),))
        for remedy in explanation.remedies:
            why = f"{of_which}try {remedy.change}, for {remedy.why}"
            if remedy.command:
                then = selection.analysis("compare", trial, remedy.trial_id[:ID_DIGITS])
                return NextStep(why=why, commands=(remedy.command,), then=then)
            if explanation.diagnosis.bound is Bound.SLOW_REPLICA:
                return NextStep(why=why)
        for missing in explanation.missing:
            if missing.command:
                why = f"{of_which}run {_SHOWS[missing.ablation]}"
                then = selection.analysis("explain", "--trial", trial)
                return NextStep(why=why, commands=(missing.command,), then=then)
        if explanation.measure_all:
            why = f"{of_which}measure it on your own machine"
            return NextStep(why=why, commands=(explanation.measure_all,))
    return None
