"""`python -m tests.trainer.mirrored_workers FOLDER`: forks the ranks of each case from one process that imported TensorFlow, and prints the case.

A case is a folder with trial.json, of which the name says what is done; what each rank found is left beside it, and how it ended.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf

from scalemark.host.processes import die_with
from scalemark.records.attempt import WORKER_0, Cluster, Rank
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from trainer import __main__ as trainer_main
from trainer import mode_check, own_process, own_rank, run
from trainer.own_rank import reserved_ports, start_beat

NUM_STEPS = 3
LOOK_EVERY_S = 0.02
WORKER_1 = Rank(job_name="worker", task_index=1)


def exact(spec: TrialSpec, folder: RunFolder, cluster: Cluster, rank: Rank) -> int:
    """Three steps on its part of the whole batches."""
    start_beat(folder, rank)
    devices = run.join(spec, folder, own_rank.OwnRank(cluster=cluster, rank=rank))
    training = run.build(spec, devices, mode_check.convolutional, partial(mode_check.at, devices))
    batches = list(mode_check.whole_batches(spec.num_gpus, NUM_STEPS))
    per_call = spec.steps_per_execution
    calls = [batches[first : first + per_call] for first in range(0, NUM_STEPS, per_call)]
    losses = [float(training.towers.step(mode_check.split(call, devices))) for call in calls]
    np.savez(folder.path / f"{rank.name}.npz", *training.update.weights(0), losses=losses)
    with suppress(
        tf.errors.OpError
    ):  # who has taken one more knows that all have taken theirs, and goes
        float(training.towers.step(mode_check.split(calls[0], devices)))
    return 0


def main(folder: Path) -> None:
    trainer_main.preload()
    for case in sorted(folder.iterdir()):
        print(case.name, flush=True)
        spec = TrialSpec.from_json((case / "trial.json").read_text())
        with reserved_ports(spec.hosts) as reserved:
            cluster = Cluster(worker_hosts=tuple(f"127.0.0.1:{port}" for port in reserved))
            _run(case.name.split("-")[0], spec, RunFolder(case), cluster)


def _run(what: str, spec: TrialSpec, folder: RunFolder, cluster: Cluster) -> None:
    work = exact if what == "exact" else trainer_main.run_rank
    left_out = {"waiting": [WORKER_1], "serving": [WORKER_0]}.get(what, [])
    pids = {
        rank: _forked(work, folder, cluster, rank) for rank in cluster.ranks if rank not in left_out
    }
    if what == "killed":
        _until(lambda: folder.last_step() is not None, pids)
        os.kill(pids[WORKER_1], signal.SIGKILL)
    elif what == "waiting":
        _until(
            lambda: folder.log.exists() and "waiting for worker-1" in folder.log.read_text(), pids
        )
        os.kill(pids[WORKER_0], signal.SIGINT)
    elif what == "serving":
        _until(lambda: folder.rank_beat(WORKER_1).exists(), pids)
        os.kill(pids[WORKER_1], signal.SIGTERM if spec.seed else signal.SIGINT)
    for rank, pid in pids.items():
        _, status = os.waitpid(pid, 0)
        (folder.path / f"{rank.name}.exit").write_text(str(os.waitstatus_to_exitcode(status)))


def _until(is_so: Callable[[], bool], pids: Mapping[Rank, int]) -> None:
    """Or until a rank has ended too early, which the test then finds."""
    ends = [os.pidfd_open(pid) for pid in pids.values()]
    while not is_so() and not select.select(ends, [], [], LOOK_EVERY_S)[0]:
        pass
    for end in ends:
        os.close(end)


def _forked(work, folder: RunFolder, cluster: Cluster, rank: Rank) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        die_with(os.getppid())
        own_process.heed_signals()
        log = os.open(folder.rank_log(rank), os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        own_process.run_and_exit(
            lambda spec, folder: work(spec, folder, cluster, rank), folder.trial, folder
        )
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
