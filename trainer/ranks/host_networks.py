"""Gives each host of a trial its own network on one machine, with links of a limited rate.

```
  host 0: eth0 10.77.0.1 ──tbf── port0 ┐
  host 1: eth0 10.77.0.2 ──tbf── port1 ┼ bridge    each a network namespace; what leaves eth0 or a
  host 2: eth0 10.77.0.3 ──tbf── port2 ┘           port goes no faster than the rate
```

Namespaces live as long as a process has them open or is inside: they end with the processes,
however these end.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from trainer.errors import UnsupportedTrialError

PROGRAMS = ("ip", "tc", "nsenter")
MOST_HOSTS = 254
# what a link that was idle sends at once; less, and the kernel's timer could not keep up the rate
BURST_BYTES = 256_000

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_NETWORK = "10.77.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNetworks:
    """Network namespaces, one per host."""

    files: tuple[int, ...]  # of the hosts' namespaces, open in this process
    switch: int  # the bridge's

    @property
    def addresses(self) -> tuple[str, ...]:
        """The address of each host."""
        return tuple(f"{_NETWORK}.{1 + host}" for host in range(len(self.files)))

    def enter(self, host: int) -> None:
        """Move the calling thread, and all it starts, to that host."""
        _enter(self.files[host])

    def command(self, host: int) -> list[str]:
        """Return the prefix with which a command runs on that host, as the same process."""
        return ["nsenter", f"--net={_path(self.files[host])}", "--"]


@contextmanager
def host_networks(num_hosts: int, mbit: float) -> Iterator[HostNetworks]:
    """Join hosts by links of `mbit` megabits per second each way; 0 = as fast as they can.

    Raises UnsupportedTrialError where a program or the right is missing.
    """
    if num_hosts > MOST_HOSTS:
        raise UnsupportedTrialError(
            f"hosts={num_hosts}: wanted {MOST_HOSTS} or fewer with injected.link_mbit"
        )
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        raise UnsupportedTrialError(
            f"injected.link_mbit: no {' and '.join(missing)} on PATH, which limited links are made "
            "with; run scripts/install-iproute2, or leave injected.link_mbit out"
        )
    with ExitStack() as opened:
        switch, *hosts = (_new_namespace() for _ in range(1 + num_hosts))
        for file in (switch, *hosts):
            opened.callback(os.close, file)
        networks = HostNetworks(files=tuple(hosts), switch=switch)
        _join(networks, mbit)
        yield networks


def _join(networks: HostNetworks, mbit: float) -> None:
    limit = f"root tbf rate {round(mbit * 1e6)}bit burst {BURST_BYTES} latency 100ms"
    links = ["link add bridge type bridge", "link set bridge up"]
    limits = []
    for host, file in enumerate(networks.files):
        links.append(f"link add port{host} type veth peer name eth0 netns {_path(file)}")
        links.append(f"link set port{host} master bridge up")
        limits.append(f"qdisc add dev port{host} {limit}")
    _batch(networks.switch, "ip", links)
    for file, address in zip(networks.files, networks.addresses, strict=True):
        own = ["link set lo up", f"address add {address}/24 dev eth0", "link set eth0 up"]
        _batch(file, "ip", own)
    if mbit:
        _batch(networks.switch, "tc", limits)
        for file in networks.files:
            _batch(file, "tc", [f"qdisc add dev eth0 {limit}"])


def _batch(namespace: int, program: str, lines: list[str]) -> None:
    """Run `ip` or `tc` in a namespace on commands of its own, one a line."""
    asked = "".join(f"{line}\n" for line in lines)
    command = ["nsenter", f"--net={_path(namespace)}", "--", program, "-batch", "-"]
    ended = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if ended.returncode:
        error = ended.stderr.strip().replace("\n", "; ")
        raise UnsupportedTrialError(
            f"injected.link_mbit: {program} could not make the hosts' networks: {error}; {_REMEDY}"
        )


def _new_namespace() -> int:
    """Return a new namespace's open file; this process stays where it is."""
    with _back_home():
        if _libc.unshare(_CLONE_NEWNET):
            raise _refusal(ctypes.get_errno())
        return os.open(_of_this_thread(), os.O_RDONLY)


@contextmanager
def _back_home() -> Iterator[None]:
    home = os.open(_of_this_thread(), os.O_RDONLY)
    try:
        yield
    finally:
        _enter(home)
        os.close(home)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        raise _refusal(ctypes.get_errno())


def _refusal(code: int) -> UnsupportedTrialError:
    right = "; this process has not the right" if code == errno.EPERM else ""
    return UnsupportedTrialError(
        f"injected.link_mbit: no network namespace: {os.strerror(code)}{right}; {_REMEDY}"
    )


def _of_this_thread() -> str:
    return f"/proc/self/task/{threading.get_native_id()}/ns/net"


def _path(file: int) -> str:
    return f"/proc/{os.getpid()}/fd/{file}"


_REMEDY = "run as root (CAP_SYS_ADMIN and CAP_NET_ADMIN), or leave injected.link_mbit out"
_libc = ctypes.CDLL(None, use_errno=True)
