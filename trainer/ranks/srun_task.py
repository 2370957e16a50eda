"""One task of trainer/rank_starts/srun.py: starts the rank of this node, and reports its end.

A program of its own, which needs the standard library only: `python srun_task.py JSON`, by node a
list of ranks, of which the task takes the one of its number on that node.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def main(by_node: dict[str, list[dict[str, Any]]]) -> int:
    rank = by_node[os.environ["SLURMD_NODENAME"]][int(os.environ["SLURM_LOCALID"])]
    try:
        gpus = visible_devices(rank["devices"], os.environ.get("CUDA_VISIBLE_DEVICES"))
    except ValueError as error:
        sys.exit(f"{error}; the job was given too few")
    environment = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": gpus,
        "SCALEMARK_ORCHESTRATOR": str(os.getpid()),  # it dies with this process
    }
    with Path(rank["log"]).open("ab") as log:
        process = subprocess.Popen(
            rank["argv"], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    exit_code = process.wait()
    # trainer/ranks/own_rank.py reads it
    print(f"rank {rank['job_name']}-{rank['task_index']} ended: {exit_code}", flush=True)
    return 1 if exit_code and rank["fails_all"] else 0


def visible_devices(devices: list[int] | None, of_host: str | None) -> str:
    """Pick these GPUs of those that Slurm or Ray gives us on a host, or of all that are there.

    Raises ValueError where there are fewer.
    """
    if devices is None:
        return ""
    if of_host is None:
        return ",".join(map(str, devices))
    names = of_host.split(",")
    if len(names) <= max(devices):
        raise ValueError(f"GPUs number {devices} wanted, and {of_host or 'none'} given here")
    return ",".join(names[device] for device in devices)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
