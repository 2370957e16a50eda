"""Runs ranks other than worker 0, which hold their devices for it."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from typing import NoReturn

import tensorflow as tf
from tensorflow.python.eager import context

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.records.attempt import WORKER_0, Cluster, Rank
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import AttemptResult
from scalemark.records.outcomes import Outcome
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from trainer import devices, own_process, run
from trainer.errors import LostRankError
from trainer.ranks.own_rank import OwnRank, reserved_ports, start_beat


def accompany(spec: TrialSpec, folder: RunFolder, own: OwnRank) -> AttemptResult:
    """Return once worker 0 says that all is done; a rank that serves never returns."""

    def on_ready() -> None:
        own_process.end_at_signals()
        start_beat(folder, own.rank)

    if VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        on_ready()
        return _train_along(spec, folder, own)
    serve(spec, own.cluster, own.rank, on_ready)


def _train_along(spec: TrialSpec, folder: RunFolder, own: OwnRank) -> AttemptResult:
    """Train as worker 0 does, for as many steps as it takes, and measure nothing."""
    trial_devices = run.join(spec, folder, own)
    run.prepare(spec)
    training, data = run.open_training(spec, trial_devices)
    assert trial_devices.lockstep is not None  # it joined others
    num_calls = trial_devices.lockstep.follow(lambda: training.towers.step(data.next()))
    print(f"{own.rank.name} took {num_calls * spec.steps_per_execution} steps")
    return AttemptResult(outcome=Outcome.COMPLETED, message="", measurement=None, op_placement={})


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


START_TIMEOUT_S = 120.0


@contextmanager
def started(num_hosts: int, claim: Callable[[Rank], object]) -> Iterator[Cluster]:
    """Fork a cluster whose worker 0 is this process, with a parameter server per host.

    Call it before TensorFlow touches any device. `claim` makes a worker's devices, in its process.
    All end with the block, or with this process. Raises LostRankError for a rank that does not
    start.
    """
    with ExitStack() as stack:
        ports = stack.enter_context(reserved_ports(2 * num_hosts))
        addresses = tuple(f"127.0.0.1:{port}" for port in ports)
        cluster = Cluster(worker_hosts=addresses[:num_hosts], ps_hosts=addresses[num_hosts:])
        others = [rank for rank in cluster.ranks if rank != WORKER_0]
        connections = [_fork(stack, cluster, rank, claim) for rank in others]
        for rank, connection in zip(others, connections, strict=True):
            _wait_for(rank, connection)
        yield cluster


def _wait_for(rank: Rank, ready: Connection) -> None:
    try:
        if ready.poll(START_TIMEOUT_S):
            ready.recv()
            return
    except EOFError:  # it has ended
        pass
    raise LostRankError(f"{rank.name} did not start; what it said is above")


def _fork(
    stack: ExitStack, cluster: Cluster, rank: Rank, claim: Callable[[Rank], object]
) -> Connection:
    forking = multiprocessing.get_context("fork")
    here, there = forking.Pipe(duplex=False)
    process = forking.Process(
        target=_serve, args=(os.getpid(), cluster, rank, claim, there), name=rank.name, daemon=True
    )
    process.start()
    there.close()
    stack.callback(process.join)
    stack.callback(process.kill)
    return here


def _serve(
    starter: int, cluster: Cluster, rank: Rank, claim: Callable[[Rank], object], ready: Connection
) -> None:
    own_process.die_with(starter)
    if rank.job_name == "worker":
        claim(rank)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        devices.claim(DeviceKind.CPU_DEVICE, 0)
    serve_claimed(cluster, rank, lambda: ready.send(True))
