"""Results: whole trials with all their repeats, each on one machine with one software, and against
its baseline.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import itemgetter
from typing import Any

from analysis.text.versions import Where, told_apart
from costs.profiles import overrides_of
from scalemark.abilities import trains_apart
from scalemark.records import trial
from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import IMAGES, unit_of
from scalemark.records.outcomes import Outcome, Verdict
from scalemark.records.planted import planted_on_one_host
from scalemark.records.strategies import STRATEGY_AXES
from scalemark.records.trial import TrialSpec, free_names
from scalemark.stats import welch
from scalemark.stats.welch import Relation, relation_by


class Origin(StrEnum):
    """Who made a number."""

    MEASURED = "measured"  # by scalemark
    SIMULATED = "simulated"  # computed by scalemark from a hardware profile: no measurement
    PUBLISHED = "published"  # by others, see `analysis.published`

    @property
    def is_ours(self) -> bool:
        """Of trials with all their axes, attempts and repeats: measured or simulated."""
        return self is not Origin.PUBLISHED


class BaselineRule(StrEnum):
    """What a speed-up is told against; always on the same machine, with the same software and other
    axes.
    """

    SAME = "same"  # the same strategy on 1 GPU
    BEST = "best"  # the fastest strategy on 1 GPU
    # the same strategy on the fewest GPUs that it completed on, and of these on the fewest hosts
    FEWEST = "fewest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """All that a machine has."""

    name: str  # of each, as NVML has it; empty of several kinds
    num: int
    memory_bytes: int | None = None  # of the one that has the least; None where it is not told
    # pairs that reach each other by NVLink; 0 also where the links are not told
    num_nvlink_pairs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Machine and software that numbers were made with. Numbers of two places never stand in one
    table.
    """

    key: str  # tells it from others
    host: str  # of published figures their hardware
    machine: str  # one line
    versions: str  # of published figures their source
    device_kind: DeviceKind
    origin: Origin
    shares_host: bool = False  # made side by side with others
    gpus: Gpus | None = None  # of a measured place
    hardware_profile: str = ""  # of a simulated place: as in scalemark.records.machine.Machine

    @property
    def is_simulated(self) -> bool:
        """Its numbers are no measurements, and no sentence about measurements may rest on them."""
        return self.origin is Origin.SIMULATED

    @property
    def hardware(self) -> tuple[str, ...]:
        """Of a simulated place the overrides that choose its hardware, as `scalemark.records.overrides` takes
        them.
        """
        return overrides_of(self.hardware_profile) if self.hardware_profile else ()

    @property
    def devices(self) -> str:
        """What is counted as `num_gpus`."""
        return self.device_kind.plural

    def counted(self, num: int, hosts: int = 1) -> str:
        """As `4 GPUs`, `1 CPU stand-in`, `8 GPUs over 2 hosts`."""
        kind = self.device_kind
        return f"{num} {kind.singular if num == 1 else kind.plural}{over(hosts)}"


def over(hosts: int) -> str:
    """As ` over 2 hosts`, behind what is on them; one host goes without saying."""
    return f" over {hosts} hosts" if hosts > 1 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a result is compared with."""

    trial_id: str
    strategy: str
    num_gpus: int
    hosts: int = 1
    throughput: float
    repeats: tuple[float, ...]  # images/s of each process behind it

    @property
    def width(self) -> str:
        """As of results."""
        return f"{self.num_gpus}{over(self.hosts)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One trial in one place, or one published figure."""

    trial_id: str  # of published figures their key
    place: Place
    axes: Mapping[str, Any]  # every axis by name, and `strategy`
    # the same for results that differ in the number of GPUs and of hosts, and in links between
    # these, alone
    curve: str
    attempt_ids: tuple[int, ...]  # of all attempts, oldest first; none of published figures
    # completed: there is a number to quote; invalid: the newest completed without one; else the
    # newest's
    outcome: str
    # images/s of each completed process that may be quoted: above 0, of no verdict invalid
    repeats: tuple[float, ...]
    # outcomes of the repeats that brought no such number, of each the last attempt's
    failed: tuple[str, ...] = ()
    throughput: float | None  # median of the repeats; None without any
    # 95 % interval: over processes, or within the only one; None where it is not known
    low: float | None
    high: float | None
    is_valid: bool  # nothing is to be said against any of the repeats
    baseline: Baseline | None = None
    against: Against | None = None  # see `analysis.comparison.against`
    item: str = IMAGES  # what is counted per second
    is_on_one_machine: bool = False  # its hosts, more than one, were processes of one machine
    out_of_race: str = ""  # why a race ran no more repeats of it; empty where none put it out

    @property
    def strategy(self) -> str:
        return str(self.axes["strategy"])

    @property
    def num_gpus(self) -> int:
        return int(self.axes["num_gpus"])

    @property
    def hosts(self) -> int:
        """Sources tell of several by words alone, see `analysis.hosts_told.hosts_of`."""
        return int(self.axes.get("hosts", 1))

    @property
    def width(self) -> str:
        """As `8`, `8 over 2 hosts`."""
        return f"{self.num_gpus}{over(self.hosts)}"

    @property
    def counted(self) -> str:
        """As `8 GPUs`, `8 GPUs over 2 hosts`."""
        return self.place.counted(self.num_gpus, self.hosts)

    @property
    def line(self) -> str:
        """Its strategy, and over how many hosts: what is one line of a chart, for more hosts are no
        other number of GPUs.
        """
        return f"{self.strategy}{over(self.hosts)}"

    @property
    def course(self) -> tuple[str, int, object]:
        """The same for results that differ in the number of GPUs alone: their curve, hosts, and the
        links of these.
        """
        return self.curve, self.hosts, self.axes.get("planted", "")

    @property
    def trains_apart(self) -> bool:
        """Replicas that train a model each: they show what communication costs the others, and
        compete with none of them.
        """
        return trains_apart(self.axes["variable_update"])

    @property
    def spec(self) -> TrialSpec:
        """Of a result of ours."""
        return TrialSpec.of_axes(self.axes)

    @property
    def unit(self) -> str:
        """Of its throughput, as `images/s`."""
        return unit_of(self.item)

    @property
    def free(self) -> dict[str, Any]:
        """Its free axes."""
        return {name: self.axes[name] for name in free_names(self.axes)}

    @property
    def speed_up(self) -> float | None:
        """Times its baseline."""
        if self.throughput is None or self.baseline is None:
            return None
        return self.throughput / self.baseline.throughput

    @property
    def efficiency(self) -> float | None:
        """Speed-up per GPU more than the baseline had, 1.0 = ideal."""
        if self.speed_up is None or self.baseline is None:
            return None
        return self.speed_up * self.baseline.num_gpus / self.num_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """What the same trial reached on the other side: another machine, another time, or what others
    published.
    """

    other: Result
    ratio: float  # images/s of the result, times those of the other side
    low: float | None  # 95 % interval over processes; None where a side has one process alone
    high: float | None

    @property
    def is_tie(self) -> bool:
        return relation_by(self.low, self.high) is Relation.TIE


AXES = ("strategy", *trial.AXES)
"""Of a result of ours, by which it can be told from others; and free ones, see `axes_of`."""

_OUTSIDE_CURVE = ("strategy", *STRATEGY_AXES, "num_gpus", "hosts")


def measured(
    attempts: Sequence[Mapping[str, Any]], rule: BaselineRule = BaselineRule.SAME
) -> list[Result]:
    """Of all attempts in `store.reading.queries.measured` form, in their order. Nothing is averaged but the
    repeats of one trial.

    Attempts on simulated GPUs make results of their own, whose place has the origin SIMULATED.
    """
    grouped: dict[tuple[str, Where, bool], list[Mapping[str, Any]]] = defaultdict(list)
    for attempt, software in zip(attempts, _softwares(attempts), strict=True):
        trial = attempt["trial"]
        where = (
            attempt["machine"]["key"],
            software,
            bool(attempt["shares_host"]),
            trial["device_kind"],
        )
        grouped[trial["id"], where, _is_on_one_machine(attempt)].append(attempt)
    places = _places(grouped)
    brought = {_repeat(attempt) for attempt in attempts if is_quotable(attempt)}
    return with_baselines(
        [_result(of_trial, places[where], brought) for (_, where, _), of_trial in grouped.items()],
        rule,
    )


def _repeat(attempt: Mapping[str, Any]) -> tuple[object, ...]:
    """What was to be run: by several attempts where it was tried again, maybe elsewhere."""
    return attempt["trial"]["id"], attempt["sweep_id"], attempt["repeat"]


def _is_on_one_machine(attempt: Mapping[str, Any]) -> bool:
    """Whether its hosts, more than one, were processes of one machine."""
    return bool(attempt["trial"]["hosts"] > 1 and len(set(attempt["ran_on"])) < 2)


def _softwares(attempts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """An attempt that ended too early to tell its software has that of the one before it on that
    machine, or of the next.
    """
    known: dict[str, str] = {}
    told: dict[int, str] = {}
    in_time = sorted(attempts, key=itemgetter("attempt_id"))
    for attempt in in_time:
        if attempt["environment"]:
            known.setdefault(attempt["machine"]["key"], attempt["environment"]["software_key"])
    for attempt in in_time:
        if attempt["environment"]:
            known[attempt["machine"]["key"]] = attempt["environment"]["software_key"]
        told[attempt["attempt_id"]] = known.get(attempt["machine"]["key"], "")
    return (told[attempt["attempt_id"]] for attempt in attempts)


def _places(
    grouped: Mapping[tuple[str, Where, bool], Sequence[Mapping[str, Any]]],
) -> dict[Where, Place]:
    machines: dict[Where, Mapping[str, Any]] = {}
    environments: dict[Where, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for (_, where, _), of_trial in grouped.items():
        machines[where] = of_trial[0]["machine"]
        environments[where] |= {
            one["id"]: one for attempt in of_trial if (one := attempt["environment"])
        }
    versions = told_apart({where: list(environments[where].values()) for where in machines})
    return {where: _place(where, machine, versions[where]) for where, machine in machines.items()}


def _place(where: Where, machine: Mapping[str, Any], versions: str) -> Place:
    *_, shares_host, device_kind = where
    kind, profile = DeviceKind(device_kind), machine["hardware_profile"]
    if kind is DeviceKind.SIMULATED_GPU:
        gpus = f"{machine['num_gpus']} {kind.plural} as of {machine['gpu']}"
        told = f"simulated {machine['host'].removeprefix('simulated-')}: {gpus}, by a cost model"
    else:
        gpus = f"{machine['num_gpus']} x {machine['gpu']}, driver {machine['driver']}"
        devices = gpus if kind is DeviceKind.GPU else kind.plural
        told = f"{machine['host']}: {machine['num_cores']} cores {machine['cpu']}, {devices}"
    return Place(
        key=hashlib.sha256(repr(where).encode()).hexdigest()[:6],
        host=machine["host"],
        machine=told,
        versions=f"{versions}, hardware profile {json.loads(profile)['name']}"
        if profile
        else versions,
        device_kind=kind,
        origin=Origin.SIMULATED if kind is DeviceKind.SIMULATED_GPU else Origin.MEASURED,
        shares_host=shares_host,
        gpus=_gpus(machine) if kind is DeviceKind.GPU else None,
        hardware_profile=profile,
    )


def _gpus(machine: Mapping[str, Any]) -> Gpus:
    return Gpus(
        name=machine["gpu"] if machine["num_gpu_names"] == 1 else "",
        num=machine["num_gpus"],
        memory_bytes=machine["gpu_memory_bytes"],
        num_nvlink_pairs=machine["num_nvlink_pairs"],
    )


def _result(
    of_trial: Sequence[Mapping[str, Any]], place: Place, brought: Collection[object]
) -> Result:
    """`brought`: repeats that brought a number to quote, here or elsewhere."""
    quotable = [attempt for attempt in of_trial if is_quotable(attempt)]
    repeats = tuple(attempt["throughput"] for attempt in quotable)
    low, high = _interval(quotable, repeats)
    last = {_repeat(attempt): attempt for attempt in of_trial}
    failed = tuple(_ended_as(attempt) for repeat, attempt in last.items() if repeat not in brought)
    trial = of_trial[0]["trial"]
    return Result(
        trial_id=trial["id"],
        place=place,
        axes=trial,
        curve=trial["curve"],
        attempt_ids=tuple(attempt["attempt_id"] for attempt in of_trial),
        outcome=Outcome.COMPLETED if quotable else _ended_as(of_trial[-1]),
        repeats=repeats,
        failed=failed,
        throughput=statistics.median(repeats) if repeats else None,
        low=low,
        high=high,
        is_valid=all(map(_is_valid, quotable)),
        item=quotable[0]["item"] if quotable else IMAGES,
        is_on_one_machine=_is_on_one_machine(of_trial[0]),
    )


def is_quotable(attempt: Mapping[str, Any]) -> bool:
    """Databases that others wrote may hold NaN, or nothing, where a completed attempt has
    images/s.
    """
    value = attempt["throughput"]
    is_number = value is not None and math.isfinite(value) and value > 0
    return (
        is_number
        and attempt["outcome"] == Outcome.COMPLETED
        and attempt["verdict"] != Verdict.INVALID
    )


def _ended_as(attempt: Mapping[str, Any]) -> str:
    """Of an attempt without a number to quote."""
    return str(Outcome.INVALID if attempt["outcome"] == Outcome.COMPLETED else attempt["outcome"])


def _interval(
    quotable: Sequence[Mapping[str, Any]], repeats: tuple[float, ...]
) -> tuple[float | None, float | None]:
    if len(quotable) == 1:
        return quotable[0]["throughput_low"], quotable[0]["throughput_high"]
    return welch.interval(repeats) if repeats else (None, None)


def _is_valid(attempt: Mapping[str, Any]) -> bool:
    """Without a verdict, which imported attempts may lack, it counts whether warm-up had ended."""
    return attempt["verdict"] == Verdict.VALID if attempt["verdict"] else bool(attempt["steady"])


def with_baselines(results: Iterable[Result], rule: BaselineRule) -> list[Result]:
    """The same results, each with what the rule compares it with; None where there is no such
    thing.
    """
    results = list(results)
    candidates: dict[tuple[object, ...], Baseline] = {}
    for result in results:
        if result.throughput is not None and (rule is BaselineRule.FEWEST or result.num_gpus == 1):
            candidate = Baseline(
                trial_id=result.trial_id,
                strategy=result.strategy,
                num_gpus=result.num_gpus,
                hosts=result.hosts,
                throughput=result.throughput,
                repeats=result.repeats,
            )
            key = (*_compared(result, rule), _links(result))
            candidates[key] = min(candidates.get(key, candidate), candidate, key=_preference)
    found = []
    for result in results:
        compared = _compared(result, rule)
        able = [
            candidates[key]
            for links in {None, _links(result)}
            if (key := (*compared, links)) in candidates
        ]
        found.append(replace(result, baseline=min(able, key=_preference, default=None)))
    return found


def _links(result: Result) -> object:
    """Results over several hosts are never compared with those over other links; those of one host,
    which have none, with all.
    """
    return result.axes.get("planted", "") if result.hosts > 1 else None


def _preference(candidate: Baseline) -> tuple[int, int, float]:
    return candidate.num_gpus, candidate.hosts, -candidate.throughput


def _compared(result: Result, rule: BaselineRule) -> tuple[object, ...]:
    """What a result and its baseline have in common."""
    if rule is not BaselineRule.BEST:
        return result.place.key, result.item, result.curve
    told = setting(result)
    if result.hosts > 1 and "planted" in told:
        told["planted"] = planted_on_one_host(str(told["planted"]))
    return result.place.key, result.item, *told.values()


def setting(result: Result) -> dict[str, object]:
    """All axes but strategy, GPU count and hosts. Strong scaling is told by its global batch, which
    does not change with GPUs.
    """
    if result.place.origin.is_ours:
        told = dict(zip(_SETTING, _of_setting(result.axes), strict=True)) | result.free
    else:
        told = {axis: value for axis, value in result.axes.items() if axis not in _OUTSIDE_CURVE}
    if told.get("scaling") == "strong":
        told["batch_size"] = global_batch(result)
    return told


_SETTING = tuple(axis for axis in AXES if axis not in _OUTSIDE_CURVE)
_of_setting = itemgetter(*_SETTING)


class GlobalBatch(int):
    """Of strong scaling: sorted as a number, worded in titles, and never the same as a batch per
    GPU.
    """

    def __str__(self) -> str:
        return f"{int(self)} in all"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalBatch) and int(self) == int(other)

    def __hash__(self) -> int:
        return hash((GlobalBatch, int(self)))


def axes_of(results: Iterable[Result]) -> tuple[str, ...]:
    """Return all axes that any of these results of ours has."""
    free = {name for result in results for name in free_names(result.axes)}
    return (*AXES, *sorted(free))


def global_batch(result: Result) -> GlobalBatch:
    return GlobalBatch(result.axes["batch_size"] * result.num_gpus)
