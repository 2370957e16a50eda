"""Explains trials: their waterfalls, their verdicts, and what to do. The file that ties the others
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from analysis.explanation.host_links import HostLinks, host_links
from analysis.explanation.inner_links import InnerLinks, inner_links
from analysis.explanation.observed import NOTHING, Observed
from analysis.explanation.quick_check import Bandwidth, QuickCheck, quick_check
from analysis.explanation.remedies import Remedy, remedies
from analysis.explanation.rungs import LADDER, Ladder, Rung
from analysis.explanation.verdicts import MATTERS, Diagnosis, diagnose
from analysis.explanation.waterfall import Waterfall, waterfall
from analysis.results import Origin, Result
from analysis.statistics.contradictions import contradiction
from analysis.statistics.sample import Sample
from analysis.text.summary import failed_repeats
from analysis.text.titles import host_notes
from scalemark.models import trainable
from scalemark.records import overrides
from scalemark.records.devices import DeviceKind
from scalemark.records.strategies import STRATEGY_COLUMNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Of one target."""

    fall: Waterfall
    seen: Observed
    diagnosis: Diagnosis
    quick_check: QuickCheck | None
    inner_links: InnerLinks | None
    host_links: HostLinks | None
    remedies: tuple[Remedy, ...]
    notes: tuple[str, ...]  # what must be known beside it, as sentences
    # the command that makes what is missing, but for a larger batch; empty where nothing is, or no
    # such model
    measure_all: str
    measure_all_why: str

    @property
    def target(self) -> Result:
        return self.fall.target


def explain_all(
    targets: Iterable[Result],
    ladder: Ladder,
    observe: Callable[[Result], Observed],
    bandwidth: Callable[[Result], Bandwidth | None] = lambda _: None,
) -> list[Explanation]:
    """Of targets that have a number; `ladder` of all results that they may be compared with."""
    return [_explained(target, ladder, observe, bandwidth(target)) for target in targets]


def _explained(
    target: Result,
    ladder: Ladder,
    observe: Callable[[Result], Observed],
    bandwidth: Bandwidth | None,
) -> Explanation:
    fall = waterfall(ladder.around(target))
    of_rungs = {rung: observe(result) for rung, result in fall.rungs.found.items()}
    seen = observe(target)
    check = quick_check(target, seen.num_parameters, bandwidth)
    inner = inner_links(target, check)
    diagnosis = diagnose(fall, seen, of_rungs, inner)
    return Explanation(
        fall=fall,
        seen=seen,
        diagnosis=diagnosis,
        quick_check=check,
        inner_links=inner,
        host_links=host_links(fall, seen, of_rungs.get(Rung.FAST_LINKS, NOTHING)),
        remedies=tuple(remedies(diagnosis.bound, target, seen.num_cores, refuted=_refuted(fall))),
        notes=tuple(_notes(fall)),
        measure_all=_measure_all(fall),
        measure_all_why=(
            "All of it on a machine of your own:"
            if target.place.origin is Origin.PUBLISHED
            else "All but a larger batch at once:"
        ),
    )


def _refuted(fall: Waterfall) -> tuple[str, ...]:
    """Many steps per call that saved next to nothing, and distortions without which the trial is a
    rung already.
    """
    calls = (
        ("steps_per_execution",)
        if fall.calls and fall.share(fall.calls.seconds.value) < MATTERS
        else ()
    )
    undistorted = (
        ("distortions",)
        if fall.rungs.own is Rung.DISTORTING and Rung.READING in fall.rungs.found
        else ()
    )
    return (*calls, *undistorted)


def _measure_all(fall: Waterfall) -> str:
    """The set of `experiment=explain` around this target."""
    target = fall.target
    if not {one.rung for one in fall.rungs.missing} - {Rung.LARGER_BATCH}:
        return ""
    if target.place.origin is not Origin.PUBLISHED:
        spec = replace(target.spec, scaling="weak")  # one replica has the batch of each
        return overrides.sweep(
            ["experiment=explain", *overrides.overrides(spec, target.place.hardware)]
        )
    if target.axes["model"] not in trainable():
        return ""
    asked = {
        "model": target.axes["model"],
        "num_gpus": target.num_gpus,
        "batch_size": target.axes["batch_size"],
    }
    if target.strategy in STRATEGY_COLUMNS.values():
        asked["strategy"] = target.strategy
    return overrides.sweep(["experiment=explain", *overrides.of_axes(asked)])


def chosen(results: Sequence[Result], ladder: Ladder) -> list[Result]:
    """Of each curve, over each number of hosts and with each rate of links, the result on the most
    GPUs, unless it is a rung of another's ladder: there it is explained already.
    """
    largest: dict[tuple[str, tuple[str, int, object]], Result] = {}
    for result in results:
        if result.throughput is None or not result.axes["batch_size"]:
            continue
        key = (result.place.key, result.course)
        if key not in largest or result.num_gpus > largest[key].num_gpus:
            largest[key] = result
    within: set[tuple[str, str]] = set()
    for result in largest.values():
        around = ladder.around(result)
        others = (
            found for rung, found in around.found.items() if found.trial_id != result.trial_id
        )
        within |= {(found.place.key, found.trial_id) for found in others}
    free = [
        result for result in largest.values() if (result.place.key, result.trial_id) not in within
    ]
    return free or list(largest.values())


def _notes(fall: Waterfall) -> Iterable[str]:
    target = fall.target
    if target.place.device_kind is DeviceKind.CPU_STAND_IN and target.num_gpus > 1:
        yield (
            "CPU stand-ins share the cores of one machine: as many, each for itself, are the ideal here, "
            "and verdicts are about what differs from that"
        )
    yield from host_notes([target])
    for one in fall.rungs.missing:
        if one.elsewhere:
            yield (
                f"{one.rung}: there is one on {one.elsewhere}, which is another machine or "
                "software, and does not count"
            )
    for rung, result in fall.rungs.trials.items():
        if rung in LADDER and (found := contradiction(Sample.of(result.repeats))):
            yield f"repeats of {rung} contradict each other ({found.words}){_again(result)}"
    for rung, result in fall.rungs.trials.items():
        if rung in LADDER and result.failed:
            yield f"repeats of {rung} brought no number ({failed_repeats(result)})"
    alone = fall.rungs.found.get(Rung.ALONE)
    if alone is not None and target.num_gpus > 1 and alone.axes["local_parameter_device"] == "cpu":
        yield (
            "the one replica fetches its variables from the CPU, too: part of its compute is "
            "communication"
        )
    if fall.base is not Rung.ALONE and fall.ideal is None:
        yield "without its ideal nothing tells how much is lost"


def _again(result: Result) -> str:
    if not result.attempt_ids:
        return ""
    place = result.place
    return (
        "; measure it again: "
        f"{overrides.again(result.spec, place.hardware, repeats=3, shares_host=place.shares_host)}"
    )
