"""Words for explanations: the terminal and the report print these."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis import again
from analysis.advise.description import cells, column_heading, described
from analysis.explain.ablations import ABLATION_ORDER, Ablation, reads
from analysis.explain.causes import Bound, Evidence, EvidenceKind
from analysis.explain.explanations import Explanation, StepRow
from analysis.explain.links import Links
from analysis.explain.observed import GpuClock, SlowReplicas, slower_clocks
from analysis.explain.verdicts import Confidence
from analysis.results import Result
from analysis.selection import Selection
from analysis.suspect_run import is_worth_again
from analysis.text import badges
from analysis.text.numbers import number, with_interval
from analysis.text.one_screen import NextStep, Screen
from scalemark.records.machine import DeviceKind
from scalemark.records.overrides import ID_DIGITS
from scalemark.text.wording import listed

COLUMNS = ("where the step goes", "ms [95 % CI]", "share", "trials")
_MOST_ROWS = 10
_MOST_TRIALS = 2  # that a line of evidence names
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

Explained = tuple[Result, Explanation]


def screen(explained: Sequence[Explained], selection: Selection) -> Screen:
    """Return where the step of one trial goes, or of several the verdicts, the worst first.

    `selection` is what was asked for: commands name its database.
    """
    if len(explained) > 1:
        return _of_several(explained, selection)
    ((target, explanation),) = explained
    marks = [*badges.of_environment(target.environment), *badges.of_result(target)]
    headline = [verdict(target, explanation)]
    slow = explanation.slow_replicas
    if slow.slow and explanation.diagnosis.bound is not Bound.SLOW_REPLICA:
        headline.append(f"{_by_times(slow)}.")
    if marks:
        headline.append(_sentence(", ".join(marks)))
    return Screen(
        headlines=(" ".join(headline),),
        columns=COLUMNS,
        rows=list(rows(target, explanation)),
        right=frozenset(("share",)),
        most_rows=_MOST_ROWS,
        next_step=_next_step(explained, selection),
        badges=frozenset(marks),
    )


def _of_several(explained: Sequence[Explained], selection: Selection) -> Screen:
    worst_first = sorted(explained, key=_lost, reverse=True)
    targets = [target for target, _ in worst_first]
    of_model: dict[object, list[Result]] = defaultdict(list)
    for target in targets:
        of_model[target.axes["model"]].append(target)
    choices = {}
    for alike in of_model.values():
        for target, choice in zip(alike, cells(alike, alike[0]), strict=True):
            choices[target.environment.key, target.trial_id] = choice
    used: set[str] = set()
    lines = []
    for target, explanation in worst_first:
        marks = badges.of_result(target)
        used |= {*marks, *badges.of_environment(target.environment)}
        lost = "?"
        if explanation.steps.efficiency is not None:
            lost = percent(1 - explanation.steps.efficiency)
        bound = _bound(explanation)
        choice = choices[target.environment.key, target.trial_id]
        lines.append((explanation.target.model, choice, lost, bound, ", ".join(marks)))
    return Screen(
        headlines=tuple(_headlines(worst_first)),
        columns=("model", column_heading(targets[0]), "lost", "held back by", "doubts"),
        rows=lines,
        right=frozenset(("lost",)),
        most_rows=_MOST_ROWS,
        next_step=_next_step(_fastest_first(worst_first), selection),
        badges=frozenset(used),
    )


def _lost(explained: Explained) -> float:
    efficiency = explained[1].steps.efficiency
    return 0.0 if efficiency is None else 1 - efficiency


def _headlines(worst_first: Sequence[Explained]) -> Iterator[str]:
    """Yield how many trials are held back by what, and the verdict on the worst."""
    bounds = Counter(
        str(explanation.diagnosis.bound or "cannot tell") for _, explanation in worst_first
    )
    counts = [f"{num} {bound}" for bound, num in bounds.items()]
    yield f"{len(worst_first)} trials: {', '.join(counts)}."
    for target, explanation in worst_first:
        if explanation.diagnosis.bound not in (None, Bound.HEALTHY):
            yield verdict(target, explanation)
            return


def _bound(explanation: Explanation) -> str:
    bound = explanation.diagnosis.bound
    if bound is None:
        return "cannot tell"
    if explanation.diagnosis.confidence is Confidence.LIKELY:
        return f"probably {bound}"
    return str(bound)


def name(target: Result) -> str:
    """Return as `vgg16, replicated_nccl on 8 GPUs, batch_size 32, fp32`."""
    return f"{target.axes['model']}, {described(target)}"


def verdict(target: Result, explanation: Explanation) -> str:
    """Return the answer in a sentence, then how much of the ideal is reached, then a doubt."""
    diagnosis, steps = explanation.diagnosis, explanation.steps
    if diagnosis.bound is None:
        return f"{name(target)}: cannot tell what holds it back. {_sentence(diagnosis.why)}"
    is_likely = diagnosis.confidence is Confidence.LIKELY
    bound = _VERDICTS.get(diagnosis.bound, diagnosis.bound)
    sentences = [f"{name(target)} is {'probably ' if is_likely else ''}{bound}: {diagnosis.why}."]
    is_wide = explanation.target.num_gpus > 1 and diagnosis.bound is not Bound.HEALTHY
    if steps.efficiency is not None and is_wide:
        sentences.append(f"It reaches {percent(steps.efficiency)} of {steps.ideal}.")
    if is_likely:
        sentences.append(f"Not sure: {diagnosis.doubts[0]}.")
    return " ".join(sentences)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def rows(target: Result, explanation: Explanation) -> Iterator[tuple[str, ...]]:
    """Yield the step from its base upwards, the whole step, and what overlaps its parts."""
    steps, environment = explanation.steps, target.environment
    names = {
        Ablation.ALONE: f"{environment.counted(1)} alone: compute",
        Ablation.ALONE_READING: f"{environment.counted(1)} alone, with its input",
        Ablation.INDEPENDENT: f"{environment.counted(target.num_gpus)}, each for itself",
    }
    base, *parts = steps.parts
    yield _row(names.get(steps.base, "not known: the whole step"), base)
    for part in parts:
        yield _row(part.what, part)
    whole = StepRow(what="", seconds=steps.step, share=1.0, trials=(target.trial_id,))
    yield _row("= the step", whole)
    for row in steps.within:
        yield _row(f"within: {row.what}", row)


def _row(what: str, row: StepRow) -> tuple[str, ...]:
    ms = row.seconds.times(1e3)
    trials = " - ".join(trial[:ID_DIGITS] for trial in row.trials)
    return what, with_interval(ms.value, ms.low, ms.high), percent(row.share), trials


def percent(share: float) -> str:
    """Format a share, with digits where it would else read as the threshold that it misses."""
    if 0.095 <= share < 0.105 or 0.895 <= share < 0.905:
        return f"{100 * share:.3g}%"
    return f"{share:.0%}"


def sentences(target: Result, explanation: Explanation) -> Iterator[str]:
    """Yield what the verdict rests on, why it is not surer, what else was seen, and notes."""
    seen, kind = explanation.seen, target.environment.device_kind
    for evidence in explanation.diagnosis.evidence:
        yield _evidence(evidence)
    further = explanation.diagnosis.doubts
    if explanation.diagnosis.bound is not None:
        further = further[1:]  # the verdict has the first
    if further:
        yield f"Further doubts: {'; '.join(further)}."
    if reads(target.axes) and seen.data_wait_share is not None:
        yield f"{percent(seen.data_wait_share)} of the measured time was spent waiting for batches."
    if seen.cores_taken is not None and seen.cores_taken >= 0.05:
        yield f"Other programs took {percent(seen.cores_taken)} of the cores."
    if seen.clock_loss is not None and seen.clock_loss >= 0.005:
        throttled = f" ({', '.join(seen.throttled)})" if seen.throttled else ""
        yield f"The slowest GPU ran {percent(seen.clock_loss)} below its highest clock{throttled}."
    if seen.profile:
        yield _profile(seen.profile)
    yield from slow_replica(explanation.slow_replicas, seen.gpus, kind)
    if explanation.links is not None:
        yield _links(explanation.links, explanation)
    for note in explanation.notes:
        yield _sentence(note)
    if explanation.steps.within:
        yield "Rows within overlap those above; only these add up to the step."


def _evidence(evidence: Evidence) -> str:
    ms = evidence.seconds.times(1e3)
    known = "estimated" if evidence.kind is EvidenceKind.CORES else "observed"
    trials = " - ".join(trial[:ID_DIGITS] for trial in evidence.trials)
    if len(evidence.trials) > _MOST_TRIALS:
        trials = f"{len(evidence.trials)} trials"
    seconds = with_interval(ms.value, ms.low, ms.high)
    return f"Evidence by {evidence.kind}: {seconds} ms {known}; {trials}."


def _profile(profile: Mapping[str, Any]) -> str:
    """Return what a profile has of a step; reductions only where it has any."""
    step_s, parts = profile["step_s"], []
    if profile["reduction_s"]:
        reducing = percent(profile["reduction_s"] / step_s)
        exposed = percent(profile["exposed_reduction_s"] / step_s)
        parts.append(f"gradients are reduced for {reducing} of a step, {exposed} of it alone")
    if profile["launch_gap_share"] is not None:
        idle = f"GPUs are idle between kernels for {percent(profile['launch_gap_share'])}"
        between = profile.get("step_gap_share")
        if between is not None:
            idle = f"{idle} and between steps for {percent(between)}"
        parts.append(idle)
    parts.append(f"they wait for input for {percent(profile['input_wait_s'] / step_s)}")
    return f"By TensorFlow's profile, which takes time itself, {'; '.join(parts)}."


def _links(links: Links, explanation: Explanation) -> str:
    """Return what the links would take, beside what was lost."""
    rate = f"at {number(links.bytes_per_s / 1e9)} GB/s ({links.known_by})"
    sentence = f"{number(links.sent_bytes / 1e6)} MB of gradients take {_ms(links.check_s)} {rate}"
    if links.seconds is not None:
        strategy = explanation.target.strategy
        sentence += f"; by the cost model {strategy} takes up to {_ms(links.seconds)}"
    for part in explanation.steps.parts[1:]:
        if "communication" in part.what and links.at_most_s is not None:
            sentence += f"; {_ms(max(0.0, part.seconds.value))} were lost to {part.what}"
            if part.seconds.value > links.at_most_s:
                sentence += ", which the links do not explain"
    return f"{sentence}."


def _ms(seconds: float) -> str:
    return f"{number(1e3 * seconds)} ms"


def slow_replica(slow: SlowReplicas, gpus: Sequence[GpuClock], kind: DeviceKind) -> Iterator[str]:
    """Yield what the times of each replica say, and the clocks of `gpus`."""
    if slow.slowest is not None:
        where = f" (timed in {slow.timed_in[:ID_DIGITS]})" if slow.timed_in else ""
        yield f"{_by_times(slow)}{where}."
        if slow.slow and kind is DeviceKind.CPU_DEVICE:
            yield "CPU devices share the cores: what slows one of them is software."
    elif len(gpus) > 1:
        yield f"Which replica is slow cannot be told: {slow.unknown}; replica_times=true times it."
    for gpu, usual_mhz in slower_clocks(gpus):
        why = f", for {listed(gpu.reasons)}" if gpu.reasons else ""
        gpu_name = gpu.uuid if gpu.replica is None else f"Replica {gpu.replica} ({gpu.uuid})"
        yield f"{gpu_name} ran at {gpu.clock_mhz:.0f} MHz, the others at {usual_mhz:.0f} MHz{why}."


def _by_times(slow: SlowReplicas) -> str:
    if slow.unknown:
        return f"Which replica is slow cannot be told: {slow.unknown}"
    if not slow.slow:
        assert slow.slowest is not None  # it has times
        return (
            f"No replica is slow: {slow.slowest.replica}, the slowest, takes at most "
            f"{slow.slowest.high:.0%} longer than the others"
        )
    names = listed([replica.replica for replica in slow.slow])
    longer = listed(
        [f"{replica.value:.0%} [{replica.low:.0%}, {replica.high:.0%}]" for replica in slow.slow]
    )
    if len(slow.slow) == 1:
        return f"{names} is slow: its own compute takes {longer} longer than the others'"
    return f"{names} are slow: their own compute takes {longer} longer than the others'"


def missing(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield trials that would say more, and the command for each."""
    for trial in explanation.missing:
        if trial.command or trial.ablation in ABLATION_ORDER:
            yield _SHOWS[trial.ablation], trial.command


def _fastest_first(worst_first: Sequence[Explained]) -> list[Explained]:
    """Put the fastest of each model first whose replicas train together: advice takes these."""
    fastest: dict[object, Explained] = {}
    for explained in worst_first:
        target = explained[0]
        key = target.environment.key, target.axes["model"]
        known = fastest.get(key)
        is_faster = known is None or (target.throughput or 0) > (known[0].throughput or 0)
        if is_faster and not target.trains_apart:
            fastest[key] = explained
    return [*sorted(fastest.values(), key=_lost, reverse=True), *worst_first]


def _next_step(explained: Sequence[Explained], selection: Selection) -> NextStep | None:
    """Return the first remedy, else the first trial that is missing; before either the repeats of a
    suspect single run.
    """
    targets = [target for target, _ in explained]
    for target, explanation in explained:
        of_which = f"{name(target)}: " if len(explained) > 1 else ""
        if is_worth_again(target, targets):
            why = f"{of_which}measure it again, it is one suspect run"
            return NextStep(why=why, commands=(again.again(target, _REPEATS),))
        for remedy in explanation.remedies:
            if remedy.command:
                trials = target.trial_id[:ID_DIGITS], remedy.trial_id[:ID_DIGITS]
                return NextStep(
                    why=f"{of_which}try {remedy.change}, for {remedy.why}",
                    commands=(remedy.command,),
                    then=selection.analysis("compare", *trials),
                )
        if explanation.diagnosis.bound is Bound.SLOW_REPLICA:
            remedy = explanation.remedies[-1]
            return NextStep(why=f"{of_which}try {remedy.change}, for {remedy.why}")
        for what, command in missing(explanation):
            if command:
                trial = target.trial_id[:ID_DIGITS]
                then = selection.analysis("explain", "--trial", trial)
                return NextStep(why=f"{of_which}run {what}", commands=(command,), then=then)
        if explanation.measure_all:
            why = f"{of_which}measure it on your own machine"
            return NextStep(why=why, commands=(explanation.measure_all,))
    return None
