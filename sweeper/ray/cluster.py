"""The Ray cluster that this process joins, and its hosts; ray is imported when it is asked for."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from scalemark.host.extras import command_that_adds
from sweeper.errors import SweepRefusedError

ANSWER_TIMEOUT_S = 5.0
_NOT_ADDRESSES = ("auto", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host, as Ray counts what it has."""

    num_cpus: int
    num_gpus: int


def load() -> ModuleType:
    """Ray. Raises SweepRefusedError without it."""
    # it would tell of dead workers on stdout; `Launcher.look` does
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    try:
        import ray
    except ImportError as error:
        raise SweepRefusedError(
            f"launcher=ray: ray cannot be imported ({error}); {command_that_adds('ray')} on all "
            "hosts, or choose launcher=agents and start agents by hand"
        ) from error
    return ray


def join(address: str | None) -> list[Node]:
    """Join the cluster as a driver, if that is not done, and tell the hosts that live. Raises
    SweepRefusedError.
    """
    ray = load()
    if not ray.is_initialized():
        _check_answers(address)
        _join(ray, address)
    return [
        Node(
            num_cpus=int(node["Resources"].get("CPU", 0)),
            num_gpus=int(node["Resources"].get("GPU", 0)),
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


def _join(ray: ModuleType, address: str | None) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that is started here
    try:
        ray.init(
            address=address,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        told = " ".join(str(error).split())
        raise SweepRefusedError(
            f"launcher.ray.address={address or 'null'}: Ray refuses: {told}; start the sweep on a host of the cluster, with the "
            "cluster's versions of Ray and Python, and its RAY_AUTH_MODE: token where `ray start` said that token authentication "
            "is enabled, else disabled"
        ) from error


def _check_answers(address: str | None) -> None:
    """Ray itself would try for minutes, and could end this process. Raises SweepRefusedError."""
    origin, named = _named(address)
    if not named or named in _NOT_ADDRESSES:
        return
    said = f"{origin}={named}"
    host, _, port = named.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise SweepRefusedError(
            f"{said}: wanted HOST:PORT of the cluster's head, as `ray status` tells, or null"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise SweepRefusedError(
            f"{said}: no Ray cluster answers there ({error}); see `ray status` on a host of the cluster, or start one with "
            "`ray start --head`"
        ) from error


def _named(address: str | None) -> tuple[str, str]:
    """Where the address is from that Ray would take, and the address; empty when Ray would start a
    cluster.
    """
    if address is not None:
        return "launcher.ray.address", address
    if by_variable := os.environ.get("RAY_ADDRESS"):
        return "RAY_ADDRESS", by_variable
    # which `ray stop` removes, and no crash
    newest = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    return str(newest), newest.read_text().strip() if newest.exists() else ""
