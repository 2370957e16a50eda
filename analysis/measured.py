"""Makes results of attempts: whole trials with their repeats, in the order asked for."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

from analysis.results import (
    BaselineRule,
    Environment,
    Gpus,
    Result,
    is_quotable,
    usage_of,
    with_baselines,
)
from analysis.versions import Where, described, distinguished
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import IMAGES
from scalemark.records.outcomes import Outcome, Verdict
from scalemark.records.references import Origin
from scalemark.records.trial import inherited_strategy_axes, strategy_of_free_axes
from scalemark.stats import welch
from store.reading.queries import SweepTrials


def measured(
    attempts: Sequence[Mapping[str, Any]], rule: BaselineRule = BaselineRule.SAME
) -> list[Result]:
    """Make results of all attempts, in their order; only the repeats of one trial are averaged.

    `attempts` are as `store.reading.queries.measured` has them. Those on simulated GPUs make
    results of their own, whose environment has the origin SIMULATED.
    """
    grouped: dict[tuple[str, Where, bool], list[Mapping[str, Any]]] = defaultdict(list)
    for attempt, software in zip(attempts, _softwares(attempts), strict=True):
        trial = attempt["trial"]
        shares_host = bool(attempt["shares_host"])
        where = (attempt["machine"]["key"], software, shares_host, trial["device_kind"])
        grouped[trial["id"], where, _is_on_one_machine(attempt)].append(attempt)
    environments = _environments(grouped)
    brought = {_repeat(attempt) for attempt in attempts if is_quotable(attempt)}
    items = _items_of_programs(attempts)
    results = []
    for (_, where, _), of_trial in grouped.items():
        results.append(_result(of_trial, environments[where], brought, items))
    return with_baselines(_with_inherited(results), rule)


def belonging(
    results: Sequence[Result], attempts: Sequence[Mapping[str, Any]], asked: SweepTrials
) -> list[Result]:
    """Return them in the sweep's order, each with its number of repeats by other sweeps; `attempts`
    are those behind all results.
    """
    own = {attempt["attempt_id"] for attempt in attempts if _counted(attempt, asked)}
    environments = {
        result.environment.key for result in results if not own.isdisjoint(result.attempt_ids)
    }
    if not environments and not asked.counted:  # imported without a word on where it ran
        environments = {result.environment.key for result in results}
    of_others = {
        attempt["attempt_id"]
        for attempt in attempts
        if attempt["sweep_id"] != asked.sweep_id and is_quotable(attempt)
    }
    asked_for = [
        replace(result, of_other_sweeps=len(of_others.intersection(result.attempt_ids)))
        for result in results
        if result.trial_id in asked.positions and result.environment.key in environments
    ]
    return sorted(asked_for, key=lambda result: asked.positions[result.trial_id])


def in_order_asked(
    results: Sequence[Result],
    attempts: Sequence[Mapping[str, Any]],
    positions: Mapping[tuple[int, str], int],
) -> list[Result]:
    """Return them as the sweeps that first ran them asked for them, oldest first: attempts of a
    sweep are run in random order. `attempts` are those behind them.
    """
    sweeps = {attempt["attempt_id"]: attempt["sweep_id"] for attempt in attempts}

    def place(result: Result) -> tuple[int, int]:
        sweep = sweeps[result.attempt_ids[0]]
        return sweep, positions.get((sweep, result.trial_id), 0)

    return sorted(results, key=place)


def _with_inherited(results: Sequence[Result]) -> list[Result]:
    """Name trials of programs by the variables that they inherit and others set."""
    named = []
    inherited = inherited_strategy_axes([result.axes for result in results])
    for result, names in zip(results, inherited, strict=True):
        if names:
            axes = {**result.axes, "strategy": strategy_of_free_axes(result.axes, names)}
            named.append(replace(result, axes=axes, named_axes=names))
        else:
            named.append(result)
    return named


def _items_of_programs(attempts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return what each program counts, by its name, as far as any attempt has reported it."""
    items = {}
    for attempt in attempts:
        if attempt["trial"]["engine"] == Engine.command and attempt["item"]:
            items[attempt["trial"]["model"]] = attempt["item"]
    return items


def _item_without_number(trial: Mapping[str, Any], items: Mapping[str, str]) -> str:
    """Return what a trial without a number would count; empty of a program where it is unknown."""
    if trial["engine"] != Engine.command:
        return IMAGES
    return str(trial.get("item") or items.get(trial["model"], ""))


def _repeat(attempt: Mapping[str, Any]) -> tuple[object, ...]:
    """Identify what was to be run; several attempts may have tried it, maybe elsewhere."""
    return attempt["trial"]["id"], attempt["sweep_id"], attempt["repeat"]


def _is_on_one_machine(attempt: Mapping[str, Any]) -> bool:
    """Say whether its hosts, more than one, were processes of one machine."""
    return bool(attempt["trial"]["hosts"] > 1 and len(set(attempt["ran_on"])) < 2)


def _softwares(attempts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the software of each attempt.

    One that ended too early to report it has that of the one before it on that machine, or of the
    next.
    """
    current: dict[str, str] = {}
    known: dict[int, str] = {}
    in_time = sorted(attempts, key=itemgetter("attempt_id"))
    for attempt in reversed(in_time):
        if attempt["environment"]:  # leaves the first of each machine
            current[attempt["machine"]["key"]] = attempt["environment"]["software_key"]
    for attempt in in_time:
        machine = attempt["machine"]["key"]
        if attempt["environment"]:
            current[machine] = attempt["environment"]["software_key"]
        known[attempt["attempt_id"]] = current.get(machine, "")
    return (known[attempt["attempt_id"]] for attempt in attempts)


def _environments(
    grouped: Mapping[tuple[str, Where, bool], Sequence[Mapping[str, Any]]],
) -> dict[Where, Environment]:
    machines: dict[Where, Mapping[str, Any]] = {}
    environments: dict[Where, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for (_, where, _), of_trial in grouped.items():
        machines[where] = of_trial[0]["machine"]
        environments[where] |= {
            row["id"]: row for attempt in of_trial if (row := attempt["environment"])
        }
    rows = {where: list(environments[where].values()) for where in machines}
    versions = distinguished(rows)
    return {
        where: _environment(where, machine, versions[where], described(rows[where]))
        for where, machine in machines.items()
    }


def _environment(
    where: Where, machine: Mapping[str, Any], versions: str, software: Mapping[str, str]
) -> Environment:
    *_, shares_host, device_kind = where
    kind, profile = DeviceKind(device_kind), machine["hardware_profile"]
    is_simulated = kind is DeviceKind.SIMULATED_GPU
    if is_simulated:
        gpus = f"{machine['num_gpus']} {kind.plural} as of {machine['gpu']}"
        text = f"simulated {machine['host'].removeprefix('simulated-')}: {gpus}, by a cost model"
    else:
        devices = kind.plural
        if kind is DeviceKind.GPU:
            devices = f"{machine['num_gpus']} x {machine['gpu']}, driver {machine['driver']}"
        text = f"{machine['host']}: {machine['num_cores']} cores {machine['cpu']}, {devices}"
    if profile:
        versions = f"{versions}, hardware profile {json.loads(profile)['name']}"
    return Environment(
        key=hashlib.sha256(repr(where).encode()).hexdigest()[:6],
        host=machine["host"],
        machine=text,
        versions=versions,
        software=software,
        device_kind=kind,
        origin=Origin.SIMULATED if is_simulated else Origin.MEASURED,
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
        compute_capability=str(machine["compute_capability"] or ""),
    )


def _result(
    of_trial: Sequence[Mapping[str, Any]],
    environment: Environment,
    brought: Collection[object],
    items: Mapping[str, str],
) -> Result:
    """`brought` are the repeats that brought a number to quote, here or elsewhere; `items` is what
    programs count.
    """
    quotable = [attempt for attempt in of_trial if is_quotable(attempt)]
    repeats = tuple(attempt["throughput"] for attempt in quotable)
    low, high = None, None
    if len(quotable) == 1:
        low, high = quotable[0]["throughput_low"], quotable[0]["throughput_high"]
    elif quotable:
        low, high = welch.interval(repeats)
    last = {_repeat(attempt): attempt for attempt in of_trial}
    failed = tuple(_outcome(attempt) for repeat, attempt in last.items() if repeat not in brought)
    if quotable:  # an interrupt, which a sweep makes up for, says nothing about the number
        failed = tuple(outcome for outcome in failed if outcome != Outcome.INTERRUPTED)
    trial = of_trial[0]["trial"]
    return Result(
        trial_id=trial["id"],
        environment=environment,
        axes=trial,
        curve=trial["curve"],
        attempt_ids=tuple(attempt["attempt_id"] for attempt in of_trial),
        outcome=Outcome.COMPLETED if quotable else _outcome(of_trial[-1]),
        repeats=repeats,
        failed=failed,
        throughput=welch.typical(repeats) if repeats else None,
        low=low,
        high=high,
        is_valid=all(_is_valid(attempt) for attempt in quotable),
        item=quotable[0]["item"] if quotable else _item_without_number(trial, items),
        is_reported=any(attempt.get("reported") for attempt in quotable),
        is_on_one_machine=_is_on_one_machine(of_trial[0]),
        usage=usage_of(quotable),
    )


def _outcome(attempt: Mapping[str, Any]) -> str:
    """Return the outcome of an attempt without a number to quote."""
    return str(Outcome.INVALID if attempt["outcome"] == Outcome.COMPLETED else attempt["outcome"])


def _is_valid(attempt: Mapping[str, Any]) -> bool:
    """Without a verdict, which imported attempts may lack, the end of warm-up counts."""
    return attempt["verdict"] == Verdict.VALID if attempt["verdict"] else bool(attempt["steady"])


def _counted(attempt: Mapping[str, Any], asked: SweepTrials) -> bool:
    """Say whether the sweep made it, or would take it for its own."""
    software = attempt["environment"] and attempt["environment"]["software_key"]
    where = (attempt["machine"]["key"], software, bool(attempt["shares_host"]))
    return attempt["sweep_id"] == asked.sweep_id or where in asked.counted
