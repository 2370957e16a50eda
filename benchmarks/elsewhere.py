"""`python -m benchmarks.elsewhere`: seconds that an attempt takes beyond its trainer, which trains
nothing, by a bare `srun`; as a task of a connected Ray driver; as a driver that runs one task. The
clusters are processes of this machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
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


DRIVER = """
import subprocess, sys, ray
ray.init(log_to_driver=False)
ray.get(ray.remote(num_cpus=2)(subprocess.check_call).remote(sys.argv[1:]))
"""


def _by_srun(command: list[str]) -> None:
    subprocess.run(["srun", "--ntasks=1", "--exclusive", *command], check=True)


def _by_task(command: list[str]) -> None:
    task = ray.remote(num_cpus=2, max_calls=1)(subprocess.check_call)  # a process for each, as ours
    ray.get(task.remote(command))


def _by_driver(command: list[str]) -> None:
    subprocess.run([sys.executable, "-c", DRIVER, *command], check=True)


def _beyond(name: str, rounds: int, bare: Mapping[str, Callable[[list[str]], None]]) -> list[Row]:
    """Run ours and each other in turns."""
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        config = typed(compose("config", overrides=["hardware=cpu", f"launcher={name}"]))
    start = launchers.load(config, "overhead").start()
    beyond: dict[str, list[float]] = {what: [] for what in bare}
    with tempfile.TemporaryDirectory() as place:
        folders = iter(noop_sweep.prepare(Path(place), (rounds + 1) * (1 + len(bare))))
        for _ in range(rounds + 1):
            ours = RunFolder(next(folders))
            ours.write(ours.placement, ONE_HOST.to_json())
            began_s = time.monotonic()
            attempt = start.start(ours, environment(os.environ, ""))
            wait_readable([attempt.descriptor], 60.0)
            attempt.reap()
            ours_s = time.monotonic() - began_s
            for what, run in bare.items():
                other = RunFolder(next(folders))
                began_s = time.monotonic()
                run([sys.executable, "-m", noop_sweep.TRAINER, str(other.trial), str(other.path)])
                beyond[what].append(ours_s - (time.monotonic() - began_s))
        noop_sweep.check_completed(sorted(Path(place).iterdir()), name)
    # the first round imports what nobody has imported yet
    return [
        Row(what=f"{name}, beyond {what}", figures=tuple(seconds[1:]), unit="s", most=WANTED_S)
        for what, seconds in beyond.items()
    ]


def main() -> None:
    rounds = parser(__doc__, rounds="rounds (default 10)").parse_args().rounds or 10
    register()
    MODULES[Engine.tensorflow] = noop_sweep.TRAINER
    os.environ["PYTHONPATH"] = str(ROOT)
    with slurm.cluster() as cluster:
        os.environ["SLURM_CONF"] = str(cluster.config)
        rows = _beyond("slurm", rounds, {"srun": _by_srun})
    with ray_cluster.cluster() as nodes:
        os.environ.update(nodes.variables)
        ray.init(log_to_driver=False)
        rows += _beyond("ray", rounds, {"a task": _by_task, "a driver": _by_driver})
        ray.shutdown()
    print(figures_table(rows))


if __name__ == "__main__":
    main()
