"""Makes results of attempts: trials with their repeats, and the software of environments."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from typing import Any

from analysis.results import (
    BaselineRule,
    Environment,
    Gpus,
    Result,
    doubts_of,
    is_quotable,
    with_baselines,
)
from scalemark.host.software import COMMIT, DIRTY, OF_PROGRAM, facts
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import IMAGES, LINES_COUNT, MAX_FOREIGN_SHARE, STEPS, Outcome
from scalemark.records.references import Origin
from scalemark.records.trial import naming_axes, strategy_of_free_axes
from scalemark.stats import welch
from scalemark.text.wording import listed
from store.reading.queries import SweepTrials

_FRAMEWORKS = {
    "torch": "PyTorch",
    "jax": "JAX",
    "tensorflow": "TensorFlow",
    "tf_nightly": "TensorFlow",
}
_MOST_NAMED = 3  # packages and variables, where these are enough

Where = tuple[str, str, bool, str]
"""Keys of machine and software, whether the host was shared, and the kind of device."""


def distinguished(rows_of: Mapping[Where, Sequence[Mapping[str, Any]]]) -> dict[Where, str]:
    """Return `TensorFlow 2.21.0, scalemark 0.1.0`, with `numpy 2.4.6` where another environment of
    the machine had another one.
    """
    versions_of = {}
    alike: dict[tuple[object, ...], list[Where]] = defaultdict(list)
    for where, rows in rows_of.items():
        machine, _, shares_host, device_kind = where
        versions_of[where] = _usual(rows, device_kind)
        alike[machine, shares_host, device_kind, versions_of[where]].append(where)
    for wheres in alike.values():
        if len(wheres) > 1:
            texts_of = differing([described(rows_of[where]) for where in wheres])
            for where, text in zip(wheres, texts_of, strict=True):
                versions_of[where] += f", {text or f'software {where[1][:6]}'}"
    return versions_of


def described(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return by name what numbers depend on; all rows of an environment have the same."""
    every = [facts(row["description"]) for row in rows]
    for known in every:  # the same code may have been measured before its commit and after it
        if not known.get(COMMIT, DIRTY).endswith(DIRTY):
            return known
    return every[0] if every else {}


def differing(environments: Sequence[Mapping[str, str]]) -> list[str]:
    """Return of each what not all have alike; empty where two would read the same."""
    every = sorted(set().union(*environments))
    names = []
    for name in every:
        if len({environment.get(name) for environment in environments}) > 1:
            names.append(name)
    for shown in (names[:_MOST_NAMED], names):
        more = ""
        if len(shown) < len(names):
            more = f" and {len(names) - len(shown)} more"
        texts = [_said(environment, shown) + more for environment in environments]
        if len(set(texts)) == len(texts):
            return texts
    return [""] * len(environments)


def _said(environment: Mapping[str, str], names: Sequence[str]) -> str:
    """Return its values, as `numpy 2.4.6, no keras`. Of a program what it lacks is named only where
    it has nothing of these: one in a checkout has a commit, any other a digest of its code.
    """
    has_some = not environment.keys().isdisjoint(names)
    words = []
    for name in names:
        if name in environment:
            words.append(f"{name} {environment[name]}")
        elif not (has_some and name.startswith(OF_PROGRAM)):
            words.append(f"no {name}")
    return ", ".join(words)


def _usual(rows: Sequence[Mapping[str, Any]], device_kind: str) -> str:
    """Simulated numbers are not TensorFlow's."""
    start = ""
    if device_kind == DeviceKind.SIMULATED_GPU:
        start = "simulated by "
    texts = set()
    for row in rows:
        frameworks = "" if start else _frameworks(row)
        texts.add(f"{start}{frameworks}scalemark {row['scalemark']}")
    return " and ".join(sorted(texts)) or f"{start}versions unknown"


def _frameworks(environment: Mapping[str, Any]) -> str:
    """Return `Python 3.12.1 with PyTorch 2.9.0 installed, `: a program may use less of it."""
    description = environment["description"] or {}
    if "program" not in description:
        return f"TensorFlow {environment['tensorflow']}, "
    packages = description.get("packages") or {}
    named = [f"{word} {packages[name]}" for name, word in _FRAMEWORKS.items() if name in packages]
    python, installed = description.get("python"), ""
    if named:
        installed = f" with {listed(named)} installed"
    return f"Python {python}{installed}, " if python else ""


_Key = tuple[str, Where, bool]  # trial, environment, and whether hosts were of one machine


def measured(
    attempts: Sequence[Mapping[str, Any]],
    rule: BaselineRule = BaselineRule.SAME,
    found_by: tuple[str, ...] = (),
    races: Mapping[tuple[str, str], str] = {},
) -> list[Result]:
    """Make results of all attempts, in their order; only the repeats of one trial are averaged.

    `attempts` are as `store.reading.queries.measured` has them. Those on simulated GPUs make
    results of their own, whose environment has the origin SIMULATED. There may be hundreds of
    thousands: what attempts share is looked at once for all that share it. `races` are as
    `store.reading.earlier.raced_out` has them.
    """
    softwares = _softwares_of_unknown(attempts)
    alike: dict[tuple[object, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for attempt in attempts:
        environment = attempt["environment"]
        software = environment["id"] if environment else softwares[attempt["attempt_id"]]
        machine = attempt["machine"]["id"]
        on_one_machine = attempt["ran_on"] and _is_on_one_machine(attempt)
        which = (attempt["trial_id"], machine, software, attempt["shares_host"], on_one_machine)
        alike[which].append(attempt)
    grouped: dict[_Key, list[Mapping[str, Any]]] = {}
    rows: dict[Where, dict[int, Mapping[str, Any]]] = defaultdict(dict)
    machines: dict[Where, Mapping[str, Any]] = {}
    for of_trial in alike.values():
        first = of_trial[0]
        trial, environment = first["trial"], first["environment"]
        software = environment["software_key"] if environment else softwares[first["attempt_id"]]
        shares_host = bool(first["shares_host"])
        where = (first["machine"]["key"], software, shares_host, trial["device_kind"])
        machines.setdefault(where, first["machine"])
        if environment:
            rows[where].setdefault(environment["id"], environment)
        of_result = (trial["id"], where, _is_on_one_machine(first))
        if of_result in grouped:
            of_trial = sorted(grouped[of_result] + of_trial, key=itemgetter("attempt_id"))
        grouped[of_result] = of_trial
    known = {where: list(rows[where].values()) for where in machines}
    versions = distinguished(known)
    environments = {}
    for where, machine in machines.items():
        environments[where] = _environment(where, machine, versions[where], described(known[where]))
    results = _averaged(grouped, environments, found_by, races)
    return with_baselines(_named_apart(results), rule)


def _averaged(
    grouped: Mapping[_Key, list[Mapping[str, Any]]],
    environments: Mapping[Where, Environment],
    found_by: tuple[str, ...],
    races: Mapping[tuple[str, str], str],
) -> list[Result]:
    """Make a result of each group of attempts."""
    numbers, lacking = {}, set()
    for key, of_trial in grouped.items():
        numbers[key] = list(filter(is_quotable, of_trial))
        if len(numbers[key]) < len(of_trial):
            lacking.add(key[0])
    # repeats that brought a number to quote, of trials with an attempt that did not
    brought: set[tuple[object, ...]] = set()
    for key, quotable in numbers.items():
        if key[0] in lacking:
            brought.update(map(_repeat, quotable))
    results = []
    for key, of_trial in grouped.items():
        environment = environments[key[1]]
        trial_id, (machine, *_), _ = key
        out_of_race = races.get((trial_id, machine), "")
        result = _result(of_trial, numbers[key], environment, brought, out_of_race, found_by)
        results.append(result)
    return results


def belonging(
    results: Sequence[Result], attempts: Sequence[Mapping[str, Any]], asked: SweepTrials
) -> list[Result]:
    """Return them in the sweep's order, each with its number of repeats by other sweeps; `attempts`
    are those behind all results.
    """
    own, of_others = set(), set()
    for attempt in attempts:
        is_own = attempt["sweep_id"] == asked.sweep_id
        software = attempt["environment"] and attempt["environment"]["software_key"]
        where = (attempt["machine"]["key"], software, bool(attempt["shares_host"]))
        if is_own or where in asked.counted:  # or the sweep would take it for its own
            own.add(attempt["attempt_id"])
        if not is_own and is_quotable(attempt):
            of_others.add(attempt["attempt_id"])
    environments = set()
    for result in results:
        if not own.isdisjoint(result.attempt_ids):
            environments.add(result.environment.key)
    is_anywhere = not environments and not asked.counted  # imported, and nobody says where it ran
    asked_for = []
    for result in results:
        is_there = is_anywhere or result.environment.key in environments
        if is_there and result.trial_id in asked.positions:
            num = len(of_others.intersection(result.attempt_ids))
            asked_for.append(replace(result, of_other_sweeps=num))
    return sorted(asked_for, key=lambda result: asked.positions[result.trial_id])


def in_order_asked(
    results: Sequence[Result], attempts: Sequence[Mapping[str, Any]]
) -> list[Result]:
    """Return them as the sweeps that first ran them asked for them, oldest first: attempts of a
    sweep are run in random order. `attempts` are those behind them.
    """
    places = {}
    for attempt in attempts:
        places[attempt["attempt_id"]] = (attempt["sweep_id"], attempt["position"] or 0)
    return sorted(results, key=lambda result: places[result.attempt_ids[0]])


def _named_apart(results: Sequence[Result]) -> list[Result]:
    """Name trials of programs by what tells them from each other."""
    if not any(result.is_of_program for result in results):
        return list(results)
    named = []
    naming = naming_axes([result.axes for result in results])
    for result, names in zip(results, naming, strict=True):
        if names:
            axes = {**result.axes, "strategy": strategy_of_free_axes(result.axes, names)}
            result = replace(result, axes=axes, named_axes=names)
        named.append(result)
    return named


def _repeat(attempt: Mapping[str, Any]) -> tuple[object, ...]:
    """Identify what was to be run; several attempts may have tried it, maybe elsewhere."""
    return attempt["trial_id"], attempt["sweep_id"], attempt["repeat"]


def _is_on_one_machine(attempt: Mapping[str, Any]) -> bool:
    """Say whether its hosts, more than one, were processes of one machine."""
    return bool(attempt["trial"]["hosts"] > 1 and len(set(attempt["ran_on"])) < 2)


def _softwares_of_unknown(attempts: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Return the software of attempts that ended too early to report it: that of the attempt before
    it on that machine, or of the next.
    """
    if all(attempt["environment"] for attempt in attempts):
        return {}
    current: dict[str, str] = {}
    softwares: dict[int, str] = {}
    in_time = sorted(attempts, key=itemgetter("attempt_id"))
    for attempt in reversed(in_time):
        if attempt["environment"]:  # leaves the first of each machine
            current[attempt["machine"]["key"]] = attempt["environment"]["software_key"]
    for attempt in in_time:
        machine = attempt["machine"]["key"]
        if attempt["environment"]:
            current[machine] = attempt["environment"]["software_key"]
        else:
            softwares[attempt["attempt_id"]] = current.get(machine, "")
    return softwares


def _environment(
    where: Where, machine: Mapping[str, Any], versions: str, software: Mapping[str, str]
) -> Environment:
    *_, shares_host, device_kind = where
    kind, profile = DeviceKind(device_kind), machine["hardware_profile"]
    is_simulated = kind is DeviceKind.SIMULATED_GPU
    gpus_here = None
    if is_simulated:
        gpus = f"{machine['num_gpus']} {kind.plural} like {machine['gpu']}"
        text = f"simulated {machine['host'].removeprefix('simulated-')}: {gpus}, by a cost model"
    else:
        devices = kind.plural
        if kind is DeviceKind.GPU:
            devices = f"{machine['num_gpus']} x {machine['gpu']}, driver {machine['driver']}"
            gpus_here = Gpus(
                name=machine["gpu"] if machine["num_gpu_names"] == 1 else "",
                num=machine["num_gpus"],
                num_nvlink_pairs=machine["num_nvlink_pairs"],
                compute_capability=str(machine["compute_capability"] or ""),
            )
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
        gpus=gpus_here,
        hardware_profile=profile,
    )


def _result(
    of_trial: Sequence[Mapping[str, Any]],
    quotable: Sequence[Mapping[str, Any]],
    environment: Environment,
    brought: Collection[object],
    out_of_race: str,
    found_by: tuple[str, ...],
) -> Result:
    """`brought` are the repeats that brought a number to quote, here or elsewhere."""
    repeats = tuple([attempt["throughput"] for attempt in quotable])
    low, high = None, None
    if len(quotable) == 1:
        low, high = quotable[0]["throughput_low"], quotable[0]["throughput_high"]
    elif quotable:
        low, high = welch.interval(repeats)
    failed = []
    if len(quotable) < len(of_trial):
        last = {_repeat(attempt): _outcome(attempt) for attempt in of_trial}
        for repeat, outcome in last.items():
            # an interrupt, which a sweep makes up for, says nothing about a number
            if repeat not in brought and not (quotable and outcome == Outcome.INTERRUPTED):
                failed.append(outcome)
    trial = of_trial[0]["trial"]
    item = IMAGES
    if trial["engine"] == Engine.command:  # unknown of a program that reported nothing
        item = str(trial.get("item") or "")
    return Result(
        trial_id=trial["id"],
        environment=environment,
        axes=trial,
        curve=trial["curve"],
        attempt_ids=tuple([attempt["attempt_id"] for attempt in of_trial]),
        outcome=Outcome.COMPLETED if quotable else _outcome(of_trial[-1]),
        repeats=repeats,
        failed=tuple(failed),
        throughput=welch.typical(repeats) if repeats else None,
        low=low,
        high=high,
        doubts=tuple(dict.fromkeys(chain.from_iterable(map(doubts_of, quotable)))),
        was_busy=_was_busy(trial, quotable),
        is_settled=all(attempt["steady"] for attempt in quotable),
        item=quotable[0]["item"] if quotable else item,
        is_reported=any(attempt["reported"] for attempt in quotable),
        is_unconfirmed=_is_unconfirmed(trial, quotable),
        is_on_one_machine=_is_on_one_machine(of_trial[0]),
        quotable=quotable,
        out_of_race=out_of_race,
        found_by=found_by,
    )


def _outcome(attempt: Mapping[str, Any]) -> str:
    """Return the outcome of an attempt without a number to quote."""
    return str(Outcome.INVALID if attempt["outcome"] == Outcome.COMPLETED else attempt["outcome"])


def _is_unconfirmed(trial: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether only the program says how many items a step has, or it prints no steps."""
    if trial["engine"] != Engine.command:
        return False
    for attempt in attempts:
        is_counted = trial.get("items_per_step") and attempt["median_step_s"] is not None
        is_by_lines = LINES_COUNT in str(attempt["verdict_reasons"])
        if not (is_counted or is_by_lines or attempt["reported"] or attempt["item"] == STEPS):
            return True
    return False


def _was_busy(trial: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether its machine had other work, as verdicts of it say."""
    is_on_cpu = trial["device_kind"] == DeviceKind.CPU_DEVICE  # on GPUs it hardly matters
    for attempt in attempts:
        taken = attempt["cores_taken_by_others"] or 0.0
        most = MAX_FOREIGN_SHARE * attempt["machine"]["num_cores"]
        if attempt["shares_host"] or (is_on_cpu and taken > most):
            return True
    return False
