"""Shows a plan to people as a table, and to scripts as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict

from rich.console import Console

from conf.auto_batch import batch_factor
from scalemark.abilities import fastest_precision
from scalemark.cli.terminal import print_columns
from scalemark.host import gpu_libraries
from scalemark.records.axes import Engine
from scalemark.records.free_axes import INHERITED, is_env_variable
from scalemark.records.machine import DeviceKind, Machine
from scalemark.records.outcomes import Outcome
from scalemark.records.switches import notes_of_unread
from scalemark.records.trial import (
    inherited_strategy_axes,
    strategy_axes,
    strategy_of_free_axes,
    unusual_axes,
)
from scalemark.text.wording import as_typed, counted
from simulator.costs.memory import is_half
from sweeper.devices.gpu_kinds import CHOOSE_ONE, several_kinds
from sweeper.devices.gpu_users import GpuInUse
from sweeper.devices.machine import Inventory
from sweeper.grid.from_trial import Taken
from sweeper.planning.plan import Plan, PlannedTrial
from sweeper.race.races import PlannedRace, PlannedRaces
from sweeper.way import Planned

MOST_LISTED = 60  # trials; JSON has all
MOST_REASONS = 20
MOST_CELLS = 3  # per reason; of more the number is shown
_LISTS_ALL = "sweep.dry_run=true sweep.plan_format=json"

_SHOWN = {
    "model": "model",
    "strategy": "strategy",
    "num_gpus": "GPUs",
    "batch_size": "batch",
    "image_px": "px",
    "seq_len": "tokens",
    "precision": "precision",
    "data": "data",
    "num_steps": "steps",
}
"""Axes that every plan shows, with their headings; others when they vary or are unusual."""


def print_plan(console: Console, planned: Planned, machine: Machine, inventory: Inventory) -> None:
    """Print the machine, the trials, what is left out and why, and how long it will take."""
    plan, races = planned.plan, planned.races
    console.print(machine_line(machine, inventory, planned.in_use), markup=False)
    if kinds := several_kinds(inventory.gpus):
        mixed = "trials of several GPUs may mix them, and each step waits for the slowest"
        console.print(f"{kinds}: {mixed}; {CHOOSE_ONE}", markup=False)
    is_own = any(trial.spec.engine == Engine.tensorflow for trial in plan.trials)
    if is_own and inventory.kind is DeviceKind.GPU:
        for note in (
            _auto_note(inventory),
            _xla_note(plan),
            gpu_libraries.compiled_note(inventory.gpus),
        ):
            if note:
                console.print(note, markup=False)
    _print_trials(console, plan, races, inventory.kind)
    if planned.in_use:
        _print_waiting(console, plan, inventory.num_devices - len(planned.in_use))
    _print_left_out(console, plan)
    for note in notes_of_unread(trial.spec for trial in plan.trials):
        console.print(note, markup=False)
    if num := planned.num_of_other_software:
        have = "has" if num == 1 else "have"
        console.print(
            f"{counted(num, 'trial')} of these {have} finished with other packages, variables or "
            "code; numbers of different software are never mixed, and all that is listed runs",
            markup=False,
        )
    if planned.failed_last:
        console.print(_failed_last(planned.failed_last), markup=False)
    for rule in plan.useless_rules:
        console.print(f"sweep.exclude: {rule}: matches no trial of this grid", markup=False)
    expected = planned.estimate.describe(plan)
    if races:
        for line in races.describe():
            console.print(line, markup=False)
        if expected and races.races:
            expected = f"at most {expected}"
    if expected:
        console.print(expected, markup=False)


def _failed_last(failed: Mapping[str, Outcome]) -> str:
    num_ended = Counter(failed.values())
    how = ", ".join(f"{num} {outcome}" for outcome, num in sorted(num_ended.items()))
    trials = counted(len(failed), "trial")
    return f"run again after a failure: {trials} ({how}); sweep.exclude leaves trials out"


def _auto_note(inventory: Inventory) -> str:
    """Say what these GPUs make of `auto`; empty where it is what every card has."""
    precision = fastest_precision(inventory.compute_capability)
    times = batch_factor(inventory.memory_bytes)
    said = []
    if precision != fastest_precision(None):
        said.append(f"precision {precision}, for their tensor cores")
    if times > 1:
        gib = (inventory.memory_bytes or 0) / 2**30
        said.append(f"{times} times a model's batch where it fits, for {gib:.0f} GiB each")
    return f"auto on these GPUs: {'; '.join(said)}" if said else ""


def _xla_note(plan: Plan) -> str:
    """Say what XLA brought where all trials go without it; empty for other plans."""
    specs = [trial.spec for trial in plan.trials]
    tried = {spec.xla for spec in specs if spec.engine == Engine.tensorflow}
    if tried != {"off"} or not any(is_half(spec.precision) for spec in specs):
        return ""
    return (
        "xla=off: on an H200 xla=on was 1.7 times as fast for ResNet-50, and 4 times for GPT-2, "
        "in bf16; xla=off,on compares"
    )


def plan_json(
    planned: Planned,
    machine: Machine,
    taken: Taken | None = None,
) -> str:
    """Return the whole plan as JSON; where trials race, with the most that is to be run."""
    plan, races, estimate = planned.plan, planned.races, planned.estimate
    trials, strategies = [], _strategies(plan)
    for trial in plan.trials:
        trials.append(
            {
                "trial": trial.spec.trial_id,
                "strategy": strategies[trial.spec.trial_id],
                "repeats_to_run": trial.num_repeats,
                "failed_last": planned.failed_last.get(trial.spec.trial_id),  # how it ended
                "expected_s": estimate.expected_s(trial.spec),  # of one attempt
                "spec": asdict(trial.spec) | {"free": dict(trial.spec.free)},
            }
        )
    left_out = [{"overrides": overrides, "reason": reason} for overrides, reason in plan.left_out]
    found = {
        "from": taken and asdict(taken),  # an earlier trial, and what came from it
        "machine": machine.key,
        "simulated": bool(machine.hardware_profile),
        "gpus_in_use": [asdict(gpu) for gpu in planned.in_use],  # by others
        "trials": trials,
        "left_out": left_out,
        "useless_rules": list(plan.useless_rules),
        "races": [_race_json(race) for race in races.races] if races else [],
        "attempts_to_run": plan.num_attempts,
        "estimate": asdict(estimate.total(plan)),
    }
    return json.dumps(found, indent=1)


def _race_json(planned: PlannedRace) -> dict[str, object]:
    return {
        "race": planned.race.label,
        "trials": list(planned.race.trial_ids),
        "decided": planned.is_decided,
        "attempts_at_least": planned.num_least,
        "attempts_at_most": planned.num_most,
    }


def machine_line(machine: Machine, inventory: Inventory, in_use: Sequence[GpuInUse] = ()) -> str:
    """Describe in one line the machine that the numbers will be made on, and what others use of
    it.
    """
    name = machine.host
    if inventory.num_hosts:
        name = counted(inventory.num_hosts, "host") + f" of {machine.pool}, each as {name}"
    where = (
        f"{name}: {machine.num_cores} cores {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB"
    )
    devices = inventory.kind.counted(inventory.num_devices)
    if inventory.kind is DeviceKind.CPU_DEVICE:
        return f"{where}; {devices}: {inventory.kind.meaning}"
    names = ", ".join(dict.fromkeys(gpu.name for gpu in inventory.gpus))
    if inventory.kind is DeviceKind.SIMULATED_GPU:
        return f"{machine.host}: {devices} as of {names}: {inventory.kind.meaning}"
    kind = f"{names}, driver {machine.driver}"
    if not in_use:
        return f"{where}; {counted(len(inventory.gpus), 'usable GPU')}: {kind}"
    num_free = len(inventory.gpus) - len(in_use)
    taken = ", ".join(map(str, in_use))
    is_are = "is" if len(in_use) == 1 else "are"
    return (
        f"{where}; {num_free} of {counted(len(inventory.gpus), 'GPU')} free: {kind}; "
        f"{taken} {is_are} in use by others"
    )


def _print_trials(
    console: Console, plan: Plan, races: PlannedRaces | None, kind: DeviceKind
) -> None:
    trials = plan.trials[:MOST_LISTED]
    axes = _axes_shown(plan)
    racing: set[str] = set()
    for planned in races.races if races else ():
        racing.update(planned.race.trial_ids)
    rows, strategies = [], _strategies(plan)
    for trial in trials:
        shown = {axis: _shown(trial, axis) for axis in axes}
        shown["strategy"] = strategies[trial.spec.trial_id]
        rows.append([*shown.values(), _repeats_text(trial, racing)])
    headings = [_SHOWN.get(axis, axis) for axis in axes]
    if kind is DeviceKind.CPU_DEVICE:
        headings[axes.index("num_gpus")] = "devices"
    print_columns(console, [*headings, "repeats"], rows)
    num_more = len(plan.trials) - len(trials)
    if num_more:
        more = f"and {counted(num_more, 'more trial')}"
        console.print(f"{more}: {_LISTS_ALL} lists all", markup=False)


def _print_waiting(console: Console, plan: Plan, num_free: int) -> None:
    """Say how many trials will wait for GPUs that others use now."""
    waiting = [one for one in plan.trials if one.num_repeats and one.spec.num_gpus > num_free]
    if waiting:
        what = f"{counted(len(waiting), 'trial')} of more GPUs than are free now"
        wait = "waits" if len(waiting) == 1 else "wait"
        line = f"{what}: {wait} until enough are (launcher.wait_for_gpus_s)"
        console.print(line, markup=False)


def _axes_shown(plan: Plan) -> list[str]:
    others = plan.varying_axes()
    for trial in plan.trials:
        others.update(unusual_axes(trial.spec.axes))
    others.difference_update(_SHOWN)
    for trial in plan.trials:
        others.difference_update(strategy_axes(trial.spec.axes))
    others.update(_inherited_by_some(plan))
    axes = [axis for axis in _SHOWN if _is_known(plan, axis)]
    if "hosts" in others:
        others.remove("hosts")
        axes.insert(axes.index("num_gpus") + 1, "hosts")
    return axes + sorted(others)


def _inherited_by_some(plan: Plan) -> set[str]:
    """Return the variables that others set, without those that strategies name of each trial."""
    free = [dict(trial.spec.free) for trial in plan.trials]
    names = {axis for own in free for axis in own if is_env_variable(axis)}
    for named in _inherited(plan):
        names.difference_update(named)
    return {axis for axis in names if any(axis not in own for own in free)}


def _inherited(plan: Plan) -> list[tuple[str, ...]]:
    return inherited_strategy_axes([trial.spec.axes for trial in plan.trials])


def _strategies(plan: Plan) -> dict[str, str]:
    """Return the strategy of each trial, as tables of its results name it beside the others."""
    found = {}
    for trial, names in zip(plan.trials, _inherited(plan), strict=True):
        named = strategy_of_free_axes(trial.spec.axes, names)
        found[trial.spec.trial_id] = named or trial.strategy
    return found


def _is_known(plan: Plan, axis: str) -> bool:
    """Return whether any trial has this axis: a program lacks most, and a model has one size."""
    return axis == "strategy" or any(_shown(trial, axis) != "-" for trial in plan.trials)


def _repeats_text(trial: PlannedTrial, racing: Collection[str]) -> str:
    if trial.is_decided:
        return "race decided earlier"
    if not trial.num_repeats:
        return "finished earlier"
    return f"{trial.num_repeats} to run{' at most' if trial.spec.trial_id in racing else ''}"


def _print_left_out(console: Console, plan: Plan) -> None:
    by_reason = plan.left_out_by_reason()
    for reason, cells in list(by_reason.items())[:MOST_REASONS]:
        which = "; ".join(filter(None, cells))
        if len(cells) > MOST_CELLS:
            which = f"{len(cells)} cells"
        console.print(f"left out: {reason}{f' ({which})' if which else ''}", markup=False)
    if len(by_reason) > MOST_REASONS:
        num_more = len(by_reason) - MOST_REASONS
        more = f"left out: cells for {counted(num_more, 'more reason')}"
        console.print(more, markup=False)
    if any(len(cells) > MOST_CELLS for cells in by_reason.values()):
        console.print(f"cells left out: {_LISTS_ALL} lists them", markup=False)


def _shown(trial: PlannedTrial, axis: str) -> str:
    if axis == "injected":
        return trial.spec.injected or "nothing"
    value = trial.spec.axes.get(axis)
    if value is None and is_env_variable(axis):
        return INHERITED
    is_no_size = axis in ("image_px", "seq_len") and value == 0  # the model has none, or says it
    return "-" if value is None or is_no_size else as_typed(value)
