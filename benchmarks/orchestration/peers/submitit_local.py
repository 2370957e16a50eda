"""submitit's local executor: a fresh process per trial. It starts all jobs at once, so the loop
here holds them back.
"""

from __future__ import annotations

import sys
import time

import submitit

from benchmarks.orchestration.peers.in_process import run_trial

LOOK_EVERY_S = 0.05


def main(num_at_once: int, folders: list[str]) -> int:
    executor = submitit.AutoExecutor(folder="submitit", cluster="local")
    executor.update_parameters(timeout_min=60)
    running: list[submitit.Job[int]] = []
    ended: list[submitit.Job[int]] = []
    for folder in folders:
        while len(running) >= num_at_once:
            time.sleep(LOOK_EVERY_S)
            ended += [job for job in running if job.done()]
            running = [job for job in running if job not in ended]
        running.append(executor.submit(run_trial, folder))
    return max(job.result() for job in [*ended, *running])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
