"""Shows a plan to people, trial by trial or summed up by axis, and to scripts as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Console

from store.records import STAND_INS_NOTE, DeviceKind, Machine, unusual_axes
from store.terminal import print_columns
from sweeper.estimate import Estimate
from sweeper.machine import Inventory
from sweeper.plan import Plan, PlannedTrial

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
"""Axes that every plan shows, with their headings; others are shown when they vary or are unusual."""


def print_plan(console: Console, plan: Plan, machine: Machine, inventory: Inventory, estimate: Estimate) -> None:
    """Machine, resolved trials, what is left out and why, and how long it will take."""
    console.print(machine_line(machine, inventory), markup=False)
    summed_up = len(plan.trials) > MOST_LISTED
    if summed_up:
        _print_summary(console, plan)
    else:
        _print_trials(console, plan)
    _print_left_out(console, plan, MOST_EXAMPLES if summed_up else None)
    for rule in plan.useless_rules:
        console.print(f"sweep.exclude: {rule}: matches no trial of this grid", markup=False)
    if told := estimate.describe(plan):
        console.print(told, markup=False)


def plan_json(plan: Plan, machine: Machine, estimate: Estimate) -> str:
    """The whole plan as one JSON object."""
    total = estimate.total(plan)
    return json.dumps(
        {
            "machine": machine.key,
            "trials": [
                {
                    "trial": trial.spec.trial_id,
                    "strategy": trial.strategy,
                    "repeats_to_run": trial.num_repeats,
                    "expected_s": estimate.expected_s(trial.spec),  # of one attempt
                    "spec": asdict(trial.spec),
                }
                for trial in plan.trials
            ],
            "left_out": [{"overrides": overrides, "reason": reason} for overrides, reason in plan.left_out],
            "useless_rules": list(plan.useless_rules),
            "attempts_to_run": plan.num_attempts,
            "estimate": asdict(total),
        },
        indent=1,
    )


def machine_line(machine: Machine, inventory: Inventory) -> str:
    """One line for people: what the numbers will be made on."""
    where = f"{machine.host}: {machine.num_cores} cores {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB"
    if inventory.kind is DeviceKind.CPU_STAND_IN:
        return f"{where}; {inventory.num_devices} {STAND_INS_NOTE}"
    names = ", ".join(dict.fromkeys(gpu.name for gpu in inventory.gpus))
    return f"{where}; {len(inventory.gpus)} usable GPUs: {names}, driver {machine.driver}"


def _print_trials(console: Console, plan: Plan) -> None:
    named = plan.varying_axes() | {axis for trial in plan.trials for axis in unusual_axes(asdict(trial.spec))}
    axes = [*_SHOWN, *sorted(named - set(_SHOWN))]
    rows = [
        [*(_shown(trial, axis) for axis in axes), f"{trial.num_repeats} to run" if trial.num_repeats else "finished earlier"]
        for trial in plan.trials
    ]
    print_columns(console, [*(_SHOWN.get(axis, axis) for axis in axes), "repeats"], rows)


def _print_summary(console: Console, plan: Plan) -> None:
    """The varying axes, each with its values and how many trials have them."""
    varying = plan.varying_axes()
    counts = {axis: Counter(_shown(trial, axis) for trial in plan.trials) for axis in [*_SHOWN, *sorted(varying - set(_SHOWN))]}
    rows = [[axis, str(len(values)), _values_text(values)] for axis, values in counts.items() if len(values) > 1]
    print_columns(console, ["axis", "values", "value (trials)"], rows, frozenset({"values"}))
    same = [f"{axis}={value}" for axis, values in counts.items() if len(values) == 1 for value in values]
    console.print(f"in all of them: {' '.join(same)}", markup=False)
    num_finished = sum(trial.num_repeats == 0 for trial in plan.trials)
    console.print(f"{len(plan.trials)} trials, {num_finished} of them finished earlier", markup=False)


def _values_text(counts: Counter[str]) -> str:
    """In the order of the grid; where there are many, the first and the last."""
    told = [f"{value} ({count})" for value, count in counts.items()]
    return ", ".join(told if len(told) <= MOST_VALUES else [*told[: MOST_VALUES - 2], "...", told[-1]])


def _print_left_out(console: Console, plan: Plan, most_examples: int | None) -> None:
    by_reason = plan.left_out_by_reason()
    for reason, cells in list(by_reason.items())[:MOST_REASONS]:
        count = "" if most_examples is None else f"{len(cells)} {'cell' if len(cells) == 1 else 'cells'}, "
        console.print(f"left out: {count}{reason}", markup=False)
        console.print(f"          {_examples(cells, most_examples)}", markup=False)
    if rest := list(by_reason.values())[MOST_REASONS:]:
        console.print(f"left out: {sum(map(len, rest))} more cells, for {len(rest)} more reasons", markup=False)


def _examples(cells: Sequence[str], most: int | None) -> str:
    more = f"; and {len(cells) - most} more" if most is not None and len(cells) > most else ""
    return "; ".join(cells[:most]) + more


def _shown(trial: PlannedTrial, axis: str) -> str:
    return str(trial.strategy if axis == "strategy" else getattr(trial.spec, axis))
