"""Finds the two trials of a proposal, each as `python sweep.py from=TRIAL CHANGE ...` would."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from conf.schema import Config, Invalid
from scalemark.abilities import LOCAL
from scalemark.host.own_code import import_ours, typed
from scalemark.records.axes import Engine
from scalemark.records.overrides import SETTING, key_of
from scalemark.records.trial import TrialSpec
from scalemark.text.wording import joined
from sweeper.errors import SweepRefusedError
from sweeper.grid.compose import Grid
from sweeper.grid.expand import WHOLE_SWEEP
from sweeper.local_sweep import LocalSweep
from sweeper.planning.plan import resolve_grid
from sweeper.planning.settings import check, check_folders
from sweeper.program_software import check_programs

_OF_BOTH = ("launcher", "retry", "store")  # settings that both trials run with


# axes that say what a step works on, not how; throughputs with other ones count unlike items
_WORK = ("data", "data_dir", "distortions", "image_px", "seq_len", "num_classes")


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoTrials:
    """The baseline and the changed trial, and what runs them."""

    name: str  # of the sweep
    way: LocalSweep
    baseline: TrialSpec
    change: TrialSpec

    @property
    def config(self) -> Config:
        return self.way.config

    @property
    def other_work(self) -> tuple[str, ...]:
        """Return the axes by which the change trains on something else than the baseline."""
        ours, theirs = self.baseline.axes, self.change.axes
        return tuple(axis for axis in _WORK if ours[axis] != theirs[axis])


def two_trials(trial: str, changes: Sequence[str]) -> TwoTrials:
    """Compose and resolve both. Raises SweepRefusedError or StoreError."""
    _check_changes(changes)
    settings = [one for one in changes if _group(one) in _OF_BOTH]
    asked = _grid([f"{SETTING}={trial}", *settings])
    config = asked.composer.base
    config.sweep.invalid = Invalid["error"]
    name = f"judge-{check(config)}"
    check_folders(config.store)
    if config.launcher.name != LOCAL or config.launcher.share_host:
        raise SweepRefusedError(
            f"launcher={config.launcher.name}, share_host={str(config.launcher.share_host).lower()}"
            ": runs are compared one after the other on this host; give launcher=local "
            "launcher.share_host=false"
        )
    way = LocalSweep(config, name)
    baseline = _resolved(asked, way)
    _check_baseline(trial, baseline, way)
    change = _resolved(_grid([f"{SETTING}={trial}", *changes]), way)
    _check_model(baseline, change)
    if change.engine == Engine.command:
        check_programs([change])  # of whatever code: its numbers are its own trial's
    if change.trial_id == baseline.trial_id:
        raise SweepRefusedError(
            f"{joined(changes)}: changes nothing of trial {baseline.trial_id[:8]}; change an axis, "
            "or have command.run= name another copy of your program"
        )
    return TwoTrials(name=name, way=way, baseline=baseline, change=change)


def _check_changes(changes: Sequence[str]) -> None:
    """Refuse what is no change of a trial."""
    for one in changes:
        if "=" not in one and not one.startswith("~"):
            raise SweepRefusedError(
                f"{one}: wanted a change as AXIS=VALUE; axes are in {typed('sweep')} --help"
            )
        if key_of(one) == "store.url":
            raise SweepRefusedError(f"{one}: the database is named by --db")
        if _group(one) in WHOLE_SWEEP and _group(one) not in _OF_BOTH:
            raise SweepRefusedError(
                f"{one}: no change of a trial that can be judged; both sides run with one "
                f"{_group(one)}"
            )
    if all(_group(one) in _OF_BOTH for one in changes):
        raise SweepRefusedError("no change: name what differs from the baseline, as batch_size=128")


def _check_baseline(trial: str, baseline: TrialSpec, way: LocalSweep) -> None:
    try:
        way.check([baseline])
    except SweepRefusedError as error:
        raise SweepRefusedError(
            f"--baseline {trial}: {error}; a command runs in the current folder: judge in that of "
            "the sweep that measured the baseline, with the paths of the change from there"
        ) from error


def _check_model(baseline: TrialSpec, change: TrialSpec) -> None:
    """Refuse another model of ours. An edit of the user's own may be another file, as a program."""
    ours = [one for one in (baseline, change) if one.engine != Engine.command]
    if baseline.model != change.model and not all(one.model_digest for one in ours):
        raise SweepRefusedError(
            f"model={change.model}: the baseline trains {baseline.model}, and the throughput of "
            "another model is no gain; change how it is trained, or name a baseline of "
            f"{change.model}"
        )


def _group(change: str) -> str:
    return key_of(change).replace("/", ".").partition(".")[0]


def _grid(arguments: list[str]) -> Grid:
    """Have Hydra compose what a sweep would run."""
    found: list[Grid] = []
    before, sys.argv = sys.argv, sys.argv[:1]  # Hydra reads it
    try:
        import_ours("sweep").run(arguments, lambda grid, *_: found.append(grid))
    except SweepRefusedError as error:
        raise SweepRefusedError(str(error).replace(f"{SETTING}=", "--baseline ", 1)) from error
    finally:
        sys.argv = before
    return found[0]


def _resolved(grid: Grid, way: LocalSweep) -> TrialSpec:
    sweep = way.config.sweep
    specs, _ = resolve_grid(grid.cells, grid.composer.compose, way.inventory, sweep)
    if len(specs) > 1:
        raise SweepRefusedError(
            f"{len(specs)} trials; a proposal is one change, with one value per axis: judge one "
            "after another"
        )
    return specs[0]
