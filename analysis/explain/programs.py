"""Explains trials of users' own programs: by what is seen from outside, and by the same trial whose
steps were timed from inside (`command.takes_apart=true`), whose own speed counts for nothing.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from analysis import again
from analysis.explain.ablations import Ablation
from analysis.explain.causes import Bound, Evidence
from analysis.explain.explanations import Explanation, SplitStep, StepRow
from analysis.explain.verdicts import HEALTHY_FROM, MATTERS, against_slow, diagnosed
from analysis.explain.waterfall import (
    LAUNCH_S,
    LEAST_LAUNCH_S,
    UNTIMED,
    Observed,
    Seconds,
    SlowReplicas,
    ms,
    observed,
    percent,
)
from analysis.results import Result, is_quotable
from analysis.selection import Source
from scalemark.records.measurement import Outcome, TimedPart
from scalemark.records.overrides import ID_DIGITS

_BOUNDS = {
    TimedPart.INPUT: Bound.INPUT,
    TimedPart.HOST: Bound.HOST,  # with IDLE
    TimedPart.COMMUNICATION: Bound.COMMUNICATION,
    TimedPart.RANKS: None,  # unless one is slow
    TimedPart.CORE: Bound.CONTENTION,
    TimedPart.LAUNCH: Bound.LAUNCH,
}
_TIMED = {"torch", "tensorflow", "jax"}  # from inside


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenProgram:
    """All that is known of one trial."""

    target: Result
    profiles: Sequence[Mapping[str, Any]]  # scalemark.records.measurement.Profile with parts
    slow: SlowReplicas
    observed: Observed
    step_s: float  # 0.0 where it is unknown
    utilization: float | None  # of its GPUs, by NVML: 0..1
    num_busy_cores: float | None  # by its processes
    apart: str = ""  # the trial that was timed from inside
    is_blind: bool = False  # that trial ended well, and no step of it was seen

    def mean(self, name: str) -> float:
        """Return the mean of a figure of its profiles."""
        return statistics.fmean(map(itemgetter(name), self.profiles))

    @property
    def is_of_gpus(self) -> bool:
        return any(map(itemgetter("is_of_gpus"), self.profiles))

    @property
    def hides_exchanges(self) -> bool:
        """Devices that exchange something on their own, or in a compiled function."""
        return self.target.num_gpus > 1 and (self.is_of_gpus or self.slow is UNTIMED)

    @property
    def shares(self) -> dict[str, float]:
        """Return the share of the step of each part; empty where none is known."""
        shares: dict[str, float] = {}
        if self.profiles:
            for part in TimedPart:
                of_steps = [
                    each["parts_s"].get(part, 0.0) / each["step_s"] for each in self.profiles
                ]
                shares[part] = statistics.fmean(of_steps)
        return shares


def explain_programs(chosen: Iterable[Result], source: Source) -> list[Explanation]:
    """Explain the trial on the most GPUs of each curve; `source` has all that they may need."""
    of_trials: dict[object, dict[bool, Result]] = {}
    for result in source.results:
        if result.is_of_program:
            key = result.environment.key, _measured(result).trial_id
            of_trials.setdefault(key, {})[bool(result.axes["takes_apart"])] = result
    largest: dict[object, Result] = {}
    for result in sorted(chosen, key=lambda result: result.num_gpus):
        largest[result.environment.key, _measured(result).curve, result.hosts] = result
    explained = []
    for result in largest.values():
        of_trial = of_trials[result.environment.key, _measured(result).trial_id]
        apart = of_trial.get(True)
        target = of_trial.get(False, result)
        seen = seen_of(target if target.throughput else result, apart, source)
        if seen.target.throughput or seen.profiles:
            explained.append(explain(seen))
    return explained


def _measured(result: Result) -> Any:
    """Return the spec of the trial whose speed counts."""
    return replace(result.spec, takes_apart=False)


def seen_of(target: Result, apart: Result | None, source: Source) -> SeenProgram:
    """Collect what the attempts of a trial and of the one that was timed from inside have."""
    rows = list(filter(is_quotable, map(source.attempts.__getitem__, target.attempt_ids)))
    of_apart = []
    if apart:
        of_apart = list(map(source.attempts.__getitem__, apart.attempt_ids))
    profiles = list(filter(None, map(itemgetter("recorded_profile"), of_apart)))
    slow, times = UNTIMED, observed(of_apart).replica_times
    if times:
        # here, because numpy's import takes long
        from analysis.explain.slow_replica import slow_replicas

        slow = slow_replicas(times)
    cores: list[float] = []
    utilizations: list[float] = []
    for row in rows:
        if row["cpu_s"] and row["window_s"]:
            cores.append(row["cpu_s"] / row["window_s"])
        for gpu in row["recorded_telemetry"] or ():
            if gpu["utilization"] is not None:
                utilizations.append(gpu["utilization"])
    steps_s = list(filter(None, map(itemgetter("median_step_s"), rows)))
    steps_s = steps_s or list(map(itemgetter("step_s"), profiles))
    return SeenProgram(
        target=target,
        profiles=profiles,
        slow=slow,
        observed=observed(rows),
        step_s=statistics.median(steps_s) if steps_s else 0.0,
        utilization=statistics.fmean(utilizations) if utilizations else None,
        num_busy_cores=statistics.fmean(cores) if cores else None,
        apart=apart.trial_id if apart else "",
        is_blind=apart is not None and apart.outcome == Outcome.INVALID and not profiles,
    )


def explain(seen: SeenProgram) -> Explanation:
    """Return where the step goes, and what holds the trial back."""
    target = seen.target
    causes = sorted(_causes(seen), key=lambda cause: -_weight(cause, seen))
    if seen.profiles:
        bound, why = _verdict(seen, causes)
    else:
        bound = _from_ideal(target)
        why = " and ".join(_from_outside(seen)) or "nothing of it is seen"
    remedies, missing, notes = [], {}, []
    if bound is Bound.SLOW_REPLICA:
        remedies = [against_slow(seen.slow.slow[0].replica, target.environment.device_kind)]
    is_timed = not _TIMED.isdisjoint(target.environment.software)
    if not seen.profiles and seen.is_blind:
        why += f"; trial {seen.apart[:ID_DIGITS]} was timed from inside, and no step was seen"
    elif not seen.profiles and bound is not Bound.HEALTHY and is_timed:
        inside = replace(target.spec, takes_apart=True)
        missing[Ablation.TAKEN_APART] = again.command(inside, [target])
    elif seen.profiles and target.trial_id != seen.apart:
        ratio = seen.mean("step_s") / seen.step_s
        notes.append(
            f"parts are of a run timed from inside, whose step took {ratio:.2f} times as long"
        )
    return Explanation(
        target=target,
        steps=_steps(seen),
        diagnosis=diagnosed(bound, why, list(_doubts(seen)), causes),
        seen=seen.observed,
        slow_replicas=seen.slow,
        remedies=tuple(remedies),
        missing=missing,
        notes=tuple(notes),
    )


def _steps(seen: SeenProgram) -> SplitStep:
    target, ideal = seen.target, _ideal(seen.target)
    efficiency = target.efficiency if ideal else None
    base, shares = Ablation.REDUCING, {"whole": 1.0}
    trials: dict[str, tuple[str, ...]] = {"whole": (target.trial_id,)}
    if seen.profiles:
        base, shares = Ablation.TAKEN_APART, seen.shares
        if seen.hides_exchanges and not shares[TimedPart.COMMUNICATION]:
            del shares[TimedPart.COMMUNICATION], shares[TimedPart.RANKS]
            shares = {"compute and communication": shares.pop(TimedPart.COMPUTE), **shares}
        trials = dict.fromkeys(shares, (seen.apart,))
    elif efficiency is not None and target.baseline is not None:
        base = Ablation.ALONE_READING
        lost_to = "communication, contention or a slow replica"
        shares = {"alone": efficiency, lost_to: 1 - efficiency}
        alone = target.baseline.trial_id
        trials = {"alone": (alone,), lost_to: (target.trial_id, alone)}
    parts = []
    for what, share in shares.items():
        seconds = Seconds(value=share * seen.step_s) if seen.step_s else None
        parts.append(StepRow(what=what, seconds=seconds, share=share, trials=trials[what]))
    return SplitStep(
        step=Seconds(value=seen.step_s) if seen.step_s else None,
        efficiency=efficiency,
        ideal=ideal,
        base=base,
        parts=tuple(parts),
        within=(),
    )


def _ideal(target: Result) -> str:
    """Return what its speed is compared with, as `4 times the speed of 1 GPU`; empty: unknown."""
    alone = target.baseline
    if alone is None or target.efficiency is None or alone.num_gpus >= target.num_gpus:
        return ""
    return f"{target.num_gpus} times the speed of {alone.counted}"


def _from_ideal(target: Result) -> Bound | None:
    is_healthy = _ideal(target) and (target.efficiency or 0.0) >= HEALTHY_FROM
    return Bound.HEALTHY if is_healthy else None


def _causes(seen: SeenProgram) -> Iterator[Evidence]:
    """Yield what may hold a program back by its parts.

    What the host of GPUs does costs at most the time in which they are idle.
    """
    if not seen.profiles:
        return
    shares = seen.shares
    most = 1.0
    if seen.is_of_gpus and seen.utilization is not None:
        most = 1 - seen.utilization
    for part, bound in _BOUNDS.items():
        idle = shares[TimedPart.IDLE] if part is TimedPart.HOST else 0.0
        share = min(shares[part] + idle, most)
        because = f"{part} takes {share:.0%} of the step, {ms(share * seen.step_s)}"
        if idle >= MATTERS:
            because += f", and is idle for {min(idle, most):.0%}"
        if part is TimedPart.RANKS and seen.slow.slow:
            bound = Bound.SLOW_REPLICA
            because = f"the others wait for {seen.slow.slow[0].replica}, {share:.0%} of the step"
            because += f", which is slow{seen.slow.since_when}" if seen.slow.since else ""
        yield _evidence(bound, share, because, seen)
    num, cpu_s = seen.mean("num_operations"), seen.mean("compute_cpu_s")
    is_seen = not seen.is_of_gpus or seen.utilization is not None
    if is_seen and num and cpu_s / num <= LAUNCH_S:
        share = shares[TimedPart.COMPUTE] * min(1.0, LEAST_LAUNCH_S * num / cpu_s)
        because = (
            f"a step launches {num:.0f} operations, and computes {1e6 * cpu_s / num:.0f} us at each"
        )
        yield _evidence(Bound.LAUNCH, min(share, most), because, seen)


def _evidence(bound: Bound | None, share: float, because: str, seen: SeenProgram) -> Evidence:
    seconds = Seconds(value=share * seen.step_s)
    return Evidence(bound=bound, seconds=seconds, because=because, trials=(seen.apart,))


def _weight(cause: Evidence, seen: SeenProgram) -> float:
    """Return the share of the step that it takes, of any but contention that of a step which waits
    for no core: on a busy machine a program is held back by what would hold it back alone.
    """
    share = cause.seconds.value / seen.step_s
    if cause.bound is Bound.CONTENTION:
        return share
    return share / max(MATTERS, 1 - seen.shares[TimedPart.CORE])


def _verdict(seen: SeenProgram, causes: Sequence[Evidence]) -> tuple[Bound | None, str]:
    if _weight(causes[0], seen) >= MATTERS:
        return causes[0].bound, causes[0].because
    if seen.is_of_gpus or seen.hides_exchanges:
        why = " and ".join(["no part on the host takes 10% of the step", *_from_outside(seen)])
        if seen.hides_exchanges:
            return _from_ideal(seen.target), why
        return (None if seen.utilization is None else Bound.COMPUTE), why
    computes = (
        f"{seen.shares[TimedPart.COMPUTE]:.0%} of the step is forward, backward and optimizer"
    )
    return (Bound.COMPUTE if seen.target.num_gpus == 1 else Bound.HEALTHY), computes


def _from_outside(seen: SeenProgram) -> Iterator[str]:
    if seen.utilization is not None:
        yield f"its GPUs ran a kernel for {seen.utilization:.0%} of the time"
    if seen.num_busy_cores is not None:
        num_cores = seen.observed.num_cores
        yield f"its processes kept {seen.num_busy_cores:.1f} of {num_cores} cores busy"
    ideal = _ideal(seen.target)
    if ideal:
        yield f"it reaches {percent(seen.target.efficiency or 0.0)} of {ideal}"
    elif seen.target.num_gpus > 1:
        yield f"its curve has no trial on {seen.target.environment.counted(1)}"


def _doubts(seen: SeenProgram) -> Iterator[str]:
    if not seen.profiles:
        yield "its steps were not seen from inside"
    if len(seen.profiles or seen.target.repeats) < 2:
        yield "single run: sweep.repeats=3 would show how far others differ"
    if seen.shares and seen.shares[TimedPart.CORE] >= MATTERS:
        yield f"it waited for a core {seen.shares[TimedPart.CORE]:.0%} of the step"
    if seen.profiles and seen.hides_exchanges:
        yield "what its devices exchange is not seen"
    if seen.is_of_gpus and seen.utilization is None:
        yield "nothing tells whether its GPUs computed meanwhile"
