"""A sweep of attempts that do nothing, and folders of the same trials for other launchers.

`python -m benchmarks.noop_sweep N` runs N attempts in an empty folder, with fork start and every
state recorded.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from benchmarks.cost import ROOT, BrokenError
from conf.resolve import resolve
from conf.schema import register, typed
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import Outcome, State
from scalemark.run_folder import RunFolder
from sweeper import sweep
from sweeper.grid.compose import Composer, Grid, expand
from sweeper.starts import MODULES

TRAINER = "benchmarks.noop_trainer"
TINY = ("model=trivial", "num_steps=3", "min_warm_up_steps=1", "min_window_s=0", "hardware=cpu")
NUM_CPU_DEVICES = 16  # conf/schema.py's default


def run_noop_sweep(num_attempts: int) -> int:
    """Run so many attempts of TRAINER, one at a time, into results.db and runs/ here; return how
    many were completed.

    It does what `python sweep.py` does, but for the trainer, and without tables and charts.
    """
    register()
    MODULES[Engine.tensorflow] = TRAINER
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        base = hydra.compose_config("config", [], run_mode=RunMode.MULTIRUN)
        HydraConfig.instance().set_config(base)
        composer = Composer(hydra.config_loader, base)
        seeds = [*TINY, f"seed=range(1,{num_attempts + 1})"]
        cells = expand(seeds, hydra.config_loader)
        report = sweep.run(Grid(cells=cells, composer=composer), ())
    assert report is not None
    return report.ran.states[State.COMPLETED]


def prepare(root: Path, num_trials: int) -> list[Path]:
    """Make a folder for each trial of the same sweep, with its trial.json in it."""
    register()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = typed(compose("config", overrides=list(TINY)))
    spec = resolve(config, DeviceKind.CPU_DEVICE, NUM_CPU_DEVICES)
    folders = []
    for number in range(num_trials):
        folder = RunFolder(root / f"trial{number:05d}")
        folder.path.mkdir()
        folder.trial.write_text(replace(spec, seed=number + 1).to_json())
        folders.append(folder.path)
    return folders


def check_completed(folders: list[Path], log: str) -> None:
    """Raise BrokenError, with the end of the log, unless every trial was completed."""
    results = [RunFolder(folder).read_result() for folder in folders]
    outcomes = [result.outcome if result else "no result" for result in results]
    wrong = [outcome for outcome in outcomes if outcome != Outcome.COMPLETED]
    if wrong:
        messages = {result.message for result in results if result and result.message}
        raise BrokenError(
            f"{len(wrong)} of {len(folders)} trials: {sorted(set(wrong))} {sorted(messages)}\n{log}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run attempts that do nothing.")
    parser.add_argument("number", type=int, help="of attempts")
    wanted = parser.parse_args().number
    completed = run_noop_sweep(wanted)
    if completed != wanted:
        sys.exit(f"{completed} of {wanted} attempts were completed")
