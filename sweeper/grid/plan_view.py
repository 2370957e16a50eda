"""Estimates how long a plan will take, and shows it to people as a table, to scripts as JSON."""

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from rich.console import Console

from scalemark.cli.terminal import print_columns
from scalemark.host.launch import Launch
from scalemark.program import template
from scalemark.records.axes import INHERITED, AxisValue, is_env_variable
from scalemark.records.machine import DeviceKind, Machine
from scalemark.records.trial import (
    TrialSpec,
    naming_axes,
    strategy_axes,
    strategy_of_free_axes,
    unusual_axes,
)
from scalemark.text.wording import as_typed, counted, duration_text, shortened
from store.reading.earlier import Durations, recorded_durations_s
from sweeper.devices.machine import Inventory
from sweeper.devices.nvml import GpuInUse
from sweeper.early_stopping.budget import Budget
from sweeper.early_stopping.contests import Contest, Race
from sweeper.early_stopping.fastest import plan_line
from sweeper.grid.from_trial import Taken
from sweeper.grid.plan import Plan, varying_axes

MOST_LISTED = 20  # trials in the table; of more, the values of each axis; JSON has all
_MOST_VALUES = 12  # of an axis that are named
MOST_REASONS = 10
_MOST_CHANGES = 5  # of software that are named
MOST_CELLS = 3  # per reason; of more the number is shown
_LISTS_ALL = "sweep.dry_run=true sweep.plan_format=json"

_SHOWN = {
    "model": "model",
    "strategy": "strategy",
    "num_gpus": "GPUs",
    "hosts": "hosts",
    "batch_size": "batch",
    "image_px": "px",
    "seq_len": "tokens",
    "precision": "precision",
    "data": "data",
    "num_steps": "steps",
}
"""Axes that every plan shows, with their headings; others when they vary or are unusual."""

_Axes = Mapping[str, AxisValue | None]  # see TrialSpec.axes


class Estimate(Durations):
    """Durations of attempts and of whole plans."""

    @classmethod
    def of(cls, engine: sa.Engine | None, machine_key: str) -> "Estimate":
        """Read the durations on this machine; without a database there are none."""
        return cls(recorded_durations_s(engine, machine_key) if engine else ())

    def total(self, plan: Plan) -> tuple[float, int]:
        """Return the expected time of a plan's attempts, one after another, of those with recorded
        durations, and the number of those without.
        """
        known_s, num_unknown = 0.0, 0
        for trial in plan.trials:
            expected_s = self.expected_s(trial.spec)
            if expected_s is None:
                num_unknown += trial.num_repeats
            else:
                known_s += trial.num_repeats * expected_s
        return known_s, num_unknown

    def describe(self, plan: Plan) -> str:
        """Return one line for people; empty when nothing is to be run."""
        num, (known_s, unknown) = plan.num_attempts, self.total(plan)
        if not num:
            return ""
        attempts = "1 attempt to run" if num == 1 else f"{num} attempts to run"
        if unknown == num:
            return f"{attempts}; no recorded durations of such trials on this machine: no estimate"
        text = f"{attempts}; expected: {duration_text(known_s)} one after another"
        if unknown:
            rest = f"no recorded durations for the other {unknown}: no estimate"
            text += f" for {num - unknown} of them; {rest}"
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan, and what is known for it."""

    plan: Plan
    estimate: Estimate
    budget: Budget | None = None
    contests: Sequence[Contest] = ()  # races, or a change that is judged
    in_use: Sequence[GpuInUse] = ()  # GPUs of this machine that others use while it is planned
    num_of_other_software: int = 0  # trials to run that have finished with other software
    changed: Sequence[str] = ()  # since then, in the software

    @property
    def races(self) -> list[Race]:
        return [contest for contest in self.contests if isinstance(contest, Race)]


def print_plan(console: Console, planned: Planned, machine: Machine, inventory: Inventory) -> None:
    """Print the machine, the trials, what is left out and why, and how long it will take."""
    plan = planned.plan
    headings = dict(_SHOWN)
    if inventory.kind is DeviceKind.CPU_DEVICE:
        headings["num_gpus"] = "devices"
    console.print(machine_line(machine, inventory, planned.in_use), markup=False)
    kinds = Counter(gpu.name for gpu in inventory.gpus)
    if len(kinds) > 1:
        console.print(
            f"{len(kinds)} kinds of GPU ({_listed(kinds, '{1} x {0}')}): trials of several GPUs "
            "may mix them, and each step waits for the slowest; choose one by "
            "CUDA_VISIBLE_DEVICES=, with UUIDs as nvidia-smi -L lists them",
            markup=False,
        )
    table = _table(plan, headings)
    racing = {trial_id for race in planned.races for trial_id in race.trial_ids}
    for trial, cells in zip(plan.trials, table, strict=True):
        cells["repeats"] = f"{trial.num_repeats} to run"
        if trial.is_decided:
            cells["repeats"] = "race decided earlier"
        elif not trial.num_repeats:
            cells["repeats"] = "finished earlier"
        elif trial.spec.trial_id in racing:
            cells["repeats"] += " at most"
    if len(table) > MOST_LISTED:
        _print_axes(console, table)
    else:
        columns = list(table[0]) if table else ["repeats"]
        print_columns(console, columns, [row.values() for row in table])
    for line in (*_left_out(plan), *_notes(planned)):
        console.print(line, markup=False)


def machine_line(machine: Machine, inventory: Inventory, in_use: Sequence[GpuInUse] = ()) -> str:
    """Describe the machine of the numbers, and what others use of it, in one line."""
    name = machine.host
    if inventory.num_hosts:
        name = counted(inventory.num_hosts, "host") + f" of {machine.pool}, each as {name}"
    where = (
        f"{name}: {machine.num_cores} cores {machine.cpu}, {machine.memory_bytes / 2**30:.0f} GiB"
    )
    if inventory.kind is DeviceKind.CPU_DEVICE:
        return f"{where}; {inventory.kind.note}"
    names = ", ".join(dict.fromkeys(gpu.name for gpu in inventory.gpus))
    if inventory.kind is DeviceKind.SIMULATED_GPU:
        devices = inventory.kind.counted(inventory.num_devices)
        return f"{machine.host}: {devices} like {names}: {inventory.kind.meaning}"
    kind = f"{names}, driver {machine.driver}"
    line = f"{where}; {counted(len(inventory.gpus), 'usable GPU')}: {kind}"
    if in_use:
        line += f"; in use by others: {', '.join(map(str, in_use))}"
    return line


def plan_json(planned: Planned, machine: Machine, taken: Taken | None = None) -> str:
    """Return the whole plan as JSON; where trials race, with the most that is to be run."""
    plan, estimate = planned.plan, planned.estimate
    expected_s, num_unknown = estimate.total(plan)
    trials = []
    strategies = _strategies(plan, [spec.axes for spec in plan.specs])
    for trial, strategy in zip(plan.trials, strategies, strict=True):
        trials.append(
            {
                "trial": trial.spec.trial_id,
                "strategy": strategy,
                "repeats_to_run": trial.num_repeats,
                "expected_s": estimate.expected_s(trial.spec),  # of one attempt
                "spec": asdict(trial.spec) | {"free": dict(trial.spec.free)},
            }
        )
    races = []
    for race in planned.races:
        races.append({"trials": race.trial_ids, "decided": race.is_decided})
    values = {
        "from": taken and asdict(taken),  # an earlier trial, and what came from it
        "machine": machine.key,
        "simulated": bool(machine.hardware_profile),
        "gpus_in_use": [asdict(gpu) for gpu in planned.in_use],  # by others
        "trials": trials,
        "left_out": [{"overrides": cell, "reason": reason} for cell, reason in plan.left_out],
        "useless_rules": list(plan.useless_rules),
        "changed": list(planned.changed),
        "races": races,
        "attempts_to_run": plan.num_attempts,
        "estimate": {
            "expected_s": expected_s,
            "num_attempts": plan.num_attempts,
            "num_unknown": num_unknown,
        },
    }
    return json.dumps(values, indent=1)


def _table(plan: Plan, headings: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the cells of each trial by heading: what every plan shows where any trial has it, and
    the axes that vary or are unusual.
    """
    axes_of_trials = [spec.axes for spec in plan.specs]
    others = varying_axes(plan.specs)
    for axes in axes_of_trials:
        others.update(unusual_axes(axes))
    for axes in axes_of_trials:
        others.difference_update(strategy_axes(axes))
    columns = dict.fromkeys(_SHOWN)
    if "hosts" not in others:
        del columns["hosts"]
    columns.update(dict.fromkeys(sorted(others)))
    rows: list[dict[str, str]] = [{} for _ in plan.trials]
    strategies = _strategies(plan, axes_of_trials)
    for axis in columns:
        cells = strategies
        if axis != "strategy":
            cells = [_cell(axes, axis) for axes in axes_of_trials]
        if axis in _SHOWN and set(cells) == {"-"}:  # a program lacks most, and a model has one size
            continue
        for row, cell in zip(rows, cells, strict=True):
            row[headings.get(axis, axis)] = cell
    return rows


def _print_axes(console: Console, table: Sequence[Mapping[str, str]]) -> None:
    """Print the values of each axis, a line each."""
    lines = []
    for axis in table[0]:
        counts = Counter(row[axis] for row in table)
        text = ", ".join(shortened(list(counts), _MOST_VALUES))
        if axis == "repeats" and len(counts) > 1:
            text = _listed(counts, "{0} ({1})")
        lines.append([axis, text])
    print_columns(console, ["axis", "values"], lines)
    console.print(f"{len(table):,} trials; {_LISTS_ALL} lists them", markup=False)


_THREADS = "OMP_NUM_THREADS"
_TORCHRUN = re.compile(r"\btorchrun\b|\btorch\.distributed\.(?:run|launch)\b")


def _threads_differ(specs: Sequence[TrialSpec]) -> bool:
    """Return whether one process has as many threads as cores, and each of several has one."""
    counts = set()
    texts: dict[str, str] = {"": ""}  # command line -> it, and its shell scripts
    for spec in specs:
        if spec.command not in texts:
            words = template.software_words(spec)
            parts = [spec.command]
            for script, text in Launch(words, Path.cwd()).scripts.items():
                if script.suffix != ".py":
                    parts.append(text)
            texts[spec.command] = "\n".join(parts)
        text = texts[spec.command]
        is_set = _THREADS in text or f"env.{_THREADS}" in dict(spec.free)
        if _TORCHRUN.search(text) and not is_set:
            counts.add(spec.num_gpus)
    return 1 in counts and len(counts) > 1 and _THREADS not in os.environ


def _listed(counts: Counter[Any], form: str) -> str:
    return ", ".join(form.format(name, num) for name, num in counts.items())


def _left_out(plan: Plan) -> Iterator[str]:
    by_reason = plan.left_out_by_reason()
    for reason, cells in list(by_reason.items())[:MOST_REASONS]:
        which = "; ".join(filter(None, cells))
        if len(cells) > MOST_CELLS:
            which = f"{len(cells)} cells"
        yield f"left out: {reason} ({which})".removesuffix(" ()")
    if len(by_reason) > MOST_REASONS:
        num_more = len(by_reason) - MOST_REASONS
        yield f"left out: cells for {counted(num_more, 'more reason')}"
    if any(len(cells) > MOST_CELLS for cells in by_reason.values()):
        yield f"cells left out: {_LISTS_ALL} lists them"


def _notes(planned: Planned) -> Iterator[str]:
    """Say what the user may want to change, then how much is run, and how long it will take."""
    plan = planned.plan
    num = planned.num_of_other_software
    if num:
        have = "has" if num == 1 else "have"
        changed = ", ".join(shortened(planned.changed, _MOST_CHANGES))
        yield (
            f"{counted(num, 'trial')} of these {have} finished with other software (changed: "
            f"{changed}); numbers of different software are never mixed, and all that is listed "
            "runs"
        )
    if _threads_differ(plan.specs):
        yield (
            f"torchrun sets {_THREADS}=1 for several processes and not for one, which would change "
            f"the speed-up; set it for all, as +env.{_THREADS}=1"
        )
    zeros = Counter(text for spec in plan.specs for text in template.of_zero(spec))
    for text, num in zeros.items():
        yield f"{text} is 0 in {counted(num, 'trial')}; sweep.exclude='{text} < 1' leaves them out"
    for rule in plan.useless_rules:
        yield f"sweep.exclude: {rule}: matches no trial that could run"
    races, expected = planned.races, planned.estimate.describe(plan)
    if races and planned.budget and not planned.budget.is_endless:
        yield plan_line(races, plan.num_attempts)
    elif planned.budget and plan.trials and not races:
        yield "sweep.budget=inf: nothing races, for no two trials differ in their strategy alone"
    elif races:
        num_decided = sum(race.is_decided for race in races)
        yield (
            f"sweep.budget=inf: {counted(len(races), 'race')}, {num_decided} decided earlier; "
            "trials without a rival run in full"
        )
    if expected:
        yield f"at most {expected}" if races else expected


def _strategies(plan: Plan, axes_of_trials: Sequence[_Axes]) -> list[str]:
    """Return the strategy of each trial, as tables of its results name it beside the others."""
    naming = naming_axes(axes_of_trials)
    strategies = []
    for spec, axes, names in zip(plan.specs, axes_of_trials, naming, strict=True):
        strategies.append(strategy_of_free_axes(axes, names) or spec.strategy)
    return strategies


def _cell(axes: _Axes, axis: str) -> str:
    value = axes.get(axis)
    if axis == "injected":
        return str(value or "nothing")
    if value is None and is_env_variable(axis):
        return INHERITED
    is_no_size = axis in ("image_px", "seq_len") and value == 0  # the model has none, or says it
    if value is None or is_no_size:
        return "-"
    return as_typed(value)
