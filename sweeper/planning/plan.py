"""Decides what a sweep will run: every cell resolved, doubles dropped, finished trials skipped,
refusals listed.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from conf.resolve import Hosts, TrialRefusedError, resolve
from conf.schema import Config, DataConfig, SweepConfig
from scalemark.host import shards
from scalemark.models import ModelError
from scalemark.records import switches
from scalemark.records.strategies import STRATEGY_AXES, strategy_name
from scalemark.records.trial import TrialSpec, all_axes, width_name
from sweeper.devices import simulated_box
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError
from sweeper.grid.exclude import Rule, read_rules
from sweeper.grid.expand import Cell, text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A trial, and how many repeats of it are still to run."""

    spec: TrialSpec
    num_repeats: int  # to run now, in a race at most; 0 = finished earlier
    is_decided: bool = False  # 0 because what was completed earlier decides its race

    @property
    def strategy(self) -> str:
        return strategy_name(
            self.spec.variable_update, self.spec.local_parameter_device, self.spec.all_reduce
        )

    @property
    def label(self) -> str:
        """Model, strategy, GPU count and hosts, for people and folder names."""
        return (
            f"{self.spec.model}-{self.strategy}-{width_name(self.spec.num_gpus, self.spec.hosts)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a sweep will do."""

    trials: tuple[PlannedTrial, ...]
    left_out: tuple[tuple[str, str], ...]  # overrides of a refused or excluded cell, and why
    useless_rules: tuple[str, ...] = ()  # of sweep.exclude, those that no trial matched

    @property
    def num_attempts(self) -> int:
        return sum(trial.num_repeats for trial in self.trials)

    def left_out_by_reason(self) -> dict[str, list[str]]:
        """Reason -> the refused cells, each told by the overrides that are not common to all cells
        left out.
        """
        cells = [set(overrides.split(" ")) for overrides, _ in self.left_out]
        common = set.intersection(*cells) if len(cells) > 1 else set()
        grouped: dict[str, list[str]] = defaultdict(list)
        for overrides, reason in self.left_out:
            grouped[reason].append(
                " ".join(text for text in overrides.split(" ") if text not in common)
            )
        return grouped

    def varying_axes(self) -> set[str]:
        """The axes in which trials of one model differ, apart from those that make a strategy."""
        axes = set(all_axes(trial.spec for trial in self.trials)) - set(STRATEGY_AXES)
        values: dict[tuple[str, str], set[object]] = defaultdict(set)
        for trial in self.trials:
            told = trial.spec.axes
            for axis in axes:
                values[trial.spec.model, axis].add(told.get(axis))
        return {axis for (_, axis), found in values.items() if len(found) > 1}


def resolve_grid(
    cells: Sequence[Cell],
    compose: Callable[[Cell], Config],
    inventory: Inventory,
    sweep: SweepConfig,
) -> tuple[list[TrialSpec], list[tuple[str, str]]]:
    """The distinct trials of a grid in its order, and the cells left out, with the reason.

    Raises SweepRefusedError for a value no axis has, for a grid of which nothing is left, for a
    rule of sweep.exclude that is none, for a model that nothing defines, and for any cell that
    means nothing with sweep.invalid=error.
    """
    rules = read_rules(sweep.exclude)
    specs: dict[str, TrialSpec] = {}
    refused: list[tuple[str, str]] = []
    left_out: list[tuple[str, str]] = []
    problems: dict[tuple[str, str], str | None] = {}
    for cell in cells:
        config = compose(cell)
        try:
            spec = _resolve(config, inventory)
        except TrialRefusedError as error:
            refused.append((text_of(cell), str(error)))
            left_out.append(refused[-1])
            continue
        except ModelError as error:
            raise SweepRefusedError(str(error)) from None
        if rule := _excluding(spec, rules):
            left_out.append((text_of(cell), rule.reason))
            continue
        source = (spec.data, spec.data_dir)
        if source not in problems:
            problems[source] = (
                data_folder_problem(config.data, Path(spec.data_dir)) if spec.data_dir else None
            )
        if problem := problems[source]:
            raise SweepRefusedError(f"data.dir={spec.data_dir}: {problem}")
        specs.setdefault(spec.trial_id, spec)
    if refused and sweep.invalid.name == "error":
        raise SweepRefusedError(_refusal(refused))
    if left_out and not specs:
        raise SweepRefusedError(
            _refusal(refused)
            if refused
            else f"sweep.exclude leaves out all of the {len(left_out)} trials"
        )
    return list(specs.values()), left_out


def _resolve(config: Config, inventory: Inventory) -> TrialSpec:
    """Raises TrialRefusedError also for what the environment contradicts."""
    hosts = (
        Hosts(most=inventory.num_hosts, remedy=inventory.more_hosts)
        if inventory.num_hosts
        else None
    )
    capability = inventory.compute_capability
    spec = resolve(
        config, inventory.kind, inventory.num_devices, capability, inventory.is_mig, hosts
    )
    if inventory.hardware:  # TensorFlow's variables are nothing to what is simulated
        if problem := simulated_box.problem(spec, inventory.hardware):
            raise TrialRefusedError(problem)
        return spec
    if contradiction := next(switches.contradictions(spec, os.environ), None):
        raise TrialRefusedError(contradiction)
    return spec


def _excluding(spec: TrialSpec, rules: Sequence[Rule]) -> Rule | None:
    return next((rule for rule in rules if rule.holds(spec)), None)


def make_plan(
    specs: Sequence[TrialSpec],
    left_out: Sequence[tuple[str, str]],
    sweep: SweepConfig,
    num_completed: Mapping[str, int],
) -> Plan:
    """Which repeats are still to run; num_completed counts those finished on this machine, by trial
    id.
    """

    def still_to_run(spec: TrialSpec) -> int:
        return (
            sweep.repeats
            if sweep.rerun
            else max(0, sweep.repeats - num_completed.get(spec.trial_id, 0))
        )

    trials = tuple(PlannedTrial(spec=spec, num_repeats=still_to_run(spec)) for spec in specs)
    reasons = {reason for _, reason in left_out}
    useless = tuple(rule.text for rule in read_rules(sweep.exclude) if rule.reason not in reasons)
    return Plan(trials=trials, left_out=tuple(left_out), useless_rules=useless)


def data_folder_problem(data: DataConfig, folder: Path) -> str | None:
    """Why a data source cannot use a folder, as far as that can be told without reading images.

    None when it holds what looks like a sound set, or nothing yet where the set makes itself.
    """
    try:
        return (
            _problem_of_made_set(data.name, folder) if data.makes_folder else shards.problem(folder)
        )
    except OSError as error:
        return str(error)


def _problem_of_made_set(name: str, folder: Path) -> str | None:
    if not folder.is_dir():
        return "no such folder; make it (an empty one is filled), or leave data.dir out"
    if not any(path.name != ".lock" for path in folder.iterdir()):
        return None
    if problem := shards.other_set(folder, name):
        return problem
    damage = shards.damage(folder)
    return f"{damage}; empty the folder to have the set made again" if damage else None


def _refusal(left_out: Sequence[tuple[str, str]]) -> str:
    reasons = list(dict.fromkeys(reason for _, reason in left_out))
    more = (
        f" (and {len(reasons) - 1} more reasons for {len(left_out)} cells left out)"
        if len(reasons) > 1
        else ""
    )
    return reasons[0] + more
