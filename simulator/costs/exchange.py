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

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from scalemark.abilities import ALL_REDUCES, HOST, VARIABLE_UPDATES, AllReduceAbilities, Sends
from simulator.costs.box import Hardware, MissingLinkError
from simulator.costs.work import Work

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
    num_copies: float = 0.0  # that the host issues
    num_bytes: float = 0.0  # of all copies and collectives, each counted once however far it goes
    collectives_s: float = 0.0  # latencies of collectives, one after another
    uses_nccl: bool = False

    def copy(self, source: int, target: int, num_bytes: float, num_copies: float = 1.0) -> None:
        """Copy from one GPU to another, or from or to the host."""
        if source == target:
            return
        self.num_copies += num_copies
        self.num_bytes += num_bytes
        if HOST in (source, target):
            self._host_copy(source, target, num_bytes)
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
        sent = num_passes * (num_gpus - 1) / num_gpus * sum(sizes)
        hops_us = num_passes * (num_gpus - 1) * self.hardware.hop_us
        each_us = max(_BASE_US + hops_us, launchers * self.hardware.launch_us)
        self.collectives_s += 1e-6 * each_us * len(sizes)
        self.num_bytes += num_gpus * sent
        self._ring(num_gpus, sent)

    def host_sums(self, num_bytes: float, memory_bytes: float) -> None:
        """Add up gradients on the CPUs, which moves so many bytes through the host's memory."""
        self._load(("host sum", 0, ""), num_bytes, self.hardware.host_sum_gb_per_s)
        self._load(("host memory", 0, ""), memory_bytes, self.hardware.host_memory_gb_per_s)

    @property
    def latency_s(self) -> float:
        """Return how long messages take however small they are."""
        return self.collectives_s + self.num_copies * self.hardware.copy_us * 1e-6 / _COPIES_AT_ONCE

    def busiest(self) -> tuple[str, float]:
        """Return the kind of the link that is busy for longest, and how long, seconds."""
        if not self.busy_s:
            return "latency", 0.0
        link = max(self.busy_s, key=self.busy_s.__getitem__)
        return link[0], self.busy_s[link]

    def _ring(self, num_gpus: int, num_bytes: float) -> None:
        """Send so many bytes from every GPU to its neighbor; the slowest hop sets the pace."""
        hardware = self.hardware
        crosses = num_gpus > hardware.nvlink_clique
        if hardware.nvlink_gb_per_s:
            rate = hardware.nvlink_gb_per_s * _REACHED
            if crosses:
                rate *= _ACROSS
            elif hardware.is_mesh:  # each pair has few of a GPU's links
                rate *= (num_gpus - 1) / hardware.nvlink_clique
            self._load(("nvlink", 0, "ring"), num_bytes, rate)
            return
        for gpu in range(num_gpus):
            self._peer_copy(gpu, (gpu + 1) % num_gpus, num_bytes)

    def _host_copy(self, source: int, target: int, num_bytes: float) -> None:
        gpu, way = (target, "down") if source == HOST else (source, "up")
        self._load_pcie(gpu, way, num_bytes)
        self._load(("host memory", 0, ""), num_bytes, self.hardware.host_memory_gb_per_s)

    def _load_pcie(self, gpu: int, way: str, num_bytes: float) -> None:
        """Load all that lies between a GPU and its host bridge."""
        hardware = self.hardware
        rate = hardware.pcie_gb_per_s * _REACHED
        self._load(("pcie", gpu, way), num_bytes, rate)
        if hardware.gpus_per_switch > 1:
            self._load(("switch", gpu // hardware.gpus_per_switch, way), num_bytes, rate)

    def _peer_copy(self, source: int, target: int, num_bytes: float) -> None:
        """Copy by NVLink where one leads there; else by PCIe, through the host's memory where GPUs
        do not reach each other.
        """
        hardware = self.hardware
        if hardware.nvlink_gb_per_s and self._are_linked(source, target):
            rate = hardware.nvlink_gb_per_s * _REACHED
            if hardware.is_mesh:
                pair = source * hardware.num_gpus + target
                self._load(("nvlink", pair, "pair"), num_bytes, rate / hardware.nvlink_clique)
            self._load(("nvlink", source, "out"), num_bytes, rate)
            self._load(("nvlink", target, "in"), num_bytes, rate)
            return
        below_one_switch = source // hardware.gpus_per_switch == target // hardware.gpus_per_switch
        if not hardware.peer_to_peer:
            self._host_copy(source, HOST, num_bytes)
            self._host_copy(HOST, target, num_bytes)
        elif below_one_switch and hardware.gpus_per_switch > 1:
            self._load(("pcie", source, "up"), num_bytes, hardware.pcie_gb_per_s * _REACHED)
            self._load(("pcie", target, "down"), num_bytes, hardware.pcie_gb_per_s * _REACHED)
        else:
            self._load_pcie(source, "up", num_bytes)
            self._load_pcie(target, "down", num_bytes)
        self._load_sockets(source, target, num_bytes)

    def _are_linked(self, source: int, target: int) -> bool:
        """Return whether both are of one clique, or in a mesh partners in two."""
        clique = self.hardware.nvlink_clique
        apart = abs(source // clique - target // clique)
        return apart == 0 or (apart == 1 and source % clique == target % clique)

    def _load_sockets(self, source: int, target: int, num_bytes: float) -> None:
        hardware = self.hardware
        first, second = source // hardware.gpus_per_socket, target // hardware.gpus_per_socket
        if first == second:
            return
        if hardware.socket_gb_per_s is None:
            raise MissingLinkError(
                f"{hardware.name}: GPUs {source} and {target} hang off different CPU sockets, and "
                "socket_gb_per_s is not known; add it to the profile, or say "
                "hardware.profile.socket_gb_per_s=6 to a sweep (QPI; UPI has 10, AMD 16)"
            )
        way = "up" if first < second else "down"
        rate = hardware.socket_gb_per_s * _SOCKETS_REACHED
        self._load(("sockets", min(first, second), way), num_bytes, rate)

    def _load(self, link: tuple[str, int, str], num_bytes: float, gb_per_s: float) -> None:
        self.busy_s[link] += num_bytes / (gb_per_s * 1e9)


_VARIABLE_BYTES = 4  # variables and their slots are fp32, however gradients are sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The bytes and messages of one update."""

    pull: LinkTraffic  # of variables, while the forward pass of the first micro-batch wants them
    push: LinkTraffic  # of gradients, as the backward pass brings them; and of their sums, back
    waits_for_all: bool  # nothing is sent before the backward pass has ended
    num_casts: int = 0  # kernels that pack, cut or cast, per GPU
    updated_share: float = 1.0  # of the variables that one GPU updates, or the host
    updates_on_host: bool = False


def exchange(work: Work, hardware: Hardware) -> Exchange:
    """Work out what a step sends.

    Raises MissingLinkError, and ValueError for a strategy that the cost model does not know.
    """
    name = work.variable_update
    if name not in updates():
        known = ", ".join(sorted(updates()))
        raise ValueError(
            f"variable_update={name}: the cost model does not know what it sends; it knows {known}"
        )
    sends = VARIABLE_UPDATES[name].sends
    if sends is Sends.TO_OWNERS:
        return _to_owners(work, hardware)
    push = LinkTraffic(hardware=hardware)
    pull = LinkTraffic(hardware=hardware)
    num_casts, share = 0, 1.0
    sizes = _sizes(work)
    if sends is not Sends.NOTHING and work.num_gpus > 1:
        if sends is Sends.REDUCE_SCATTER:
            _scatter(work, sizes, pull, push)
            num_casts, share = _casts(work, sizes), 1 / work.num_gpus
        else:
            _all_reduce(work).sends(push, sizes, work.num_gpus)
            num_casts = _casts(work, sizes)
    return Exchange(
        pull=pull,
        push=push,
        waits_for_all=bool(work.gradient_repacking) or work.gradient_accumulation > 1,
        num_casts=num_casts,
        updated_share=share,
    )


def _to_owners(work: Work, hardware: Hardware) -> Exchange:
    sizes, n = _sizes(work), work.num_gpus
    on_host = work.local_parameter_device == "cpu"
    owners = [HOST] * len(sizes) if on_host else owners_of(sizes, n)
    pull, push = LinkTraffic(hardware=hardware), LinkTraffic(hardware=hardware)
    largest = 0.0
    for owner in dict.fromkeys(owners):
        own = [size for size, of in zip(sizes, owners, strict=True) if of == owner]
        largest = max(largest, sum(own))
        for gpu in range(n):
            pull.copy(owner, gpu, _VARIABLE_BYTES / _element_bytes(work) * sum(own), len(own))
            push.copy(gpu, owner, sum(own), len(own))
    if on_host:
        push.host_sums(n * sum(sizes), (2 * n + 1) * sum(sizes))
    return Exchange(
        pull=pull,
        push=push,
        waits_for_all=work.gradient_accumulation > 1,
        updated_share=largest / sum(sizes),
        updates_on_host=on_host,
    )


def _all_reduce(work: Work) -> AllReduceAbilities:
    name = work.all_reduce.rstrip("?") or "none"
    if name == "none" and work.local_parameter_device == "cpu":
        name = "pscpu"  # sources say so of copies that are summed on the host
    if name not in ALL_REDUCES:
        raise ValueError(
            f"all_reduce={work.all_reduce}: the cost model does not know what it sends; it "
            f"knows {', '.join(ALL_REDUCES)}"
        )
    return ALL_REDUCES[name]


def _scatter(work: Work, sizes: Sequence[float], pull: LinkTraffic, push: LinkTraffic) -> None:
    """Gather weights from equal shards, and sum gradients there."""
    n = work.num_gpus
    weights = [size * _VARIABLE_BYTES / _element_bytes(work) for size in sizes]
    if work.all_reduce == "nccl":
        pull.collective(weights, n, launchers=n, num_passes=1)
        push.collective(sizes, n, launchers=n, num_passes=1)
        return
    if work.all_reduce == "ring":
        for gpu in range(n):
            bytes_each = (n - 1) / n * sum(weights)
            pull.copy(gpu, (gpu + 1) % n, bytes_each, (n - 1) * len(weights))
        ALL_REDUCES["ring"].sends(push, sizes, n)  # its sums go all the way round
        return
    copies = math.ceil(len(sizes) / n)
    for owner in range(n):
        for gpu in range(n):
            pull.copy(owner, gpu, sum(weights) / n, copies)
            push.copy(gpu, owner, sum(sizes) / n, copies)


def _casts(work: Work, sizes: Sequence[float]) -> int:
    return 2 * len(sizes) * (bool(work.gradient_repacking) + work.compact_gradients)


def _element_bytes(work: Work) -> int:
    """Return bytes of a gradient: fp32 also in mixed precision, unless sent compact."""
    return 2 if work.compact_gradients else 4


def _sizes(work: Work) -> tuple[float, ...]:
    """Return the bytes of each message."""
    per_element = _element_bytes(work)
    if not work.gradient_repacking:
        return tuple(float(per_element * elements) for elements in work.network.tensors)
    packs = min(work.gradient_repacking, work.network.num_parameters)
    return tuple([per_element * work.network.num_parameters / packs] * packs)


@cache
def updates() -> tuple[str, ...]:
    """Return the variable updates that the cost model knows."""
    return tuple(
        name for name, abilities in VARIABLE_UPDATES.items() if abilities.sends is not Sends.UNKNOWN
    )


def owners_of(sizes: Sequence[float], num: int) -> list[int]:
    """Return the owner of each variable: the one of `num` with the fewest bytes so far, which is
    tf_cnn_benchmarks' rule.
    """
    load = [0.0] * num
    owners = []
    for size in sizes:
        owner = load.index(min(load))
        load[owner] += size
        owners.append(owner)
    return owners


def spread(sizes: Sequence[float], num: int) -> tuple[float, ...]:
    """Return what each of `num` owners holds in the end."""
    load = [0.0] * num
    for size, owner in zip(sizes, owners_of(sizes, num), strict=True):
        load[owner] += size
    return tuple(load)
