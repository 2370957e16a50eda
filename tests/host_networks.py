"""Networks of their own for the hosts of a test, where this machine can make them."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.needed import needed
from trainer.errors import UnsupportedTrialError
from trainer.ranks.host_networks import HostNetworks, host_networks


@contextmanager
def networks(num_hosts: int, mbit: float) -> Iterator[HostNetworks]:
    """Without the programs or the right the test is skipped, and fails in CI, where nothing may be left out unnoticed."""
    needed(impossible())
    with host_networks(num_hosts, mbit) as made:
        yield made


def impossible() -> str:
    """Why this process can make none; empty where it can."""
    try:
        with host_networks(1, 1.0):
            return ""
    except UnsupportedTrialError as error:
        return str(error)
