"""Starts serving ranks as processes of this host, for checks; trials have supervision.py."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection

from scalemark.records.cluster import WORKER_0, Cluster, Rank
from scalemark.records.devices import DeviceKind
from trainer import devices
from trainer.errors import LostRankError
from trainer.process import parent
from trainer.ranks import servers
from trainer.ranks.ports import reserved

START_TIMEOUT_S = 120.0


@contextmanager
def started(num_hosts: int, claim: Callable[[Rank], object]) -> Iterator[Cluster]:
    """Fork a cluster whose worker 0 is this process, with a parameter server per host.

    Call it before TensorFlow touches any device. `claim` makes a worker's devices, in its process.
    All end with the block, or with this process. Raises LostRankError for a rank that does not
    start.
    """
    with ExitStack() as stack:
        ports = stack.enter_context(reserved(2 * num_hosts))
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
    parent.die_with(starter)
    if rank.job_name == "worker":
        claim(rank)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        devices.claim(DeviceKind.CPU_DEVICE, 0)
    servers.serve_claimed(cluster, rank, lambda: ready.send(True))
