"""What each strategy sends, and for how long each link is busy with it.

S = bytes of all gradients, n = GPUs:
  to owners, on the host   pull S, push S per GPU; the host sums n S
  to owners, on the GPUs   whole variables, greedily on the GPU with the fewest bytes; its owner
                           sends and gets (n-1) times them
  all-reduce               as the file of each in trainer/all_reduces/ declares
  reduce-scatter           equal shards: every GPU pulls (n-1)/n S of weights, and pushes as much
                           of gradients; TensorFlow's ring pushes twice as much
```
 GPU0 ─pcie─┐
 GPU1 ─pcie─┴ switch ─┐
 GPU2 ─pcie─┐         ├─ socket 0 ══ sockets ══ socket 1 ─ switch ─ GPU4..7
 GPU3 ─pcie─┴ switch ─┘      │
   └──nvlink── (clique)      └─ host memory, host sum
```
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from scalemark.abilities import ALL_REDUCES, HOST, VARIABLE_UPDATES, Sends
from scalemark.records.trial import TrialSpec
from simulator.costs.box import Hardware
from simulator.costs.networks import Network

_BASE_US = 8.4  # of one all-reduce by NCCL before its first hop (src/graph/tuning.cc at 5067397c)
_REACHED = 0.8  # of the bandwidth of PCIe and NVLink; a guess
_SOCKETS_REACHED = 0.9  # of the link between sockets, of which profiles have what peers reach
_ACROSS = 0.4  # of NVLink's bandwidth, of a ring through more than one clique; a guess
_COPIES_AT_ONCE = 2.0  # that the host has in hand


@dataclass(slots=True, kw_only=True)
class LinkTraffic:
    """The copies of one phase of a step, all on their way at once."""

    hardware: Hardware
    # by kind of link, which of them, and direction
    busy_s: dict[tuple[str, int, str], float] = field(default_factory=lambda: defaultdict(float))
    latency_s: float = 0.0  # of messages, however small they are
    uses_nccl: bool = False

    @property
    def seconds(self) -> float:
        """Return how long the phase takes: its busiest link, and its latencies."""
        return max(self.busy_s.values(), default=0.0) + self.latency_s

    def copy(self, source: int, target: int, num_bytes: float, num_copies: float = 1.0) -> None:
        """Copy from one GPU to another, or from or to the host."""
        if source == target:
            return
        self.latency_s += num_copies * self.hardware.copy_us * 1e-6 / _COPIES_AT_ONCE
        if source == HOST:
            self._host_copy(target, "down", num_bytes)
        elif target == HOST:
            self._host_copy(source, "up", num_bytes)
        else:
            self._peer_copy(source, target, num_bytes)

    def collective(
        self, sizes: Sequence[float], num_gpus: int, launchers: int, num_passes: int = 2
    ) -> None:
        """All-reduce messages by NCCL, one after another; with one pass of the ring, scatter their
        sums, or gather them.

        A process launches the kernel of a message for each of its `launchers` GPUs.
        """
        self.uses_nccl = True
        hops_us = num_passes * (num_gpus - 1) * self.hardware.hop_us
        each_us = max(_BASE_US + hops_us, launchers * self.hardware.launch_us)
        self.latency_s += 1e-6 * each_us * len(sizes)
        self._ring(num_gpus, num_passes * (num_gpus - 1) / num_gpus * sum(sizes))

    def host_sums(self, num_bytes: float, memory_bytes: float) -> None:
        """Add up gradients on the CPUs, which moves so many bytes through the host's memory."""
        self._load(("host sum", 0, ""), num_bytes, self.hardware.host_sum_gb_per_s)
        self._load(("host memory", 0, ""), memory_bytes, self.hardware.host_memory_gb_per_s)

    def _ring(self, num_gpus: int, num_bytes: float) -> None:
        """Send so many bytes from every GPU to its neighbor; the slowest hop sets the pace."""
        hardware = self.hardware
        if hardware.nvlink_gb_per_s is None:
            for gpu in range(num_gpus):
                self._peer_copy(gpu, (gpu + 1) % num_gpus, num_bytes)
            return
        rate = hardware.nvlink_gb_per_s * _REACHED
        if num_gpus > hardware.nvlink_clique:
            rate *= _ACROSS
        elif hardware.is_mesh:  # each pair has few of a GPU's links
            rate *= (num_gpus - 1) / hardware.nvlink_clique
        self._load(("nvlink", 0, "ring"), num_bytes, rate)

    def _host_copy(self, gpu: int, way: str, num_bytes: float) -> None:
        self._load_pcie(gpu, way, num_bytes)
        self._load(("host memory", 0, ""), num_bytes, self.hardware.host_memory_gb_per_s)

    def _load_pcie(self, gpu: int, way: str, num_bytes: float, *, leaves: bool = True) -> None:
        """Load what lies between a GPU and its switch, and if it `leaves` that, its host bridge."""
        hardware = self.hardware
        rate = hardware.pcie_gb_per_s * _REACHED
        self._load(("pcie", gpu, way), num_bytes, rate)
        if leaves and hardware.gpus_per_switch > 1:
            self._load(("switch", gpu // hardware.gpus_per_switch, way), num_bytes, rate)

    def _peer_copy(self, source: int, target: int, num_bytes: float) -> None:
        """Copy by NVLink where one leads there, else by PCIe, and over both sockets."""
        hardware = self.hardware
        clique = hardware.nvlink_clique or 1
        apart = abs(source // clique - target // clique)
        # both are of one clique, or in a mesh partners in two
        are_linked = apart == 0 or (apart == 1 and source % clique == target % clique)
        if hardware.nvlink_gb_per_s and are_linked:
            rate = hardware.nvlink_gb_per_s * _REACHED
            if hardware.is_mesh:
                pair = source * hardware.num_gpus + target
                self._load(("nvlink", pair, "pair"), num_bytes, rate / hardware.nvlink_clique)
            self._load(("nvlink", source, "out"), num_bytes, rate)
            self._load(("nvlink", target, "in"), num_bytes, rate)
            return
        leaves = source // hardware.gpus_per_switch != target // hardware.gpus_per_switch
        self._load_pcie(source, "up", num_bytes, leaves=leaves)
        self._load_pcie(target, "down", num_bytes, leaves=leaves)
        first, second = source // hardware.gpus_per_socket, target // hardware.gpus_per_socket
        if first != second:
            assert hardware.socket_gb_per_s is not None  # `costs` has checked it
            way = "up" if first < second else "down"
            rate = hardware.socket_gb_per_s * _SOCKETS_REACHED
            self._load(("sockets", min(first, second), way), num_bytes, rate)

    def _load(self, link: tuple[str, int, str], num_bytes: float, gb_per_s: float) -> None:
        self.busy_s[link] += num_bytes / (gb_per_s * 1e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The bytes and messages of one update."""

    pull: LinkTraffic  # of variables, while the forward pass of the first micro-batch wants them
    push: LinkTraffic  # of gradients, as the backward pass brings them; and of their sums, back
    updated_share: float = 1.0  # of the variables that one GPU updates, or the host


def exchange(spec: TrialSpec, network: Network, hardware: Hardware) -> Exchange:
    """Work out what a step sends. Raises ValueError for what the cost model does not know."""
    num_gpus = spec.num_gpus
    crosses = hardware.socket_gb_per_s is None and num_gpus > hardware.gpus_per_socket
    if crosses and hardware.nvlink_gb_per_s is None:
        raise ValueError(
            f"{hardware.name}: {num_gpus} GPUs hang off different CPU sockets, and socket_gb_per_s "
            "is not known; add it to the profile, or say hardware.profile.socket_gb_per_s=6 to a "
            "sweep (QPI; UPI has 10, AMD 16)"
        )
    pull, push = LinkTraffic(hardware=hardware), LinkTraffic(hardware=hardware)
    # gradients are fp32 also in mixed precision, unless sent compact; variables always
    element_bytes = 2.0 if spec.compact_gradients else 4.0
    elements: Sequence[float] = network.tensors
    if spec.gradient_repacking:
        num_packs = min(spec.gradient_repacking, network.num_parameters)
        elements = (network.num_parameters / num_packs,) * num_packs
    sizes = [element_bytes * num for num in elements]
    weights = [4.0 * num for num in elements]
    sends = VARIABLE_UPDATES[spec.variable_update].sends
    if sends is Sends.UNKNOWN:
        raise ValueError(
            f"variable_update={spec.variable_update}: the cost model does not know what it sends"
        )
    if sends is Sends.TO_OWNERS:
        owners = owners_of(sizes, num_gpus)
        if spec.local_parameter_device == "cpu":
            owners = [HOST] * len(sizes)
            push.host_sums(num_gpus * sum(sizes), (2 * num_gpus + 1) * sum(sizes))
        largest = 0.0
        for owner in dict.fromkeys(owners):
            own = [num for num, of in zip(elements, owners, strict=True) if of == owner]
            largest = max(largest, sum(own))
            for gpu in range(num_gpus):
                pull.copy(owner, gpu, 4.0 * sum(own), len(own))
                push.copy(gpu, owner, element_bytes * sum(own), len(own))
        return Exchange(pull=pull, push=push, updated_share=largest / sum(elements))
    if sends is Sends.NOTHING or num_gpus == 1:
        return Exchange(pull=pull, push=push)
    if sends is Sends.ALL_REDUCE:
        ALL_REDUCES[spec.all_reduce].sends(push, sizes, num_gpus)
        return Exchange(pull=pull, push=push)
    _scatter(spec, sizes, weights, pull, push)
    return Exchange(pull=pull, push=push, updated_share=1 / num_gpus)


def _scatter(
    spec: TrialSpec,
    sizes: Sequence[float],
    weights: Sequence[float],
    pull: LinkTraffic,
    push: LinkTraffic,
) -> None:
    """Gather weights from equal shards, and sum gradients there."""
    num_gpus = spec.num_gpus
    if spec.all_reduce == "nccl":
        pull.collective(weights, num_gpus, launchers=num_gpus, num_passes=1)
        push.collective(sizes, num_gpus, launchers=num_gpus, num_passes=1)
        return
    if spec.all_reduce == "ring":
        steps = num_gpus - 1
        for gpu in range(num_gpus):
            neighbor = (gpu + 1) % num_gpus
            pull.copy(gpu, neighbor, steps / num_gpus * sum(weights), steps * len(weights))
        ALL_REDUCES["ring"].sends(push, sizes, num_gpus)  # its sums go all the way round
        return
    copies = math.ceil(len(sizes) / num_gpus)
    for owner in range(num_gpus):
        for gpu in range(num_gpus):
            pull.copy(owner, gpu, sum(weights) / num_gpus, copies)
            push.copy(gpu, owner, sum(sizes) / num_gpus, copies)


def owners_of(sizes: Sequence[float], num_owners: int) -> list[int]:
    """Return the owner of each variable: the one with the fewest bytes so far."""
    load = [0.0] * num_owners
    owners = []
    for size in sizes:
        owner = load.index(min(load))
        load[owner] += size
        owners.append(owner)
    return owners
