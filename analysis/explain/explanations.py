"""Explains trials: where the time of a step goes, what holds it back, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from analysis import again
from analysis.explain.ablations import Ablation, AblationFinder, command
from analysis.explain.causes import Bound, Case, Evidence, EvidenceKind, OtherWays
from analysis.explain.observed import (
    NOTHING,
    UNTIMED,
    Observed,
    SlowReplicas,
)
from analysis.explain.remedies import Remedy, against_slow, against_throttling, remedies
from analysis.explain.verdicts import MATTERS, Diagnosis, diagnose
from analysis.explain.waterfall import Seconds, Waterfall, shares_cores, waterfall
from analysis.results import Result
from analysis.titles import host_notes
from scalemark.models import trainable
from scalemark.records import overrides
from scalemark.records.references import Origin
from scalemark.records.trial import STRATEGY_COLUMNS


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """A part of a step, or what overlaps parts."""

    what: str
    seconds: Seconds
    share: float  # of the step
    trials: tuple[str, ...]  # of a difference what is subtracted comes last


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A trial that would say more."""

    ablation: Ablation
    command: str  # that makes it; empty where there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The step of the target, taken apart."""

    step: Seconds
    efficiency: float | None  # against the ideal: 1.0 loses nothing
    ideal: str  # what that is, as `8 times replicated_nccl on 1 GPU`; empty where there is none
    base: Ablation  # what the parts stand on
    parts: tuple[StepRow, ...]  # the base first; they add up to the step
    within: tuple[StepRow, ...]  # what overlaps the parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that is known of what holds one trial back."""

    target: Result
    steps: Steps
    diagnosis: Diagnosis
    seen: Observed
    slow_replicas: SlowReplicas
    remedies: tuple[Remedy, ...]
    missing: tuple[Missing, ...]
    # the command that makes what is missing, but for a larger batch; empty where nothing is, or no
    # such model
    measure_all: str
    notes: tuple[str, ...]  # what must be known beside it, as sentences


def explain_all(
    targets: Iterable[Result],
    finder: AblationFinder,
    observe: Callable[[Result], Observed],
) -> list[Explanation]:
    """Explain results that have a number; `finder` has all that they may be compared with."""
    ways = OtherWays(finder.results)
    return [_explain(target, finder, ways, observe) for target in targets]


def _explain(
    target: Result,
    finder: AblationFinder,
    ways: OtherWays,
    observe: Callable[[Result], Observed],
) -> Explanation:
    fall = waterfall(finder.around(target))
    of_ablations = {name: observe(result) for name, result in fall.ablations.results.items()}
    seen = of_ablations[fall.ablations.own]
    slow, waiting = _slow_replicas(fall, seen, of_ablations.get(Ablation.INDEPENDENT, NOTHING))
    case = Case(fall=fall, seen=seen, of_ablations=of_ablations, ways=ways, waiting=waiting)
    diagnosis = diagnose(case)
    offered = list(against_throttling(seen))
    if diagnosis.bound is Bound.SLOW_REPLICA:
        offered.append(against_slow(slow.slow[0].replica, target.environment.device_kind))
    else:
        offered += remedies(diagnosis.bound, target, seen.num_cores, refuted=_refuted(fall))
    missing = []
    for ablation in fall.ablations.missing:
        missing.append(Missing(ablation=ablation, command=command(ablation, target)))
    return Explanation(
        target=target,
        steps=_steps(fall, diagnosis),
        diagnosis=diagnosis,
        seen=seen,
        slow_replicas=slow,
        remedies=tuple(offered),
        missing=tuple(missing),
        measure_all=_measure_all(fall),
        notes=tuple(host_notes([target])),
    )


def _steps(fall: Waterfall, diagnosis: Diagnosis) -> Steps:
    first = fall.parts[0].before if fall.parts else fall.target
    parts = [_row(fall, str(fall.base), fall.base_s, (first.trial_id,))]
    for part in fall.parts:
        parts.append(_row(fall, " or ".join(part.causes), part.seconds, part.trials))
    ideal = ""
    if fall.ideal and shares_cores(fall.target):
        ideal = f"{fall.target.num_gpus} independent replicas"
    elif fall.ideal:
        alone = f"{fall.ideal.strategy} on {fall.ideal.counted}"
        if fall.ideal.trains_apart:
            alone = "one replica alone"
        ideal = f"{fall.target.num_gpus} times {alone}"
    return Steps(
        step=fall.step,
        efficiency=fall.efficiency,
        ideal=ideal,
        base=fall.base,
        parts=tuple(parts),
        within=tuple(_within(fall, diagnosis)),
    )


def _row(fall: Waterfall, what: str, seconds: Seconds, trials: Sequence[str]) -> StepRow:
    share = fall.share(seconds.value)
    return StepRow(what=what, seconds=seconds, share=share, trials=tuple(trials))


def _within(fall: Waterfall, diagnosis: Diagnosis) -> Iterator[StepRow]:
    """Yield what overlaps the parts."""
    known = (
        ("calls of the function", fall.calls),
        ("fixed, whatever the batch", fall.fixed),
        ("the trivial model's whole step", fall.floor),
    )
    for what, beside in known:
        if beside is not None:
            yield _row(fall, what, beside.seconds, beside.trials)
    for cause in diagnosis.causes:
        if cause.bound is Bound.SLOW_REPLICA:
            yield _row(fall, "the slow replica", cause.seconds, cause.trials)
        if cause.kind is EvidenceKind.CORES and cause.bound is diagnosis.bound:
            yield _row(fall, "other programs", cause.seconds, cause.trials)


def _slow_replicas(
    fall: Waterfall, seen: Observed, of_independent: Observed
) -> tuple[SlowReplicas, Evidence | None]:
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
    seconds = Seconds(
        value=slowest.value * slowest.others_s,
        low=slowest.low * slowest.others_s,
        high=slowest.high * slowest.others_s,
        over_processes=len(times) > 1,
    )
    waiting = Evidence(
        bound=Bound.SLOW_REPLICA,
        kind=EvidenceKind.REPLICA_TIMES,
        seconds=seconds,
        because=(
            f"all wait for {slowest.replica}, whose own compute takes {slowest.value:.0%} longer, "
            f"for {fall.share(seconds.value):.0%} of the step"
        ),
        trials=(timed.trial_id,),
    )
    return slow, waiting


def _refuted(fall: Waterfall) -> list[str]:
    """Return axes that trials have shown to bring nothing."""
    refuted = []
    if fall.calls and fall.share(fall.calls.seconds.value) < MATTERS:
        refuted.append("steps_per_execution")
    ablations = fall.ablations
    if ablations.own is Ablation.DISTORTING and Ablation.READING in ablations.results:
        refuted.append("distortions")  # without them it is an ablation already
    return refuted


def _measure_all(fall: Waterfall) -> str:
    """Return the `experiment=explain` around the target, where an ablation of it is missing."""
    target = fall.target
    if {*fall.ablations.missing} <= {Ablation.LARGER_BATCH}:
        return ""
    if target.environment.origin is not Origin.PUBLISHED:
        spec = replace(target.spec, scaling="weak")  # one replica has the batch of each
        return again.command(spec, [target], "experiment=explain")
    if target.axes["model"] not in trainable():
        return ""
    asked = {name: target.axes[name] for name in ("model", "num_gpus", "batch_size")}
    if target.strategy in STRATEGY_COLUMNS.values():
        asked["strategy"] = target.strategy
    return overrides.sweep(["experiment=explain", *overrides.of_axes(asked)])


def of_each_curve(results: Sequence[Result], finder: AblationFinder) -> list[Result]:
    """Choose the result on the most GPUs of each curve.

    A result that is an ablation of another one is left out: there it is explained already.
    """
    largest: dict[tuple[object, ...], Result] = {}
    for result in results:
        key = (result.environment.key, result.item, result.course)
        if result.throughput is None or not result.axes["batch_size"]:
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
