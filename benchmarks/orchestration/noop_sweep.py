"""A sweep of attempts that do nothing, with fork start and every state recorded; run in an empty
folder, told how many.
"""

from __future__ import annotations

import sys
from functools import partial

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from benchmarks.orchestration.settings import ROOT
from benchmarks.orchestration.trial_folders import TINY
from conf.schema import register
from scalemark.records.axes import Engine
from scalemark.records.outcomes import State
from sweeper import sweep
from sweeper.grid.compose import Composer, Grid
from sweeper.grid.expand import Request, expand
from sweeper.starts import STARTS, Fork

TRAINER = "benchmarks.noop_trainer"


def run_noop_sweep(num_attempts: int) -> int:
    """Run so many attempts of TRAINER, one at a time, into results.db and runs/ here; returns how
    many were completed.

    As `python sweep.py` does it, but for the trainer, and without tables and charts.
    """
    register()
    STARTS[Engine.tensorflow][Fork.name] = partial(Fork, module=TRAINER)
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        base = hydra.compose_config("config", [], run_mode=RunMode.MULTIRUN)
        HydraConfig.instance().set_config(base)
        composer = Composer(hydra.config_loader, base)
        seeds = Request(
            arguments=[*TINY, f"seed=range(1,{num_attempts + 1})"], params={}, grids=[], zipped=[]
        )
        cells = expand(seeds, num_attempts, hydra.config_loader)
        report = sweep.run(Grid(cells=cells, composer=composer), ())
    assert report is not None
    return report.ran.states[State.COMPLETED]


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    completed = run_noop_sweep(wanted)
    if completed != wanted:
        sys.exit(f"{completed} of {wanted} attempts were completed")
