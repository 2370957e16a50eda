"""Runs a rank other than worker 0: it holds its devices for worker 0 and waits, or trains along.

```
  worker 0 ── its own devices      worker 1 ── serve: its devices      ps 0, ps 1 ── serve: CPUs
     └─────── graphs and tensors, by gRPC ──┴───────────────────────────────┘
```
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import NoReturn

import tensorflow as tf
from tensorflow.python.eager import context

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.records.cluster import Cluster, Rank
from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import Result
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder
from trainer import devices, run
from trainer.process import parent
from trainer.ranks import beat
from trainer.ranks.own_rank import OwnRank


def accompany(spec: TrialSpec, folder: RunFolder, own: OwnRank) -> Result:
    """Return once worker 0 says that all is done; a rank that serves never returns."""

    def on_ready() -> None:
        parent.end_at_signals()
        beat.start(folder, own.rank)

    if VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        on_ready()
        return _train_along(spec, folder, own)
    serve(spec, own.cluster, own.rank, on_ready)


def _train_along(spec: TrialSpec, folder: RunFolder, own: OwnRank) -> Result:
    """Train as worker 0 does, for as many steps as it takes, and measure nothing."""
    trial_devices = run.join(spec, folder, own)
    run.prepare(spec)
    training, data = run.open_training(spec, trial_devices)
    assert trial_devices.lockstep is not None  # it joined others
    num_calls = trial_devices.lockstep.follow(lambda: training.towers.step(data.next()))
    print(f"{own.rank.name} took {num_calls * spec.steps_per_execution} steps")
    return Result(outcome=Outcome.COMPLETED, message="", measurement=None, op_placement={})


def serve(spec: TrialSpec, cluster: Cluster, rank: Rank, on_ready: Callable[[], None]) -> NoReturn:
    """Make this rank's devices, listen on its port of `cluster`, call `on_ready` once it can be
    reached, and wait for an end.

    Call once, before TensorFlow touches any device; only a signal ends it. Raises
    UnsupportedTrialError when fewer GPUs are visible than the host has replicas, LostRankError when
    the port is taken.
    """
    if rank.job_name == "worker":
        devices.claim_own(spec)
    else:
        devices.claim(DeviceKind.CPU_DEVICE, 0)
    serve_claimed(cluster, rank, on_ready)


def serve_claimed(cluster: Cluster, rank: Rank, on_ready: Callable[[], None]) -> NoReturn:
    """Serve the devices that this process has claimed."""
    with devices.naming_taken_port(cluster, rank):
        _server = tf.distribute.Server(
            devices.cluster_spec(cluster),
            job_name=rank.job_name,
            task_index=rank.task_index,
            protocol="grpc",
            config=context.context().config,
        )
    on_ready()
    while True:  # in Python, where signals are heard; the server's own `join` hears none
        signal.pause()
