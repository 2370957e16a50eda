"""Folders with a trial each, as launchers make them, and whether their trials were completed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from benchmarks.orchestration.settings import ROOT, BrokenError
from conf.resolve import resolve
from conf.schema import register, typed
from scalemark.records.machine import DeviceKind
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder

TINY = ("model=trivial", "num_steps=3", "min_warm_up_steps=1", "min_window_s=0", "hardware=cpu")
NUM_CPU_DEVICES = 16  # conf/schema.py's default


def tiny_trials(num_trials: int) -> list[TrialSpec]:
    """What `seed=range(1,num_trials+1)` makes of TINY."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = typed(compose("config", overrides=list(TINY)))
    spec = resolve(config, DeviceKind.CPU_DEVICE, NUM_CPU_DEVICES)
    return [replace(spec, seed=seed) for seed in range(1, num_trials + 1)]


def prepare(root: Path, num_trials: int) -> list[Path]:
    """A folder per trial, with its trial.json in it."""
    folders = []
    for number, spec in enumerate(tiny_trials(num_trials)):
        folder = RunFolder(root / f"trial{number:05d}")
        folder.path.mkdir()
        folder.trial.write_text(spec.to_json())
        folders.append(folder.path)
    return folders


def check_completed(folders: list[Path], log: str) -> None:
    """Raises BrokenError, with the end of the log, unless every trial was completed."""
    results = [RunFolder(folder).read_result() for folder in folders]
    outcomes = [result.outcome if result else "no result" for result in results]
    if wrong := [outcome for outcome in outcomes if outcome != Outcome.COMPLETED]:
        messages = {result.message for result in results if result and result.message}
        raise BrokenError(
            f"{len(wrong)} of {len(folders)} trials: {sorted(set(wrong))} {sorted(messages)}\n{log}"
        )
