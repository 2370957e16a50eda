"""Joins a Ray cluster, and reads what its hosts have; ray is imported when it is asked for."""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from scalemark.host.own_code import command_that_adds
from sweeper.errors import SweepRefusedError

ANSWER_TIMEOUT_S = 5.0
_NOT_ADDRESSES = ("auto", "local")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A host, as Ray counts what it has."""

    num_cpus: int
    num_gpus: int


def load() -> ModuleType:
    """Import ray. Raises SweepRefusedError without it."""
    # it would print of dead workers on stdout; `Launcher.look` says it
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
    """Join the cluster as a driver, if that is not done, and return the hosts that live. Raises
    SweepRefusedError.
    """
    ray = load()
    if not ray.is_initialized():
        _check_answers(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # of a cluster that is started here
        try:
            ray.init(
                address=address,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            why = " ".join(str(error).split())
            raise SweepRefusedError(
                f"launcher.ray.address={address or 'null'}: Ray refuses: {why}; start the sweep on "
                "a host of the cluster, with its Ray, its Python and its RAY_AUTH_MODE"
            ) from error
    nodes = []
    for node in ray.nodes():
        if node["Alive"]:
            has = node["Resources"]
            nodes.append(Node(num_cpus=int(has.get("CPU", 0)), num_gpus=int(has.get("GPU", 0))))
    return nodes


def _check_answers(address: str | None) -> None:
    """Raises SweepRefusedError where no cluster answers: Ray itself would try for minutes, and
    could end this process.
    """
    origin, named = _named(address)
    if not named or named in _NOT_ADDRESSES:
        return
    host, _, port = named.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        raise SweepRefusedError(
            f"{origin}={named}: wanted HOST:PORT of the cluster's head, as `ray status` shows it, "
            "or null"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise SweepRefusedError(
            f"{origin}={named}: no Ray cluster answers there ({error}); see `ray status` on a host "
            "of the cluster, or start one with `ray start --head`"
        ) from error


def _named(address: str | None) -> tuple[str, str]:
    """Return where the address is from that Ray would take, and the address; empty when Ray would
    start a cluster.
    """
    by_variable = os.environ.get("RAY_ADDRESS")
    if address is not None:
        return "launcher.ray.address", address
    if by_variable:
        return "RAY_ADDRESS", by_variable
    # which `ray stop` removes, and no crash
    newest = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")
    return str(newest), newest.read_text().strip() if newest.exists() else ""
