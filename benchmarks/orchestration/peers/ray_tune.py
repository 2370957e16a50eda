"""Ray Tune with a fresh process per trial: its default, `reuse_actors=False`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ray
from ray import tune

from benchmarks.orchestration.peers.in_process import run_trial


def trainable(config: dict[str, Any]) -> dict[str, int]:
    return {"exit_code": run_trial(config["folder"])}


def main(num_at_once: int, folders: list[str]) -> int:
    ray.init(num_cpus=num_at_once, include_dashboard=False)
    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": 1}),
        param_space={"folder": tune.grid_search(folders)},
        tune_config=tune.TuneConfig(reuse_actors=False),
        run_config=tune.RunConfig(storage_path=str(Path("ray").absolute()), verbose=0),
    )
    results = tuner.fit()
    ray.shutdown()
    return 1 if results.errors else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
