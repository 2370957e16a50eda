"""Explain trials: their waterfalls, their verdicts, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis import again
from analysis.explanation.ablations import ABLATION_ORDER, Ablation, AblationFinder
from analysis.explanation.case import MATTERS
from analysis.explanation.communication.exchange import ExchangeTests
from analysis.explanation.communication.host_links import HostLinks, host_links
from analysis.explanation.communication.inner_links import InnerLinks, inner_links
from analysis.explanation.communication.links import links_of
from analysis.explanation.communication.quick_check import Bandwidth, QuickCheck, quick_check
from analysis.explanation.communication.update_bytes import UpdateBytes, update_bytes
from analysis.explanation.observed import NOTHING, Observed
from analysis.explanation.remedies import Remedy, remedies
from analysis.explanation.replicas.slow_replica import SlowReplicas, Times, slow_replicas
from analysis.explanation.replicas.throttling import against_throttling
from analysis.explanation.replicas.waiting import against_slow, waiting_for
from analysis.explanation.suspects import Bound
from analysis.explanation.verdicts import Diagnosis, diagnose
from analysis.explanation.waterfall import Waterfall, waterfall
from analysis.results import Result
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from analysis.text.titles import failed_repeats, host_notes
from scalemark.models import trainable
from scalemark.records import overrides
from scalemark.records.machine import DeviceKind
from scalemark.records.origin import Origin
from scalemark.records.strategies import STRATEGY_COLUMNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that is said of one target."""

    fall: Waterfall
    seen: Observed
    diagnosis: Diagnosis
    quick_check: QuickCheck | None
    inner_links: InnerLinks | None
    update_bytes: UpdateBytes | None
    host_links: HostLinks | None
    slow_replicas: SlowReplicas
    replicas_timed_in: str  # another trial that timed them; empty: this one, or none
    remedies: tuple[Remedy, ...]
    notes: tuple[str, ...]  # what must be known beside it, as sentences
    # the command that makes what is missing, but for a larger batch; empty where nothing is, or no
    # such model
    measure_all: str

    @property
    def target(self) -> Result:
        return self.fall.target


def explain_all(
    targets: Iterable[Result],
    finder: AblationFinder,
    observe: Callable[[Result], Observed],
    bandwidth: Callable[[Result], Bandwidth | None] = lambda _: None,
) -> list[Explanation]:
    """Explain results that have a number; `finder` has all that they may be compared with."""
    tests = ExchangeTests(finder)
    return [_explained(target, finder, tests, observe, bandwidth(target)) for target in targets]


def _explained(
    target: Result,
    finder: AblationFinder,
    tests: ExchangeTests,
    observe: Callable[[Result], Observed],
    bandwidth: Bandwidth | None,
) -> Explanation:
    fall = waterfall(finder.around(target))
    of_ablations = {ablation: observe(result) for ablation, result in fall.ablations.found.items()}
    seen = observe(target)
    check = quick_check(target, seen.num_parameters, bandwidth)
    inner = inner_links(target, check)
    links = links_of(fall, seen, inner)
    times, timed = _replica_times(fall, seen, of_ablations)
    replicas = slow_replicas(times)
    waiting = waiting_for(replicas, timed, num_processes=len(times))
    diagnosis = diagnose(fall, seen, of_ablations, links, tests, waiting)
    found = remedies(diagnosis.bound, target, seen.num_cores, refuted=_refuted(fall))
    if diagnosis.bound is Bound.SLOW_REPLICA:
        found = [against_slow(replicas.slow[0], target.environment.device_kind)]
    return Explanation(
        fall=fall,
        seen=seen,
        diagnosis=diagnosis,
        quick_check=check,
        inner_links=inner,
        update_bytes=update_bytes(target),
        host_links=host_links(fall, seen, of_ablations.get(Ablation.FAST_LINKS, NOTHING)),
        slow_replicas=replicas,
        replicas_timed_in="" if timed is target else timed.trial_id,
        remedies=(*against_throttling(seen.gpus, seen.clock_loss), *found),
        notes=tuple(_notes(fall)),
        measure_all=_measure_all(fall),
    )


def _replica_times(
    fall: Waterfall, seen: Observed, of_ablations: Mapping[Ablation, Observed]
) -> tuple[Sequence[Times], Result]:
    """Return its own times, else those of independent replicas; and the trial that has them."""
    others = of_ablations.get(Ablation.INDEPENDENT, NOTHING).replica_times
    if seen.replica_times or not others:
        return seen.replica_times, fall.target
    return others, fall.ablations.found[Ablation.INDEPENDENT]


def _refuted(fall: Waterfall) -> list[str]:
    """Return axes that trials have shown to bring nothing."""
    found = []
    if fall.calls and fall.share(fall.calls.seconds.value) < MATTERS:
        found.append("steps_per_execution")
    if fall.ablations.own is Ablation.DISTORTING and Ablation.READING in fall.ablations.found:
        found.append("distortions")  # without them it is an ablation already
    return found


def _measure_all(fall: Waterfall) -> str:
    """Return the `experiment=explain` around the target, where an ablation of it is missing."""
    target = fall.target
    if all(one.ablation is Ablation.LARGER_BATCH for one in fall.ablations.missing):
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

    A result that is an ablation of another's ablations is left out: there it is explained already.
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
        for found in finder.around(result).found.values():
            if found.trial_id != result.trial_id:
                within.add((found.environment.key, found.trial_id))
    targets = list(largest.values())
    return [one for one in targets if (one.environment.key, one.trial_id) not in within] or targets


def _notes(fall: Waterfall) -> Iterator[str]:
    target = fall.target
    if target.environment.device_kind is DeviceKind.CPU_DEVICE and target.num_gpus > 1:
        yield (
            "CPU devices share the cores of one machine: as many, each for itself, are the ideal "
            "here, and verdicts are about what differs from that"
        )
    yield from host_notes([target])
    ablations = [
        (ablation, one)
        for ablation, one in fall.ablations.trials.items()
        if ablation in ABLATION_ORDER
    ]
    for ablation, result in ablations:
        if found := contradiction(Sample.of(result.repeats, result.unit)):
            yield f"repeats of {ablation} contradict each other ({found.words}){_again(result)}"
        if result.failed:
            yield f"repeats of {ablation} brought no number ({failed_repeats(result)})"
    alone = fall.ablations.found.get(Ablation.ALONE)
    if alone is not None and target.num_gpus > 1 and alone.axes["local_parameter_device"] == "cpu":
        yield (
            "the one replica fetches its variables from the CPU, too: part of its compute is "
            "communication"
        )


def _again(result: Result) -> str:
    if not result.attempt_ids:
        return ""
    command = again.again(result, 3)
    return f"; measure it again: {command}"
