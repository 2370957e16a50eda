"""Words for explanations: the terminal and the report print these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis import again
from analysis.explain.ablations import ABLATION_ORDER, Ablation, reads
from analysis.explain.explanations import Explanation, Row
from analysis.explain.observed import GpuClock, SlowReplicas, slower_clocks
from analysis.explain.suspects import Bound, Method
from analysis.explain.verdicts import Confidence
from analysis.results import Result, setting
from analysis.selection import Selection
from analysis.suspect_run import is_worth_again
from analysis.text import badges
from analysis.text.numbers import number, with_interval
from analysis.text.one_screen import NextStep, Screen
from analysis.text.titles import named
from scalemark.records.machine import DeviceKind
from scalemark.records.overrides import ID_DIGITS, OF_PRECISION
from scalemark.records.references import Origin
from scalemark.records.trial import unusual_axes
from scalemark.text.wording import listed

COLUMNS = ("where the step goes", "ms [95 % CI]", "share", "trials")
_MOST_ROWS = 10
_MOST_TRIALS = 2  # that a line of evidence names
_REPEATS = 3  # of a suspect single run

Explained = tuple[Result, Explanation]


def title(target: Result) -> str:
    """Return as `vgg16 on 8 GPUs: replicated_nccl, batch_size 32, fp32, synthetic data`."""
    axes = target.axes
    words = [target.strategy, f"batch_size {axes['batch_size']}"]
    for size in ("image_px", "seq_len"):
        if axes.get(size):
            words.append(f"{size} {axes[size]}")
    words += [str(axes["precision"]), f"{axes['data']} data"]
    if target.environment.origin is not Origin.PUBLISHED:
        for axis in unusual_axes(axes):
            if axis not in ("precision", "data", "hosts", "seq_len"):  # said already
                words.append(f"{axis}={axes[axis]}")
    return f"{axes['model']} on {target.counted}: {', '.join(words)}"


def verdict(explanation: Explanation) -> str:
    """Return the answer in one sentence, and how much of the ideal is reached."""
    diagnosis, steps = explanation.diagnosis, explanation.steps
    why = "; ".join(diagnosis.evidence)
    if diagnosis.bound is None:
        return f"Cannot tell: {why}."
    likely = "" if diagnosis.confidence is Confidence.SURE else " (likely)"
    sentence = f"Verdict: {diagnosis.bound}{likely}: {why}."
    is_wide = explanation.target.num_gpus > 1 and diagnosis.bound is not Bound.HEALTHY
    if steps.efficiency is None or not is_wide:
        return sentence
    return f"{sentence} It reaches {percent(steps.efficiency)} of {steps.ideal}."


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
    whole = Row(what="", seconds=steps.step, share=1.0, trials=(target.trial_id,))
    yield _row("= the step", whole)
    for row in steps.within:
        yield _row(f"within: {row.what}", row)


def _row(what: str, row: Row) -> tuple[str, ...]:
    ms = row.seconds.times(1e3)
    trials = " - ".join(trial[:ID_DIGITS] for trial in row.trials)
    return what, with_interval(ms.value, ms.low, ms.high), percent(row.share), trials


def percent(share: float) -> str:
    """Format a share, with digits where it would else read as the threshold that it misses."""
    if 0.095 <= share < 0.105 or 0.895 <= share < 0.905:
        return f"{100 * share:.3g}%"
    return f"{share:.0%}"


def evidence(explanation: Explanation) -> Iterator[str]:
    """Yield what the verdict rests on: seconds, and the trials."""
    for suspect in explanation.diagnosis.rests_on:
        ms = suspect.seconds.times(1e3)
        known = "estimated" if suspect.method is Method.CORES else "observed"
        trials = " - ".join(trial[:ID_DIGITS] for trial in suspect.trials)
        if len(suspect.trials) > _MOST_TRIALS:
            trials = f"{len(suspect.trials)} trials"
        seconds = with_interval(ms.value, ms.low, ms.high)
        yield f"Evidence ({suspect.method}): {seconds} ms {known}; {trials}."


def sentences(target: Result, explanation: Explanation) -> Iterator[str]:
    """Yield why the verdict is not surer, what else was seen, and what must be known."""
    seen, kind = explanation.seen, target.environment.device_kind
    if explanation.diagnosis.doubts:
        yield f"Not sure, because {'; '.join(explanation.diagnosis.doubts)}."
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
        yield _links(explanation)
    for note in explanation.notes:
        yield f"{note[0].upper()}{note[1:]}."
    if explanation.steps.within:
        yield "Rows within overlap those above; only these add up to the step."


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


def _links(explanation: Explanation) -> str:
    """Return what the links would take, beside what was lost."""
    links, strategy = explanation.links, explanation.target.strategy
    assert links is not None
    rate = f"at {number(links.bytes_per_s / 1e9)} GB/s ({links.known_by})"
    sentence = f"{number(links.sent_bytes / 1e6)} MB of gradients take {_ms(links.check_s)} {rate}"
    if links.is_between_hosts:
        return f"Over the busiest link between hosts {sentence}."
    if links.seconds is not None:
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
        name = gpu.uuid if gpu.replica is None else f"Replica {gpu.replica} ({gpu.uuid})"
        yield f"{name} ran at {gpu.clock_mhz:.0f} MHz, the others at {usual_mhz:.0f} MHz{why}."


def _by_times(slow: SlowReplicas) -> str:
    if slow.unknown:
        return f"Which replica is slow cannot be told: {slow.unknown}"
    if not slow.slow:
        assert slow.slowest is not None  # it has times
        return (
            f"No replica is slow: {slow.slowest.replica}, the slowest, takes at most "
            f"{slow.slowest.high:.0%} longer than the others"
        )
    names = [one.replica for one in slow.slow]
    longer = [f"{one.value:.0%} [{one.low:.0%}, {one.high:.0%}]" for one in slow.slow]
    if len(names) == 1:
        return f"{names[0]} is slow: its own compute takes {longer[0]} longer than the others'"
    return (
        f"{listed(names)} are slow: their own compute takes {listed(longer)} longer than the "
        "others'"
    )


def missing(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yield trials that would say more, and the command for each."""
    for trial in explanation.missing:
        if trial.command or trial.ablation in ABLATION_ORDER:
            yield f"Missing, {_SHOWS[trial.ablation]}", trial.command


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


def screen(explained: Sequence[Explained], selection: Selection) -> Screen:
    """Return where the step of one trial goes, or of several the verdicts, the worst first.

    `selection` is what was asked for: commands name its database.
    """
    if len(explained) > 1:
        return _of_several(explained, selection)
    ((target, explanation),) = explained
    marks = [*badges.of_environment(target.environment), *badges.of_result(target)]
    marked = f" ({', '.join(marks)})" if marks else ""
    headline = [f"{title(target)}{marked}. {verdict(explanation)}"]
    slow = explanation.slow_replicas
    if slow.slow and explanation.diagnosis.bound is not Bound.SLOW_REPLICA:
        headline.append(f"{_by_times(slow)}.")
    return Screen(
        headlines=(" ".join(headline), *list(evidence(explanation))[:1]),
        columns=COLUMNS,
        rows=list(rows(target, explanation)),
        right=frozenset(("share",)),
        most_rows=_MOST_ROWS,
        next_step=_next_step(explained, selection),
        badges=frozenset(marks),
    )


def _of_several(explained: Sequence[Explained], selection: Selection) -> Screen:
    worst_first = sorted(explained, key=_lost, reverse=True)
    shown = worst_first[:_MOST_ROWS]
    varying = _varying([target for target, _ in shown])
    used: set[str] = set()
    lines = []
    for target, explanation in worst_first:
        bound = str(explanation.diagnosis.bound or "cannot tell")
        if explanation.diagnosis.confidence is Confidence.LIKELY:
            bound = f"{bound} (likely)"
        marks = badges.of_result(target)
        used |= {*marks, *badges.of_environment(target.environment)}
        known = explanation.steps.efficiency is not None
        lost = percent(_lost((target, explanation))) if known else "?"
        model, way = explanation.target.model, _way(target, varying)
        lines.append((model, way, target.width, lost, bound, ", ".join(marks)))
    kinds = {target.environment.device_kind for target, _ in explained}
    devices = "devices" if DeviceKind.CPU_DEVICE in kinds else "GPUs"
    return Screen(
        headlines=tuple(_headlines(worst_first, varying)),
        columns=("model", "strategy", devices, "lost", "held back by", "doubts"),
        rows=lines,
        right=frozenset((devices, "lost")),
        most_rows=_MOST_ROWS,
        next_step=_next_step(_fastest_first(worst_first), selection, varying),
        badges=frozenset(used),
    )


def _lost(explained: Explained) -> float:
    efficiency = explained[1].steps.efficiency
    return 0.0 if efficiency is None else 1 - efficiency


def _headlines(worst_first: Sequence[Explained], varying: _Varying) -> Iterator[str]:
    """Yield how many trials are held back by what, and the evidence of the worst."""
    by_bound: dict[str, list[str]] = defaultdict(list)
    for target, explanation in worst_first:
        by_bound[str(explanation.diagnosis.bound or "cannot tell")].append(target.trial_id)
    counts = [f"{len(trials)} {bound}" for bound, trials in by_bound.items()]
    yield f"{len(worst_first)} trials: {', '.join(counts)}."
    for target, explanation in worst_first:
        if explanation.diagnosis.bound not in (None, Bound.HEALTHY):
            lines = list(evidence(explanation))[:1]
            yield " ".join([f"{_name(target, varying)}. {verdict(explanation)}", *lines])
            return


_Varying = Mapping[str, Sequence[str]]
"""The axes beside strategy and GPUs in which trials of a model differ, by model."""


def _varying(targets: Sequence[Result]) -> _Varying:
    varying: dict[str, list[str]] = defaultdict(list)
    values: dict[tuple[str, str], object] = {}
    for target in targets:
        model = str(target.axes["model"])
        for axis, value in setting(target).items():
            is_new = values.setdefault((model, axis), value) != value
            if is_new and axis not in varying[model]:
                varying[model].append(axis)
    for model, axes in varying.items():
        if "precision" in axes:  # the others follow from it, as a loss scale does
            varying[model] = [axis for axis in axes if axis not in OF_PRECISION]
    return varying


def _way(target: Result, varying: _Varying) -> str:
    values, axes = setting(target), varying.get(str(target.axes["model"]), ())
    return ", ".join([target.strategy, *(named(axis, values.get(axis)) for axis in axes)])


def _name(target: Result, varying: _Varying) -> str:
    return f"{target.axes['model']} by {_way(target, varying)} on {target.counted}"


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


def _next_step(
    explained: Sequence[Explained], selection: Selection, varying: _Varying | None = None
) -> NextStep | None:
    """Return the first remedy, else the first trial that is missing; before either the repeats of a
    suspect single run.
    """
    targets = [target for target, _ in explained]
    for target, explanation in explained:
        name = "" if varying is None else f"{_name(target, varying)}: "
        if is_worth_again(target, targets):
            why = f"{name}measure it again, it is one suspect run"
            return NextStep(why=why, commands=(again.again(target, _REPEATS),))
        for remedy in explanation.remedies:
            if remedy.command:
                trials = target.trial_id[:ID_DIGITS], remedy.trial_id[:ID_DIGITS]
                return NextStep(
                    why=f"{name}try {remedy.change}, for {remedy.why}",
                    commands=(remedy.command,),
                    then=selection.analysis("compare", *trials),
                )
        if explanation.diagnosis.bound is Bound.SLOW_REPLICA:
            remedy = explanation.remedies[-1]
            return NextStep(why=f"{name}try {remedy.change}, for {remedy.why}")
        for what, command in missing(explanation):
            if command:
                trial = target.trial_id[:ID_DIGITS]
                then = selection.analysis("explain", "--trial", trial)
                why = f"{name}{what[0].lower()}{what[1:]}"
                return NextStep(why=why, commands=(command,), then=then)
        if explanation.measure_all:
            why = f"{name}measure it on your own machine"
            return NextStep(why=why, commands=(explanation.measure_all,))
    return None
