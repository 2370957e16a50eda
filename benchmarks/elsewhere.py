"""`python -m benchmarks.elsewhere`: seconds that an attempt takes beyond its trainer, which trains
nothing, by a bare `srun`, or as a task of a connected Ray driver. The clusters are processes of
this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ray
from hydra import compose, initialize_config_dir

from benchmarks import noop_sweep
from benchmarks.asking import parser
from benchmarks.cost import ROOT
from benchmarks.ratio import Row, figures_table
from conf.schema import register, typed
from scalemark.host.processes import wait_readable
from scalemark.records.attempt import Placement
from scalemark.records.axes import Engine
from scalemark.run_folder import RunFolder
from sweeper import launchers
from sweeper.starts import MODULES, environment
from tests import ray_cluster, slurm

WANTED_S = 0.3
ONE_HOST = Placement(start="spawn", devices=(0,), visible_devices="", hosts=("",))


def _by_srun(command: list[str]) -> None:
    subprocess.run(["srun", "--ntasks=1", "--exclusive", *command], check=True)


def _by_task(command: list[str]) -> None:
    task = ray.remote(num_cpus=2, max_calls=1)(subprocess.check_call)  # a process for each, as ours
    ray.get(task.remote(command))


def _beyond(name: str, rounds: int, bare: Callable[[list[str]], None]) -> Row:
    """Run ours and the bare one in turns."""
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = typed(compose("config", overrides=["hardware=cpu", f"launcher={name}"]))
    start = launchers.load(config, "overhead").start()
    seconds = []
    with tempfile.TemporaryDirectory() as place:
        folders = noop_sweep.prepare(Path(place), 2 * rounds + 2)
        for ours, other in zip(
            map(RunFolder, folders[::2]), map(RunFolder, folders[1::2]), strict=True
        ):
            ours.write(ours.placement, ONE_HOST.to_json())
            began_s = time.monotonic()
            attempt = start.start(ours, environment(os.environ, ""))
            wait_readable([attempt.descriptor], 60.0)
            attempt.reap()
            ours_s = time.monotonic() - began_s
            bare([sys.executable, "-m", noop_sweep.TRAINER, str(other.trial), str(other.path)])
            seconds.append(2 * ours_s - (time.monotonic() - began_s))
        noop_sweep.check_completed(folders, name)
    del seconds[0]  # the first round loads modules that later ones find in memory
    return Row(what=f"{name}, beyond the bare one", figures=tuple(seconds), unit="s", most=WANTED_S)


def main() -> None:
    rounds = parser(__doc__, rounds="rounds (default 10)").parse_args().rounds or 10
    register()
    MODULES[Engine.tensorflow] = noop_sweep.TRAINER
    os.environ["PYTHONPATH"] = str(ROOT)
    with slurm.cluster() as cluster:
        os.environ["SLURM_CONF"] = str(cluster.config)
        rows = [_beyond("slurm", rounds, _by_srun)]
    with ray_cluster.cluster() as nodes:
        os.environ.update(nodes.variables)
        ray.init(log_to_driver=False)
        rows.append(_beyond("ray", rounds, _by_task))
        ray.shutdown()
    print(figures_table(rows))


if __name__ == "__main__":
    main()
