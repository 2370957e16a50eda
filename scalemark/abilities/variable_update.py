"""The abilities that a variable update declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Sends(StrEnum):
    """The messages of one step on one host; `simulator/costs/exchange.py` counts their bytes."""

    NOTHING = "nothing"  # replicas train apart
    TO_OWNERS = "to owners"  # weights from the owner of a variable, gradients to it
    ALL_REDUCE = "all-reduce"  # gradients, as the all-reduce declares
    REDUCE_SCATTER = "reduce-scatter"  # weights from equal shards to all, gradients back to them
    UNKNOWN = "unknown"  # the cost model cannot tell, and simulated trials are refused


class SendsBetweenHosts(StrEnum):
    """The messages between hosts; see `simulator.costs.exchange.host_link_phases`."""

    NOTHING = "nothing"  # it is of one host
    PARAMETER_SERVERS = "parameter servers"  # weights and sums of each host, to and from owners
    RING = "ring"  # of all replicas, host by host


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableUpdateAbilities:
    """ABILITIES of a file in `trainer/variable_updates/`."""

    local_parameter_devices: tuple[str, ...]  # cpu, gpu; the first is what `auto` means
    all_reduces: tuple[str, ...]  # the first that the devices can run is what `auto` means
    why: str  # no other all-reduce or device will do; completes "because ..."
    sends: Sends
    sends_between_hosts: SendsBetweenHosts = SendsBetweenHosts.NOTHING
    # all-reduces that sum within each host first, so that one replica of each is in the ring
    one_per_host_with: tuple[str, ...] = ()
    repacks_with: tuple[str, ...] = ()  # all-reduces whose messages can be packed
    # all-reduces that are right for even numbers of replicas only, and why
    even_only: Mapping[str, str] = field(default_factory=dict)
    compacts: bool = False  # gradients can travel in half precision
    stages: bool = False  # replicas can compute on the weights of the step before
    least_replicas: int = 1  # fewer have nothing to share
    # trains as one device with the whole batch does: replicas agree, as on skipping a step
    is_synchronous: bool = True
    # the jobs of each host's ranks; empty = the trial is one process
    rank_jobs: tuple[str, ...] = ()
    every_worker_trains: bool = False  # each worker its own loop; else worker 0 is the one client
    one_cpu_device_per_host: bool = False  # on CPUs it uses one device of each process
    is_of_one_host: bool = False  # its ranks are processes of one host, a replica each

    def __post_init__(self) -> None:
        crosses = self.sends_between_hosts is not SendsBetweenHosts.NOTHING
        if crosses != self.is_distributed:
            raise ValueError(
                f"rank_jobs={self.rank_jobs} with sends_between_hosts="
                f"{self.sends_between_hosts.name}: wanted both of them, or neither"
            )

    @property
    def is_distributed(self) -> bool:
        """It runs as several processes, on one host or more."""
        return bool(self.rank_jobs)

    @property
    def goes_over_hosts(self) -> bool:
        """It can run over several hosts."""
        return self.is_distributed and not self.is_of_one_host

    @property
    def exchanges(self) -> bool:
        """Replicas share what they learn."""
        return self.sends is not Sends.NOTHING
