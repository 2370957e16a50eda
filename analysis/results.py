"""Results: whole trials with all their repeats, each on one machine with one software, and its
baseline."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any

from scalemark.abilities import least_replicas, trains_apart
from scalemark.records import measurement, trial
from scalemark.records.axes import Engine, bare_name, is_env_variable
from scalemark.records.machine import DeviceKind
from scalemark.records.references import Origin
from scalemark.stats import welch
from store.reading.queries import printed_numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """The figures of one trial. None where any of its repeats does not tell."""

    mfu: float | None = None  # 0..1, geometric mean of the repeats
    # largest of any GPU, on CPU devices of the trial's process, in any repeat
    memory_bytes: int | None = None
    variable_bytes: int | None = None  # largest of any device in any repeat
    optimizer_state_bytes: int | None = None  # the same


@cache
def _hardware(profile: str) -> tuple[tuple[str, ...], str]:
    """Return overrides that choose this hardware, and its compute capability."""
    from simulator.costs.box import Hardware, overrides_of  # here, for it reads profiles by YAML

    return overrides_of(profile), Hardware.from_json(profile).compute_capability


def _of_all(attempts: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    """Return a figure of each attempt; none where one of them lacks it."""
    if not attempts or attempts[0][name] is None:
        return []
    values = [attempt[name] for attempt in attempts]
    return [] if None in values else values


NOT_REPORTED = "not reported"
"""The strategy of figures of others whose source names none."""


class BaselineRule(StrEnum):
    """The rule for baselines, always in the same environment and with the same other axes."""

    SAME = "same"  # the same strategy on 1 GPU; the best of all for one that needs more
    BEST = "best"  # the fastest strategy on 1 GPU
    # the same strategy on the fewest GPUs that it completed on, and of these on the fewest hosts
    FEWEST = "fewest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of a machine."""

    name: str  # of each, as NVML has it; empty of several kinds
    num: int
    # pairs that reach each other by NVLink; 0 also where the links are unknown
    num_nvlink_pairs: int = 0
    compute_capability: str = ""  # of the one that has the least; empty where it is unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The environment that numbers were made in; those of two environments are never mixed."""

    key: str  # tells it from others
    host: str  # of published figures their hardware
    machine: str  # one line
    versions: str  # of published figures their source
    device_kind: DeviceKind
    origin: Origin
    # by name what else numbers depend on; empty of what is not ours
    software: Mapping[str, str] = field(default_factory=dict, compare=False)
    shares_host: bool = False  # made side by side with others
    gpus: Gpus | None = None  # of a measured environment
    hardware_profile: str = (
        ""  # of a simulated environment: as in scalemark.records.machine.Machine
    )

    @property
    def is_simulated(self) -> bool:
        """No sentence about measurements may rest on simulated numbers."""
        return self.origin is Origin.SIMULATED

    @property
    def hardware(self) -> tuple[str, ...]:
        """Overrides that choose the hardware of a simulated environment."""
        if self.hardware_profile:
            return _hardware(self.hardware_profile)[0]
        return ()

    @property
    def compute_capability(self) -> tuple[int, int] | None:
        """The least of its GPUs; None where it is unknown, and without GPUs."""
        capability = self.gpus.compute_capability if self.gpus else ""
        if self.hardware_profile:
            _, capability = _hardware(self.hardware_profile)
        if not capability:
            return None
        major, minor = capability.split(".")[:2]
        return int(major), int(minor)

    @property
    def devices(self) -> str:
        """The name of what `num_gpus` counts."""
        return self.device_kind.plural

    def counted(self, num: int, hosts: int = 1) -> str:
        """Return `4 GPUs`, or `8 GPUs over 2 hosts`."""
        kind = self.device_kind
        return f"{num} {kind.singular if num == 1 else kind.plural}{over(hosts)}"


def over(hosts: int) -> str:
    """Return ` over 2 hosts`; one host goes without saying."""
    if hosts > 1:
        return f" over {hosts} hosts"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One trial in one environment, or one published figure."""

    trial_id: str  # of published figures their key
    environment: Environment
    axes: Mapping[str, Any]  # every axis by name, and `strategy`
    # the same for results that differ in the number of GPUs and of hosts, and in links between
    # these, alone
    curve: str
    attempt_ids: tuple[int, ...]  # of all attempts, oldest first; none of published figures
    # completed: there is a number to quote; invalid: the newest completed without one; else the
    # newest's
    outcome: str
    # throughput of each completed process that may be quoted: above 0, of no verdict invalid
    repeats: tuple[float, ...]
    # outcomes of the repeats that brought no such number, of each the last attempt's
    failed: tuple[str, ...] = ()
    # geometric mean of the repeats, which the interval is of; None without any
    throughput: float | None
    # 95 % interval: over processes, or within the only one; None where it is not known
    low: float | None
    high: float | None
    doubts: tuple[str, ...] = ()  # reasons against the repeats, or of its source
    was_busy: bool = False  # others took cores from one of them, or trials ran beside it
    is_settled: bool = True  # warm-up had ended in each of them when measuring began
    baseline: "Result | None" = None  # what it is compared with
    item: str = measurement.IMAGES  # what is counted per second; empty where unknown
    # free axes that its strategy names: of a figure of others, and of a program's trial that
    # inherits variables which others set
    named_axes: tuple[str, ...] = ()
    is_reported: bool = False  # of a repeat a program of the user's printed this number alone
    # of a repeat nothing confirms the rate: the items of a step are the program's own word
    is_unconfirmed: bool = False
    is_on_one_machine: bool = False  # its hosts, more than one, were processes of one machine
    out_of_race: str = ""  # why a race ran no more repeats of it; empty where none put it out
    of_other_sweeps: int = 0  # repeats by others than the sweep that was asked for, if one was
    # the attempts behind `repeats`, as `store.reading.queries.measured` has them
    quotable: Sequence[Mapping[str, Any]] = ()
    # settings by which a sweep finds it: its database, its hardware where it ran on several
    found_by: tuple[str, ...] = ()
    citation: str = ""  # of a figure of others: where it can be looked up

    @property
    def usage(self) -> Usage:
        """Return the figures of its devices, by the completed repeats."""
        attempts = self.quotable
        shares, mfu = _of_all(attempts, "mfu"), None
        if shares and all(0 < share < math.inf for share in shares):
            mfu = welch.typical(shares)
        memory_bytes = _of_all(attempts, "peak_device_memory_bytes")
        if self.environment.device_kind is not DeviceKind.GPU:
            memory_bytes = memory_bytes or _of_all(attempts, "peak_host_memory_bytes")
        return Usage(
            mfu=mfu,
            memory_bytes=max(memory_bytes, default=None),
            variable_bytes=max(_of_all(attempts, "variable_bytes"), default=None),
            optimizer_state_bytes=max(_of_all(attempts, "optimizer_state_bytes"), default=None),
        )

    @property
    def metrics(self) -> dict[str, tuple[float, ...]]:
        """Return by name the numbers that all repeats have beside their speed."""
        metrics: dict[str, list[float]] = defaultdict(list)
        for attempt in self.quotable:
            for name, value in printed_numbers(attempt["metrics"], attempt["last_loss"]).items():
                metrics[name].append(value)
        of_all = {}
        for name, values in metrics.items():
            if len(values) == len(self.quotable):
                of_all[name] = tuple(values)
        return of_all

    @property
    def strategy(self) -> str:
        return str(self.axes["strategy"])

    @property
    def num_gpus(self) -> int:
        return int(self.axes["num_gpus"])

    @property
    def hosts(self) -> int:
        return int(self.axes.get("hosts", 1))

    @property
    def width(self) -> str:
        """`8`, or `8 over 2 hosts`."""
        return f"{self.num_gpus}{over(self.hosts)}"

    @property
    def counted(self) -> str:
        """`8 GPUs`, or `8 GPUs over 2 hosts`."""
        return self.environment.counted(self.num_gpus, self.hosts)

    @property
    def variables(self) -> dict[str, Any]:
        """Return the variables that are axes of a trial of ours, but those its strategy names."""
        if not self.environment.origin.is_ours:
            return {}
        named = self.strategy_axes
        free = self.free.items()
        return {name: value for name, value in free if is_env_variable(name) and name not in named}

    @property
    def way(self) -> str:
        """Its strategy, and the variables that it was given."""
        given = [f"{bare_name(name)}={value}" for name, value in self.variables.items()]
        return ", ".join([self.strategy, *given])

    @property
    def line(self) -> str:
        """The name of its line in a chart: its way, over how many hosts."""
        return f"{self.way}{over(self.hosts)}"

    @property
    def is_valid(self) -> bool:
        """Say whether nothing is to be said against any of the repeats."""
        return not self.doubts

    def attempt_with(self, doubt: str) -> int | None:
        """Return an attempt behind its number that has this doubt, or any where none names it."""
        doubted = None
        for attempt in self.quotable:
            of_attempt = doubts_of(attempt)
            if doubt in of_attempt:
                return int(attempt["attempt_id"])
            if of_attempt:
                doubted = int(attempt["attempt_id"])
        return doubted

    @property
    def ended(self) -> str:
        """Its outcome in words."""
        return self.outcome.replace("_", " ")

    @property
    def trains_apart(self) -> bool:
        """Replicas that train a model each show what communication costs, and compete with none."""
        return trains_apart(self.axes["variable_update"])

    @property
    def is_suspect(self) -> bool:
        """Say whether a number of ours has a verdict against it."""
        return self.environment.origin.is_ours and self.throughput is not None and not self.is_valid

    @property
    def is_of_program(self) -> bool:
        """Say whether a program of the user's own brought it, of which no model of ours knows."""
        return self.axes.get("engine") == Engine.command

    @property
    def strategy_axes(self) -> tuple[str, ...]:
        """Return the axes that its strategy stands for."""
        return self.named_axes or trial.strategy_axes(self.axes)

    @property
    def is_named_by_free_axes(self) -> bool:
        """Say whether its strategy is the name of its free axes, and no word of ours."""
        return self.is_of_program or bool(self.named_axes)

    @property
    def spec(self) -> trial.TrialSpec:
        """The trial of a result of ours."""
        return trial.TrialSpec.of_axes(self.axes)

    @property
    def unit(self) -> str:
        """The unit of its throughput, as `images/s`; `throughput` where the item is unknown."""
        if self.item:
            return measurement.unit_of(self.item)
        return "throughput"

    @property
    def counts_steps(self) -> bool:
        """Say whether it is unknown how many items its steps have."""
        return self.item == measurement.STEPS

    @property
    def free(self) -> dict[str, Any]:
        """Its free axes."""
        return {name: self.axes[name] for name in trial.free_names(self.axes)}

    @property
    def speed_up(self) -> float | None:
        if not self.throughput or self.baseline is None or not self.baseline.throughput:
            return None
        return self.throughput / self.baseline.throughput

    @property
    def speed_up_doubts(self) -> tuple[str, ...]:
        """Return the reasons against its speed-up: those against its own number and its baseline's.

        The speed-up of a baseline over itself is 1, whatever its number is.
        """
        if self.baseline is None or self.baseline.trial_id == self.trial_id:
            return ()
        return tuple(dict.fromkeys((*self.doubts, *self.baseline.doubts)))

    @property
    def efficiency(self) -> float | None:
        """Speed-up per GPU more than the baseline had; 1.0 is ideal.

        None where steps are counted: where each GPU keeps its batch, a perfect one is 1 / N by
        steps, so a loss cannot be told from a larger step.
        """
        speed_up = self.speed_up
        if speed_up is None or self.baseline is None or self.counts_steps:
            return None
        return speed_up * self.baseline.num_gpus / self.num_gpus

    def facts(self) -> dict[str, Any]:
        """Return what --json prints of it."""
        environment, axes = self.environment, dict.fromkeys(_PRINTED_AXES)
        if self.is_of_program:
            axes = dict.fromkeys(trial.AXES)
        if environment.origin is not Origin.PUBLISHED:
            axes |= dict.fromkeys(self.free)
        facts: dict[str, Any] = {"environment": environment.key}
        for name in ("origin", "machine", "versions", "device_kind"):
            facts[name] = getattr(environment, name)
        for axis in axes:
            if self.axes[axis] is not None or not self.is_of_program:
                facts[axis] = self.axes[axis]
        for name in _PRINTED:
            facts[name] = getattr(self, name)
        facts["attempts"], facts["baseline"] = self.attempt_ids, None
        facts["throughput_low"], facts["throughput_high"] = self.low, self.high
        if self.baseline is not None:
            facts["baseline"] = self.baseline.trial_id
        return facts


_PRINTED = (
    *("trial_id", "strategy", "num_gpus", "hosts", "outcome", "failed", "repeats", "throughput"),
    *("is_valid", "is_reported", "is_unconfirmed", "metrics", "speed_up", "efficiency"),
)
_PRINTED_AXES = (
    *("model", "batch_size", "precision", "data"),
    *trial.STRATEGY_AXES,
)

AXES = ("strategy", *trial.AXES)
"""Axes that distinguish results of ours, besides free ones, see `axes_of`."""

_OUTSIDE_CURVE = ("strategy", *trial.STRATEGY_AXES, "num_gpus", "hosts")
_SETTING = tuple(axis for axis in AXES if axis not in _OUTSIDE_CURVE)
_of_setting = itemgetter(*_SETTING)


def doubts_of(attempt: Mapping[str, Any]) -> Sequence[str]:
    """Without a verdict, which imported attempts may lack, the end of warm-up counts."""
    if attempt["verdict"] == measurement.Verdict.SUSPECT:
        return attempt["verdict_reasons"] or ("its verdict is suspect",)
    if not attempt["verdict"] and not attempt["steady"]:
        return ("warm-up had not ended when measuring began",)
    return ()


def is_quotable(attempt: Mapping[str, Any]) -> bool:
    """Databases that others wrote may hold NaN, or nothing, for a completed attempt."""
    value = attempt["throughput"]
    if value is None or not math.isfinite(value) or value <= 0:
        return False
    return bool(
        attempt["outcome"] == measurement.Outcome.COMPLETED
        and attempt["verdict"] != measurement.Verdict.INVALID
    )


def with_baselines(results: Iterable[Result], rule: BaselineRule) -> list[Result]:
    """Return the same results, each with the baseline of the rule; None where there is none."""
    results = list(results)
    candidates: dict[BaselineRule, dict[tuple[object, ...], Result]] = {}
    compared = []
    for result in results:
        baseline, rules = None, [rule]
        # a strategy that cannot run on 1 GPU, such as sharded, has no number of its own there
        if rule is BaselineRule.SAME and least_replicas(result.axes["variable_update"]) > 1:
            rules = [BaselineRule.BEST, BaselineRule.FEWEST]
        for each_rule in rules:
            if each_rule not in candidates:
                candidates[each_rule] = _candidates(results, each_rule)
            baseline = candidates[each_rule].get(_compared(result, each_rule))
            if baseline is not None:
                break
        # `replace` takes three times as long, which shows with 100,000 trials
        values = dict(zip(_FIELDS, _values_of(result), strict=True))
        values["baseline"] = baseline
        compared.append(Result(**values))
    return compared


_FIELDS = tuple(each.name for each in fields(Result))
_values_of = attrgetter(*_FIELDS)


def _candidates(results: Sequence[Result], rule: BaselineRule) -> dict[tuple[object, ...], Result]:
    """Return the baseline of each group of results that the rule compares."""
    best: dict[tuple[object, ...], Result] = {}
    for result in results:
        if result.throughput is not None and (rule is BaselineRule.FEWEST or result.num_gpus == 1):
            key = _compared(result, rule)
            rivals = (best.get(key, result), result)
            best[key] = min(rivals, key=lambda r: (r.num_gpus, r.hosts, -(r.throughput or 0.0)))
    return best


def _compared(result: Result, rule: BaselineRule) -> tuple[object, ...]:
    """Return what a result and its baseline have in common."""
    if rule is not BaselineRule.BEST:
        return result.environment.key, result.item, result.curve
    return result.environment.key, result.item, *setting(result).values()


def setting(result: Result) -> dict[str, object]:
    """Return all axes but strategy, GPU count and hosts.

    Strong scaling has its global batch there, which does not change with GPUs.
    """
    if result.environment.origin.is_ours:
        shared = dict(zip(_SETTING, _of_setting(result.axes), strict=True)) | result.free
        for axis in result.strategy_axes if result.is_of_program else ():
            shared.pop(axis, None)
    else:
        outside = {*_OUTSIDE_CURVE, *result.named_axes}
        shared = {axis: value for axis, value in result.axes.items() if axis not in outside}
    if shared.get("scaling") == "strong":
        shared["batch_size"] = global_batch(result)
    if keeps_micro_batches(result):
        shared["gradient_accumulation"] = micro_batches(result)
    return shared


class GlobalBatch(int):
    """A batch in all, never the same as a batch per GPU; it sorts as a number."""

    def __str__(self) -> str:
        return f"{int(self)} in all"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalBatch) and int(self) == int(other)

    def __hash__(self) -> int:
        return hash((GlobalBatch, int(self)))


def axes_of(results: Iterable[Result]) -> tuple[str, ...]:
    """Return all axes that any of these results of ours has."""
    free = {name for result in results for name in trial.free_names(result.axes)}
    return (*AXES, *sorted(free))


def timed_outside(results: Sequence[Result]) -> Sequence[Result]:
    """Leave out trials that were timed from inside, for `explain`, unless there are no others."""
    return [result for result in results if not result.axes.get("takes_apart")] or results


def with_number(results: Iterable[Result]) -> list[Result]:
    return [result for result in results if result.throughput is not None]


def by_item(results: Sequence[Result]) -> list[list[Result]]:
    """Split results by what they count; one without a number, of an unknown item, is in each."""
    items = dict.fromkeys(result.item for result in with_number(results))
    if len(items) < 2:
        return [list(results)]
    split: dict[str, list[Result]] = {item: [] for item in items}
    for result in results:
        for item, of_item in split.items():
            if result.throughput is None or result.item == item:
                of_item.append(result)
    return list(split.values())


def has_steps(result: Result) -> bool:
    """Return whether the time of a step follows from what it counts and from its batch."""
    return _items_per_example(result) is not None


def items_per_step(result: Result) -> int:
    """Return the items of an update, over all replicas and micro-batches; 0 = not known."""
    return examples_per_step(result) * (_items_per_example(result) or 0)


def _items_per_example(result: Result) -> int | None:
    return measurement.items_per_example(result.item, int(result.axes.get("seq_len") or 0))


def examples_per_step(result: Result) -> int:
    """Return the examples of an update, over all replicas and micro-batches; 0 = not reported."""
    micro_batches = result.axes.get("gradient_accumulation") or 1  # others report none
    return int(result.axes["batch_size"] or 0) * micro_batches * result.num_gpus


def global_batch(result: Result) -> GlobalBatch:
    return GlobalBatch(examples_per_step(result))


def keeps_micro_batches(result: Result) -> bool:
    """Return whether it is of a source that accumulates: there the batch in all stays when GPUs are
    added, as each accumulates fewer micro-batches.
    """
    return not result.environment.origin.is_ours and "gradient_accumulation" in result.axes


def scales_strongly(result: Result) -> bool:
    """Return whether the batch in all stays the same when GPUs are added."""
    return result.axes.get("scaling") == "strong" or keeps_micro_batches(result)


def micro_batches(result: Result) -> GlobalBatch:
    """Return the micro-batches of an update, of all GPUs."""
    return GlobalBatch(int(result.axes["gradient_accumulation"]) * result.num_gpus)
