"""Explains trials: where the time of a step goes, what holds it back, what to do, and its words."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis import again, badges
from analysis.advise.questions import cells, column_heading, described
from analysis.explain import causes, verdicts
from analysis.explain.ablations import Ablation, AblationFinder, command
from analysis.explain.waterfall import (
    NOTHING,
    UNTIMED,
    Observed,
    Seconds,
    SlowReplicas,
    Waterfall,
    percent,
    shares_cores,
    waterfall,
)
from analysis.results import Result, with_number
from analysis.screen import NextStep, Screen
from analysis.selection import Selection
from analysis.titles import host_notes, with_interval
from scalemark.records.overrides import ID_DIGITS
from scalemark.text.wording import in_all, listed


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A part of a step, or what overlaps parts."""

    what: str
    seconds: Seconds | None  # None where the time of a step is unknown
    share: float  # of the step
    trials: tuple[str, ...]  # of a difference what is subtracted comes last


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitStep:
    """The step of the target, taken apart."""

    step: Seconds | None  # None where it is unknown
    efficiency: float | None  # against the ideal: 1.0 loses nothing
    ideal: str  # what that is, as `8 times replicated_nccl on 1 GPU`; empty where there is none
    base: Ablation  # what the parts stand on
    parts: tuple[StepRow, ...]  # the base first; they add up to the step
    within: tuple[StepRow, ...]  # what overlaps the parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that is known of what holds one trial back."""

    target: Result
    steps: SplitStep
    diagnosis: verdicts.Diagnosis
    seen: Observed
    slow_replicas: SlowReplicas
    remedies: tuple[verdicts.Remedy, ...]
    missing: Mapping[Ablation, str]  # trials that would say more -> the command; empty without
    notes: tuple[str, ...]  # what must be known beside it, as sentences


def explain_all(
    targets: Iterable[Result],
    finder: AblationFinder,
    observe: Callable[[Result], Observed],
) -> list[Explanation]:
    """Explain results that have a number; `finder` has all that they may be compared with."""
    ways = causes.OtherWays(finder.results)
    return [_explain(target, finder, ways, observe) for target in targets]


def _explain(
    target: Result,
    finder: AblationFinder,
    ways: causes.OtherWays,
    observe: Callable[[Result], Observed],
) -> Explanation:
    fall = waterfall(finder.around(target))
    of_ablations = {name: observe(result) for name, result in fall.ablations.results.items()}
    seen = of_ablations[fall.ablations.own]
    slow, waiting = _slow_replicas(fall, seen, of_ablations.get(Ablation.INDEPENDENT, NOTHING))
    case = causes.Case(fall=fall, seen=seen, of_ablations=of_ablations, ways=ways, waiting=waiting)
    diagnosis = verdicts.diagnose(case)
    refuted = []  # axes that trials have shown to bring nothing
    if fall.calls and fall.share(fall.calls.seconds.value) < verdicts.MATTERS:
        refuted.append("steps_per_execution")
    if fall.ablations.own is Ablation.DISTORTING and Ablation.READING in fall.ablations.results:
        refuted.append("distortions")  # without them it is an ablation already
    offered = verdicts.remedies(diagnosis.bound, target, seen.num_cores, refuted=refuted)
    if diagnosis.bound is causes.Bound.SLOW_REPLICA:
        offered = [verdicts.against_slow(slow.slow[0].replica, target.environment.device_kind)]
    missing = {ablation: command(ablation, target) for ablation in fall.ablations.missing}
    return Explanation(
        target=target,
        steps=_steps(fall, diagnosis),
        diagnosis=diagnosis,
        seen=seen,
        slow_replicas=slow,
        remedies=tuple(offered),
        missing=missing,
        notes=tuple(host_notes([target])),
    )


def _steps(fall: Waterfall, diagnosis: verdicts.Diagnosis) -> SplitStep:
    first = fall.parts[0].before if fall.parts else fall.target
    parts, within = [_row(fall, str(fall.base), fall.base_s, (first.trial_id,))], []
    for part in fall.parts:
        parts.append(_row(fall, " or ".join(part.causes), part.seconds, part.trials))
    for what, beside in (
        ("calls of the function", fall.calls),
        ("fixed, whatever the batch", fall.fixed),
        ("the trivial model's whole step", fall.floor),
    ):
        if beside is not None:
            within.append(_row(fall, what, beside.seconds, beside.trials))
    for cause in diagnosis.causes:
        if cause.bound is causes.Bound.SLOW_REPLICA:
            within.append(_row(fall, "the slow replica", cause.seconds, cause.trials))
    ideal = ""
    if fall.ideal and shares_cores(fall.target):
        ideal = f"{fall.target.num_gpus} independent replicas"
    elif fall.ideal:
        alone = f"{fall.ideal.strategy} on {fall.ideal.counted}"
        if fall.ideal.trains_apart:
            alone = "one replica alone"
        ideal = f"{fall.target.num_gpus} times {alone}"
    return SplitStep(
        step=fall.step,
        efficiency=fall.efficiency,
        ideal=ideal,
        base=fall.base,
        parts=tuple(parts),
        within=tuple(within),
    )


def _row(fall: Waterfall, what: str, seconds: Seconds, trials: Sequence[str]) -> StepRow:
    share = fall.share(seconds.value)
    return StepRow(what=what, seconds=seconds, share=share, trials=tuple(trials))


def _slow_replicas(
    fall: Waterfall, seen: Observed, of_independent: Observed
) -> tuple[SlowReplicas, causes.Evidence | None]:
    """Return which replica is slow, and what the others wait for it.

    Of CPU devices nothing is waited: they share cores, and those that wait leave theirs to the slow
    one.
    """
    times, timed = seen.replica_times, fall.target
    if of_independent.replica_times and not times:
        times, timed = of_independent.replica_times, fall.ablations.results[Ablation.INDEPENDENT]
    if not times:
        return UNTIMED, None
    # here, because numpy's import takes long, and few trials time their replicas
    from analysis.explain.slow_replica import slow_replicas

    slow = slow_replicas(times)
    if timed is not fall.target:
        slow = replace(slow, timed_in=timed.trial_id)
    if not slow.slow or shares_cores(timed):
        return slow, None
    slowest = slow.slow[0]
    others_s = slowest.others_s * (1 - slow.since)  # of the mean step
    seconds = Seconds(
        value=slowest.value * others_s,
        low=slowest.low * others_s,
        high=slowest.high * others_s,
        over_processes=len(times) > 1,
    )
    waiting = causes.Evidence(
        bound=causes.Bound.SLOW_REPLICA,
        seconds=seconds,
        because=(
            f"all wait for {slowest.replica}, whose own compute takes {slowest.value:.0%} longer"
            f"{slow.since_when}, for {fall.share(seconds.value):.0%} of the step"
        ),
        trials=(timed.trial_id,),
    )
    return slow, waiting


def of_each_curve(results: Sequence[Result], finder: AblationFinder) -> list[Result]:
    """Choose the result on the most GPUs of each curve.

    A result that is an ablation of another one is left out: there it is explained already.
    """
    largest: dict[tuple[object, ...], Result] = {}
    for result in with_number(results):
        injected = result.axes.get("injected", "")
        key = (result.environment.key, result.item, result.curve, result.hosts, injected)
        if not result.axes["batch_size"]:
            continue
        if key not in largest or result.num_gpus > largest[key].num_gpus:
            largest[key] = result
    within: set[tuple[str, str]] = set()
    for result in largest.values():
        for ablation in finder.around(result).results.values():
            if ablation.trial_id != result.trial_id:
                within.add((ablation.environment.key, ablation.trial_id))
    tops = []
    for result in largest.values():
        if (result.environment.key, result.trial_id) not in within:
            tops.append(result)
    return tops or list(largest.values())


COLUMNS = ("where the step goes", "ms [95 % CI]", "share", "trials")
_MOST_ROWS = 10
_REPEATS = 3  # of a suspect single run
_SHOWS = {
    Ablation.ALONE: "one replica alone, the ideal",
    Ablation.INDEPENDENT: "independent replicas, which tell contention from communication",
    Ablation.REDUCING: "the same on synthetic data, which shows what the input costs",
    Ablation.READING: "the same without distortions",
    Ablation.MANY_STEPS: "many steps per call, which show what calls cost",
    Ablation.LARGER_BATCH: "a larger batch, which shows what is fixed",
    Ablation.FLOOR: "the trivial model, the floor of a step",
    Ablation.TAKEN_APART: "the same timed from inside, which shows where its step goes",
}
_VERDICTS = {
    causes.Bound.CONTENTION: "slowed by contention",
    causes.Bound.SLOW_REPLICA: "held back by a slow replica",
}


def screen(explained: Sequence[Explanation], selection: Selection) -> Screen:
    """Return where the step of one trial goes, or of several the verdicts, the worst first.

    `selection` is what was asked for: commands name its database.
    """
    used: set[str] = set()
    for explanation in explained:
        used.update(badges.of_environment(explanation.target.environment))
    if len(explained) == 1:
        (explanation,) = explained
        headline, slow = verdict(explanation), explanation.slow_replicas
        if slow.slow and explanation.diagnosis.bound is not causes.Bound.SLOW_REPLICA:
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
    each = [line[-1].split(", ") for line in lines]
    for doubts in each:
        used.update(doubts)
    shared = in_all(each)  # what all share stands at the foot alone
    for place, doubts in enumerate(each):
        own = [doubt for doubt in doubts if doubt not in shared]
        lines[place] = (*lines[place][:-1], ", ".join(own))
    # how many trials are held back by what, and the verdict on the worst
    bounds = Counter(str(each.diagnosis.bound or "unclear") for each in worst_first)
    counts = ", ".join([f"{num} {bound}" for bound, num in bounds.items()])
    headlines = [f"{len(worst_first)} trials: {counts}."]
    held_back = [each for each in worst_first if each.diagnosis.bound is not causes.Bound.HEALTHY]
    if held_back:
        worst = min(held_back, key=lambda each: each.diagnosis.bound is None)
        headlines.append(verdict(worst))
    heading = column_heading(worst_first[0].target)
    return Screen(
        headlines=tuple(headlines),
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
    is_likely = diagnosis.confidence is verdicts.Confidence.LIKELY
    bound = _VERDICTS.get(diagnosis.bound, diagnosis.bound)
    sentences = [f"{name} is {'probably ' if is_likely else ''}{bound}: {diagnosis.why}."]
    is_wide = explanation.target.num_gpus > 1 and diagnosis.bound is not causes.Bound.HEALTHY
    if steps.efficiency is not None and is_wide:
        sentences.append(f"It reaches {percent(steps.efficiency)} of {steps.ideal}.")
    if is_likely:
        sentences.append(f"Not sure: {diagnosis.doubts[0]}.")
    return " ".join(sentences)


def rows(explanation: Explanation) -> Iterator[tuple[str, ...]]:
    """Yield the step from its base upwards, the whole step, and what overlaps its parts."""
    steps, target = explanation.steps, explanation.target
    base, *parts = steps.parts
    names = {
        Ablation.ALONE: f"{target.environment.counted(1)} alone: compute",
        Ablation.ALONE_READING: f"{target.environment.counted(1)} alone, with its input",
        Ablation.INDEPENDENT: f"{target.environment.counted(target.num_gpus)}, each for itself",
        Ablation.TAKEN_APART: base.what,
    }
    yield _cells(names.get(steps.base, "not known: the whole step"), base)
    for part in parts:
        yield _cells(part.what, part)
    whole = StepRow(what="", seconds=steps.step, share=1.0, trials=(target.trial_id,))
    yield _cells("= the step", whole)
    for row in steps.within:
        yield _cells(f"within: {row.what}", row)


def slow_replica(slow: SlowReplicas) -> str:
    """Return which replica is slow, or why it is unknown."""
    if slow.unknown or slow.slowest is None:
        return f"Which replica is slow cannot be told: {slow.unknown}"
    if not slow.slow:
        high = f"{slow.slowest.high:.0%}"
        return f"No replica is slow: {slow.slowest.replica} takes at most {high} longer"
    names = listed([replica.replica for replica in slow.slow])
    times = []
    for replica in slow.slow:
        times.append(f"{replica.value:.0%} [{replica.low:.0%}, {replica.high:.0%}]")
    longer = listed(times)
    if len(slow.slow) == 1:
        since = slow.since_when
        return f"{names} is slow{since}: its own compute takes {longer} longer than the others'"
    return f"{names} are slow: their own compute takes {longer} longer than the others'"


def named(target: Result) -> str:
    """Return as `vgg16, replicated_nccl on 8 GPUs, batch_size 32, fp32`."""
    model, how = target.axes["model"], described(target)
    if target.strategy == model:  # a program without axes of its own
        return how
    return f"{model}, {how}"


def _cells(what: str, row: StepRow) -> tuple[str, ...]:
    shown = "?"
    if row.seconds is not None:
        ms = row.seconds.times(1e3)
        shown = with_interval(ms.value, ms.low, ms.high)
    trials = " - ".join(trial[:ID_DIGITS] for trial in row.trials)
    return what, shown, percent(row.share), trials


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
        lost = "?"
        if explanation.steps.efficiency is not None:
            lost = percent(_lost(explanation))
        bound = str(diagnosis.bound or diagnosis.confidence)
        if diagnosis.confidence is verdicts.Confidence.LIKELY:
            bound = f"probably {bound}"
        choice = choices[target.environment.key, target.trial_id]
        doubts = ", ".join(badges.of_result(target))
        yield str(target.axes["model"]), choice, lost, bound, doubts


def _lost(explanation: Explanation) -> float:
    if explanation.steps.efficiency is None:
        return 0.0
    return 1 - explanation.steps.efficiency


def _fastest_first(worst_first: Sequence[Explanation]) -> list[Explanation]:
    """Put the fastest of each model whose replicas train together first, what is healthy last."""
    fastest: dict[object, Explanation] = {}
    for explanation in worst_first:
        target = explanation.target
        key = target.environment.key, target.axes["model"]
        known = fastest.get(key)
        is_faster = known is None or (target.throughput or 0) > (known.target.throughput or 0)
        if is_faster and not target.trains_apart:
            fastest[key] = explanation
    in_order = [*sorted(fastest.values(), key=_lost, reverse=True), *worst_first]
    return sorted(in_order, key=lambda each: each.diagnosis.bound is causes.Bound.HEALTHY)


def _next_step(explained: Sequence[Explanation], selection: Selection) -> NextStep | None:
    """Return the first remedy, else the first missing trial; before both, repeats of a suspect."""
    targets = [explanation.target for explanation in explained]
    for explanation in explained:
        target = explanation.target
        trial = target.trial_id[:ID_DIGITS]
        of_which = f"{named(target)}: " if len(explained) > 1 else ""
        if again.is_worth_again(target, targets):
            why = f"{of_which}measure it again, for it is one suspect run"
            return NextStep(why=why, commands=(again.rerun_command(target, _REPEATS),))
        for remedy in explanation.remedies:
            why = f"{of_which}try {remedy.change}, for {remedy.why}"
            if remedy.command:
                then = selection.analysis("compare", trial, remedy.trial_id[:ID_DIGITS])
                return NextStep(why=why, commands=(remedy.command,), then=then)
            if explanation.diagnosis.bound is causes.Bound.SLOW_REPLICA:
                return NextStep(why=why)
        for ablation, text in explanation.missing.items():
            if text:
                why = f"{of_which}run {_SHOWS[ablation]}"
                then = selection.analysis("explain", "--trial", trial)
                return NextStep(why=why, commands=(text,), then=then)
    return None
