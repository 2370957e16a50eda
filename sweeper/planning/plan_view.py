"""Shows a plan to people, trial by trial or summed up by axis, and to scripts as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict

from rich.console import Console

from scalemark.cli.terminal import print_columns
from scalemark.records.devices import SIMULATED_NOTE, STAND_INS_NOTE, DeviceKind
from scalemark.records.machine import Machine
from scalemark.records.trial import unusual_axes
from sweeper.devices.machine import Inventory
from sweeper.planning.estimate import Estimate
from sweeper.planning.plan import Plan, PlannedTrial
from sweeper.race.planned import PlannedRace, PlannedRaces

MOST_LISTED = 60  # trials; more are summed up by axis
MOST_VALUES = 12  # of one axis in a summary
MOST_REASONS = 20
MOST_EXAMPLES = 3  # cells told per reason where trials are summed up

_SHOWN = {
    "model": "model",
    "strategy": "strategy",
    "num_gpus": "GPUs",
    "batch_size": "batch",
    "image_px": "px",
    "precision": "precision",
    "data": "data",
    "num_steps": "steps",
}
"""Axes that every plan shows, with their headings; others are shown when they vary or are
unusual.
"""


def print_plan(
    console: Console,
    plan: Plan,
    machine: Machine,
    inventory: Inventory,
    estimate: Estimate,
    races: PlannedRaces | None = None,
) -> None:
    """Machine, resolved trials, what is left out and why, and how long it will take."""
    console.print(machine_line(machine, inventory), markup=False)
    summed_up = len(plan.trials) > MOST_LISTED
    if summed_up:
        _print_summary(console, plan)
    else:
        _print_trials(console, plan, races)
    _print_left_out(console, plan, MOST_EXAMPLES if summed_up else None)
    for rule in plan.useless_rules:
        console.print(f"sweep.exclude: {rule}: matches no trial of this grid", markup=False)
    for line in races.describe() if races else ():
        console.print(line, markup=False)
    if told := estimate.describe(plan):
        console.print(f"at most {told}" if races and races.races else told, markup=False)


def plan_json(
    plan: Plan, machine: Machine, estimate: Estimate, races: PlannedRaces | None = None
) -> str:
    """The whole plan as one JSON object. Where trials race, what is to be run is the most."""
    total = estimate.total(plan)
    return json.dumps(
        {
            "machine": machine.key,
            "simulated": bool(machine.hardware_profile),
            "trials": [
                {
                    "trial": trial.spec.trial_id,
                    "strategy": trial.strategy,
                    "repeats_to_run": trial.num_repeats,
                    "expected_s": estimate.expected_s(trial.spec),  # of one attempt
                    "spec": asdict(trial.spec) | {"free": dict(trial.spec.free)},
                }
                for trial in plan.trials
            ],
            "left_out": [
                {"overrides": overrides, "reason": reason} for overrides, reason in plan.left_out
            ],
            "useless_rules": list(plan.useless_rules),
            "races": [_race_json(planned) for planned in races.races] if races else [],
            "attempts_to_run": plan.num_attempts,
            "estimate": asdict(total),
        },
        indent=1,
    )


def _race_json(planned: PlannedRace) -> dict[str, object]:
    return {
        "race": planned.race.label,
        "trials": list(planned.race.trial_ids),
        "decided": planned.is_decided,
        "attempts_at_least": planned.num_least,
        "attempts_at_most": planned.num_most,
    }


def machine_line(machine: Machine, inventory: Inventory) -> str:
    """One line for people: what the numbers will be made on."""
    if inventory.is_per_host:  # which this machine is none of
        each = f"agents, each on a host with {inventory.kind.counted(inventory.num_devices)}"
        return f"{each}. {inventory.kind.note}" if inventory.kind.note else each
    where = (
        f"{machine.host}: {machine.num_cores} cores {machine.cpu}, "
        f"{machine.memory_bytes / 2**30:.0f} GiB"
    )
    if inventory.kind is DeviceKind.CPU_STAND_IN:
        return f"{where}; {inventory.num_devices} {STAND_INS_NOTE}"
    names = ", ".join(dict.fromkeys(gpu.name for gpu in inventory.gpus))
    if inventory.kind is DeviceKind.SIMULATED_GPU:
        return (
            f"{machine.host}: {inventory.num_devices} simulated GPUs as of {names}. "
            f"{SIMULATED_NOTE}"
        )
    return f"{where}; {len(inventory.gpus)} usable GPUs: {names}, driver {machine.driver}"


def _print_trials(console: Console, plan: Plan, races: PlannedRaces | None) -> None:
    named = plan.varying_axes() | {
        axis for trial in plan.trials for axis in unusual_axes(trial.spec.axes)
    }
    hosts = {"hosts"} & named
    axes = [name for axis in _SHOWN for name in (axis, *(hosts if axis == "num_gpus" else ()))]
    axes += sorted(named - set(axes))
    racing = (
        {trial_id for planned in races.races for trial_id in planned.race.trial_ids}
        if races
        else frozenset()
    )
    rows = [
        [*(_shown(trial, axis) for axis in axes), _repeats_text(trial, racing)]
        for trial in plan.trials
    ]
    print_columns(console, [*(_SHOWN.get(axis, axis) for axis in axes), "repeats"], rows)


def _repeats_text(trial: PlannedTrial, racing: Collection[str]) -> str:
    if trial.is_decided:
        return "race decided earlier"
    if not trial.num_repeats:
        return "finished earlier"
    return f"{trial.num_repeats} to run{' at most' if trial.spec.trial_id in racing else ''}"


def _print_summary(console: Console, plan: Plan) -> None:
    """The varying axes, each with its values and how many trials have them."""
    varying = plan.varying_axes()
    counts = {
        axis: Counter(_shown(trial, axis) for trial in plan.trials)
        for axis in [*_SHOWN, *sorted(varying - set(_SHOWN))]
    }
    rows = [
        [axis, str(len(values)), _values_text(values)]
        for axis, values in counts.items()
        if len(values) > 1
    ]
    print_columns(console, ["axis", "values", "value (trials)"], rows, frozenset({"values"}))
    same = [
        f"{axis}={value}" for axis, values in counts.items() if len(values) == 1 for value in values
    ]
    console.print(f"in all of them: {' '.join(same)}", markup=False)
    num_finished = sum(trial.num_repeats == 0 for trial in plan.trials)
    console.print(
        f"{len(plan.trials)} trials, {num_finished} of them finished earlier", markup=False
    )


def _values_text(counts: Counter[str]) -> str:
    """In the order of the grid; where there are many, the first and the last."""
    told = [f"{value} ({count})" for value, count in counts.items()]
    return ", ".join(
        told if len(told) <= MOST_VALUES else [*told[: MOST_VALUES - 2], "...", told[-1]]
    )


def _print_left_out(console: Console, plan: Plan, most_examples: int | None) -> None:
    by_reason = plan.left_out_by_reason()
    for reason, cells in list(by_reason.items())[:MOST_REASONS]:
        count = (
            ""
            if most_examples is None
            else f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'}, "
        )
        console.print(f"left out: {count}{reason}", markup=False)
        console.print(f"          {_examples(cells, most_examples)}", markup=False)
    if rest := list(by_reason.values())[MOST_REASONS:]:
        console.print(
            f"left out: {sum(map(len, rest))} more cells, for {len(rest)} more reasons",
            markup=False,
        )


def _examples(cells: Sequence[str], most: int | None) -> str:
    more = f"; and {len(cells) - most} more" if most is not None and len(cells) > most else ""
    return "; ".join(cells[:most]) + more


def _shown(trial: PlannedTrial, axis: str) -> str:
    if axis == "planted":
        return trial.spec.planted or "nothing"
    return str(trial.strategy if axis == "strategy" else trial.spec.axes.get(axis))
