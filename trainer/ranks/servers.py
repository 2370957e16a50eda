"""What a rank of a distributed trial does that does not train itself: it holds its devices for
worker 0, and waits.

```
  worker 0 ── its own devices             worker 1 ── serve: its devices      ps 0, ps 1 ── serve: a CPU each
     └────────── graphs and tensors, by gRPC ──┴───────────────────────────────────┘
```
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import NoReturn

import tensorflow as tf
from tensorflow.python.eager import context

from scalemark.records.cluster import Cluster, Rank
from scalemark.records.devices import DeviceKind
from scalemark.records.trial import TrialSpec
from trainer import devices


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
        devices.claim(DeviceKind.CPU_STAND_IN, 0)
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
