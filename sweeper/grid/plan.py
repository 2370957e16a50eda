"""Checks the settings of a sweep, resolves every cell of its grid, and decides what it will run."""

import os
import re
import secrets
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from conf.program import derived_axes
from conf.resolve import Hosts, TrialRefusedError, resolve
from conf.schema import Config, DataConfig, LauncherConfig, PlanFormat, StoreConfig, SweepConfig
from scalemark.abilities import LAUNCHERS
from scalemark.host import files, gpu_libraries, own_code, refs
from scalemark.models import ModelError
from scalemark.records import axes as free_axes
from scalemark.records import switches
from scalemark.records.trial import STRATEGY_AXES, TrialSpec, all_axes, width_name
from scalemark.text.wording import counted
from sweeper import FIGURES, SweepRefusedError
from sweeper.devices.machine import Inventory, simulation_problem
from sweeper.early_stopping.budget import read_budget
from sweeper.grid.compose import Cell, text_of
from sweeper.grid.exclude import Rule, read_rules, reason_of
from sweeper.grid.explain import WANTED_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTrial:
    """A trial and the repeats that are still to run."""

    spec: TrialSpec
    num_repeats: int  # to run now, in a race at most; 0 = finished earlier
    is_decided: bool = False  # 0 because what was completed earlier decides its race

    @property
    def label(self) -> str:
        """Model, strategy, GPU count and hosts, for people and folder names."""
        width = width_name(self.spec.num_gpus, self.spec.hosts)
        return "-".join(dict.fromkeys((self.spec.model, self.spec.strategy, width)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The trials of a sweep, and the cells that it leaves out."""

    trials: tuple[PlannedTrial, ...]
    left_out: tuple[tuple[str, str], ...]  # overrides of a refused or excluded cell, and why
    useless_rules: tuple[str, ...] = ()  # of sweep.exclude, those that no trial matched

    @property
    def specs(self) -> list[TrialSpec]:
        return [trial.spec for trial in self.trials]

    @property
    def num_attempts(self) -> int:
        return sum(trial.num_repeats for trial in self.trials)

    def left_out_by_reason(self) -> dict[str, list[str]]:
        """Return reason -> cells, each as the overrides that not all cells left out have."""
        cells = [overrides.split(" ") for overrides, _ in self.left_out]
        common = set.intersection(*map(set, cells)) if len(cells) > 1 else set()
        grouped: dict[str, list[str]] = defaultdict(list)
        for overrides, (_, reason) in zip(cells, self.left_out, strict=True):
            grouped[reason].append(" ".join(text for text in overrides if text not in common))
        return grouped


def varying_axes(specs: Sequence[TrialSpec]) -> set[str]:
    """Return the axes in which trials of one model differ, without those of a strategy."""
    axes = set(all_axes(specs)) - set(STRATEGY_AXES)
    values: dict[tuple[str, str], set[object]] = defaultdict(set)
    for spec in specs:
        own = spec.axes
        for axis in axes:
            values[spec.model, axis].add(own.get(axis))
    return {axis for (_, axis), seen in values.items() if len(seen) > 1}


def resolve_grid(
    cells: Sequence[Cell],
    compose: Callable[[Cell], Config],
    inventory: Inventory,
    sweep: SweepConfig,
) -> tuple[list[TrialSpec], list[tuple[str, str]]]:
    """Return the distinct trials of a grid in its order, and the cells left out, with the reason.

    Raises SweepRefusedError for a value or model that nothing defines, for a rule of sweep.exclude
    that is none, and for a grid of which nothing is left.
    """
    keys = {choice.text.partition("=")[0].lstrip("+") for cell in cells for choice in cell}
    rules = read_rules(sweep.exclude, set(filter(free_axes.is_free, keys)))
    specs: dict[str, TrialSpec] = {}
    refused: list[tuple[str, str]] = []
    left_out: list[tuple[str, str]] = []
    sources: set[tuple[str, str]] = set()  # whose folders were looked at
    commits: dict[str, str] = {}  # ref -> the ref with its commit
    for cell in cells:
        config = compose(cell)
        try:
            spec = _resolve(config, inventory)
            rule = _rule_of(rules, spec, config)
        except TrialRefusedError as error:
            rule = None
            if error.spec:  # what is left out anyway needs no other reason
                with suppress(SweepRefusedError):
                    rule = _rule_of(rules, error.spec, config)
            if not rule:
                refused.append((text_of(cell), str(error)))
                left_out.append(refused[-1])
                continue
        except ModelError as error:
            raise SweepRefusedError(str(error)) from None
        if rule:
            left_out.append((text_of(cell), reason_of(rule.text)))
            continue
        source = (spec.data, spec.data_dir)
        if spec.data_dir and source not in sources:
            sources.add(source)
            problem = data_folder_problem(config.data, Path(spec.data_dir))
            if problem:
                raise SweepRefusedError(f"data.dir={spec.data_dir}: {problem}")
        if ref := refs.of_trial(spec.free):
            spec = _at_commit(spec, ref, commits)
        if specs.setdefault(spec.trial_id, spec).reading != spec.reading:
            raise SweepRefusedError(
                f"{text_of(cell)}: another cell reads the same trial another way, and a trial is "
                "read in one; leave one out, or give it another command.name"
            )
    if refused and not specs:
        reasons = list(dict.fromkeys(reason for _, reason in refused))
        more = counted(len(reasons) - 1, "more reason")
        more = f" (and {more} for {len(refused)} cells left out)" if len(reasons) > 1 else ""
        raise SweepRefusedError(f"{reasons[0]}{more}")
    if left_out and not specs:
        raise SweepRefusedError(f"sweep.exclude leaves out every trial ({len(left_out)})")
    return list(specs.values()), left_out


def _rule_of(rules: Sequence[Rule], spec: TrialSpec, config: Config) -> Rule | None:
    """Return the first rule that leaves a trial out.

    Raises SweepRefusedError for a rule without a value where no other leaves it out.
    """
    derived = derived_axes(config) if spec.command and rules else {}
    problems: list[SweepRefusedError] = []
    for rule in rules:
        try:
            if rule.holds(spec, derived):
                return rule
        except SweepRefusedError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return None


def _at_commit(spec: TrialSpec, ref: str, commits: dict[str, str]) -> TrialSpec:
    """Return a trial whose ref has its commit, so that a branch that has moved is another trial.

    Raises SweepRefusedError.
    """
    if ref not in commits:
        try:
            commits[ref] = refs.resolved(ref, Path.cwd())
        except refs.RefError as error:
            raise SweepRefusedError(str(error)) from None
    return replace(spec, free=tuple({**dict(spec.free), free_axes.REF: commits[ref]}.items()))


def _resolve(config: Config, inventory: Inventory) -> TrialSpec:
    """Resolve one cell. Raises TrialRefusedError also for what the environment contradicts."""
    hosts = None
    if inventory.num_hosts:
        hosts = Hosts(most=inventory.num_hosts, remedy=inventory.more_hosts)
    capability = inventory.compute_capability
    spec = resolve(
        config,
        inventory.kind,
        inventory.num_devices,
        capability,
        inventory.is_mig,
        hosts,
        inventory.memory_bytes,
    )
    if inventory.hardware:  # TensorFlow's variables mean nothing to what is simulated
        problem = simulation_problem(spec, inventory.hardware)
    else:
        problem = next(switches.contradictions(spec, os.environ), None)
    if not problem and spec.engine == free_axes.Engine.tensorflow:
        problem = gpu_libraries.problem(inventory.gpus, inventory.libraries)
    if problem:
        raise TrialRefusedError(problem)
    return spec


def make_plan(
    specs: Sequence[TrialSpec],
    left_out: Sequence[tuple[str, str]],
    sweep: SweepConfig,
    num_completed: Mapping[str, int],
) -> Plan:
    """Plan the repeats that are still to run; `num_completed` by trial id, on this machine."""
    trials = []
    for spec in specs:
        num_repeats = sweep.repeats
        if not sweep.rerun:
            num_repeats = max(0, num_repeats - num_completed.get(spec.trial_id, 0))
        trials.append(PlannedTrial(spec=spec, num_repeats=num_repeats))
    reasons = {reason for _, reason in left_out}
    useless = tuple(text for text in sweep.exclude if reason_of(text) not in reasons)
    return Plan(trials=tuple(trials), left_out=tuple(left_out), useless_rules=useless)


def data_folder_problem(data: DataConfig, folder: Path) -> str | None:
    """Say why a data source cannot use a folder, without reading its images; None when it can."""
    try:
        if not data.makes_folder:
            return files.problem(folder)
        if not folder.is_dir():
            return "no such folder; make it (an empty one is filled), or leave data.dir out"
        if all(path.name == ".lock" for path in folder.iterdir()):
            return None  # the set is made there
        damage = files.damage(folder)
        other = files.other_set(folder, data.name)
    except OSError as error:
        return str(error)
    if damage and not other:
        return f"{damage}; empty the folder to have the set made again"
    return other


LEAST_FREE_BYTES = 64 * 2**20  # less room than this is no place to start a sweep
MOST_REPEATS = 1000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# setting of the launcher -> the least value
_LEAST = {
    "timeout_s": 0.001,
    "start_timeout_s": 0.001,
    "step_timeout_s": 0.001,
    "grace_s": 0.001,
    "orphan_timeout_s": 10.0,  # a sign of life comes every two seconds
    "rank_timeout_s": 5.0,  # a rank that is well gives a sign of life every two seconds
    "host_memory_gib": 0.001,
}


def check(config: Config) -> str:
    """Return the name of the sweep. Raises SweepRefusedError for settings that cannot be."""
    # without importing TensorFlow, which takes seconds
    lack = None
    if config.engine is free_axes.Engine.tensorflow:
        lack = own_code.lack_of_tensorflow()
    if lack:
        raise SweepRefusedError(f"engine=tensorflow: {lack}, or choose engine=simulated")
    _check_hardware(config)
    if not 1 <= config.sweep.repeats <= MOST_REPEATS:
        raise SweepRefusedError(f"sweep.repeats={config.sweep.repeats}: wanted 1 to {MOST_REPEATS}")
    if not 0 <= config.sweep.margin < 1:
        raise SweepRefusedError(
            f"sweep.margin={config.sweep.margin:g}: wanted a share from 0 to less than 1, as 0.1"
        )
    if config.sweep.plan_format is PlanFormat.json and not config.sweep.dry_run:
        raise SweepRefusedError(
            "sweep.plan_format=json: goes with a plan that is only printed; add sweep.dry_run=true"
        )
    _check_launcher(config.launcher)
    _check_heeded(config.launcher)
    budget = read_budget(config.sweep.budget)
    if budget and budget.is_endless and config.sweep.repeats < 2:
        raise SweepRefusedError(
            "sweep.budget=inf: with sweep.repeats=1 each trial runs once, and there is nothing to "
            "save; say how often each may run at most, as sweep.repeats=5, or leave it out"
        )
    name = config.sweep.name
    if name is None:
        return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    if not _NAME.fullmatch(name):
        raise SweepRefusedError(f"sweep.name={name[:40]}: {WANTED_NAME}")
    return name


def check_folders(store: StoreConfig) -> None:
    """Raise SweepRefusedError for folders that a sweep cannot write to."""
    check_folder("store.runs_dir=", Path(store.runs_dir).expanduser().resolve())
    check_folder("a sweep draws charts where it starts, into ", FIGURES.resolve())


def check_folder(where: str, folder: Path) -> None:
    """Raise SweepRefusedError, before hours of trials, for a folder that cannot be written to."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free_bytes = shutil.disk_usage(existing).free
    if not existing.is_dir():
        problem = f"{existing} is not a folder"
    elif not os.access(existing, os.W_OK):
        problem = f"{existing} is read-only; choose another folder"
    elif free_bytes < LEAST_FREE_BYTES:
        problem = (
            f"only {free_bytes // 2**20} MiB free, a sweep wants {LEAST_FREE_BYTES // 2**20}; make "
            "room or choose another folder"
        )
    else:
        return
    raise SweepRefusedError(f"{where}{folder}: {problem}")


def _check_hardware(config: Config) -> None:
    """Refuse a profile to whatever is no simulation, wherever it would run."""
    if config.hardware.profile is None or config.engine is free_axes.Engine.simulated:
        return
    setting = f"hardware={config.hardware.profile.name}: a profile is not a machine"
    if config.engine is free_axes.Engine.command:
        raise SweepRefusedError(
            f"{setting}, and the cost model knows nothing of programs of your own; leave it out, "
            "or choose hardware=gpu or cpu, to run yours on real devices"
        )
    raise SweepRefusedError(
        f"{setting}; add engine=simulated, or choose hardware=auto, gpu or cpu to measure on real "
        "devices"
    )


def _check_launcher(launcher: LauncherConfig) -> None:
    for setting, least in _LEAST.items():
        value = getattr(launcher, setting)
        if value is None or least <= value < float("inf"):
            continue
        unit = "seconds or more"
        if setting == "host_memory_gib":
            unit = "GiB or more, or null for no limit"
        raise SweepRefusedError(f"launcher.{setting}={value:g}: wanted {least:.3g} {unit}")


def _check_heeded(launcher: LauncherConfig) -> None:
    """Refuse settings that the chosen launcher ignores."""
    defaults = LauncherConfig()
    heeded_by: dict[str, tuple[str, ...]] = {
        name: (name,) for name, abilities in LAUNCHERS.items() if abilities.settings
    }
    for setting in ("hosts", "num_hosts", "options", "python"):
        heeded_by[setting] = tuple(name for name in LAUNCHERS if setting in LAUNCHERS[name].heeds)
    heeded_by["orphan_timeout_s"] = heeded_by["python"]  # those that run attempts elsewhere
    for setting, launchers in heeded_by.items():
        is_set = getattr(launcher, setting) != getattr(defaults, setting)
        if is_set and launcher.name not in launchers:
            raise SweepRefusedError(
                f"launcher.{setting}: launcher={launcher.name} ignores it; leave it out, or choose "
                f"launcher={' or '.join(launchers)}"
            )
