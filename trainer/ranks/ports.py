"""Reserves TCP ports of this machine, so that no two attempts side by side are given the same."""

from __future__ import annotations

import errno
import itertools
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

PORTS = range(20_000, 30_000)  # below those that Linux gives to whoever asks for any


@contextmanager
def reserved(num_ports: int) -> Iterator[tuple[int, ...]]:
    """Reserve free ports for the block, whatever becomes of this process. Raises OSError.

    What is reserved is a name that the kernel gives only once, and takes back when its holder ends;
    the port itself stays free.
    """
    with ExitStack() as held:
        # attempts that begin side by side look in different places
        first = os.getpid() * 101 % len(PORTS)
        candidates = itertools.chain(PORTS[first:], PORTS[:first])
        found = tuple(
            itertools.islice((port for port in candidates if _reserve(port, held)), num_ports)
        )
        if len(found) < num_ports:
            wanted = (
                f"{num_ports} free ports wanted, {len(found)} found of {PORTS.start} to "
                f"{PORTS.stop - 1}"
            )
            raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {wanted}")
        yield found


def _reserve(port: int, held: ExitStack) -> bool:
    name = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        name.bind(f"\0scalemark-port-{port}")
        _check_free(port)
    except OSError as error:
        name.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    held.enter_context(name)
    return True


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        # as TensorFlow: an ended connection does not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("", port))
