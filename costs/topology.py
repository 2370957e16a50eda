"""The links that copies load on their way, and for how long each of them is busy.

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from costs.hardware import Hardware, MissingLinkError
from scalemark.abilities.all_reduce import HOST

NCCL_PROTOCOLS = ((8.4, 1.0, 1.0), (6.6, 0.175, 2.0))
"""Simple, and LL for small messages: microseconds of one all-reduce before its first hop, times the
profile's hop_us, times the bytes. NCCL takes whichever is faster (NVIDIA/nccl src/graph/tuning.cc
at 5067397c: LL hops 1.0 us on PCIe and 0.6 on NVLink).
"""

BETWEEN_CLIQUES = "nvlink between cliques"
"""Kind of link of a ring that no clique holds."""

Link = tuple[str, int, str]
"""Kind, which of them, and direction."""


@dataclass(slots=True, kw_only=True)
class Traffic:
    """The copies of one phase of a step, all on their way at once."""

    hardware: Hardware
    # at the bandwidths of the profile
    busy_s: dict[Link, float] = field(default_factory=lambda: defaultdict(float))
    num_copies: float = 0.0  # that the host issues
    num_bytes: float = 0.0  # of all copies and collectives, each counted once however far it goes
    latency_s: float = 0.0  # of collectives, one after another; copies have theirs by their number
    uses_nccl: bool = False  # its kernels take multiprocessors from the network's

    def copy(self, source: int, target: int, num_bytes: float, num_copies: float = 1.0) -> None:
        """Copy from one GPU to another, or from or to the host."""
        if source == target:
            return
        self.num_copies += num_copies
        self.num_bytes += num_bytes
        if HOST in (source, target):
            self._host_copy(source, target, num_bytes)
        elif self._nvlink(source, target, num_bytes):
            return
        elif self._staged(source, target):
            self._staged_copy(source, target, num_bytes)
        else:
            self._peer_copy(source, target, num_bytes)

    def collective(
        self, sizes: Sequence[float], num_gpus: int, launchers: int, num_passes: int = 2
    ) -> None:
        """All-reduce messages by NCCL, one after another; with one pass of the ring, scatter their
        sums, or gather them.

        A process launches the kernel of a message for each of its `launchers` GPUs while the
        message before is sent.
        """
        num_bytes = latency_us = 0.0
        us_per_byte = self._ring_us_per_byte(num_gpus)
        for size in sizes:
            sent = num_passes * (num_gpus - 1) / num_gpus * size
            ways = [
                (base_us + num_passes * (num_gpus - 1) * hops * self.hardware.hop_us, times * sent)
                for base_us, hops, times in NCCL_PROTOCOLS
            ]
            waited_us, loaded = min(ways, key=lambda way: way[0] + way[1] * us_per_byte)
            launched_us = launchers * self.hardware.launch_us - loaded * us_per_byte
            latency_us += max(waited_us, launched_us)
            num_bytes += loaded
            self.num_bytes += num_gpus * sent
        self.ring(num_gpus, num_bytes)
        self.latency_s += latency_us * 1e-6

    def _ring_us_per_byte(self, num_gpus: int) -> float:
        probe = Traffic(hardware=self.hardware)
        probe.ring(num_gpus, 1.0)
        return 1e6 * probe.busiest()[1]

    def ring(self, num_gpus: int, num_bytes: float) -> None:
        """Send so many bytes from every GPU to its neighbor; the slowest hop sets the pace."""
        self.uses_nccl = True
        hardware = self.hardware
        crosses_cliques = num_gpus > hardware.nvlink_clique
        if hardware.nvlink_gb_per_s and not (hardware.is_bridged and crosses_cliques):
            kind = BETWEEN_CLIQUES if crosses_cliques else "nvlink"
            rate = hardware.nvlink_gb_per_s * self._usable(num_gpus)
            self._load((kind, 0, "ring"), num_bytes, rate)
            return
        for gpu in range(num_gpus):
            other = (gpu + 1) % num_gpus
            if self._nvlink(gpu, other, num_bytes):
                continue
            if self._staged(gpu, other):
                self._staged_copy(gpu, other, num_bytes)
            else:
                self._peer_copy(gpu, other, num_bytes, serial=False)

    def _usable(self, num_gpus: int) -> float:
        """Return the share of a GPU's NVLinks that lead to these; in a mesh each pair has few."""
        clique = self.hardware.nvlink_clique
        return (num_gpus - 1) / clique if self.hardware.is_mesh and num_gpus <= clique else 1.0

    def host_sums(self, num_bytes: float, memory_bytes: float) -> None:
        """Add up gradients on the CPUs, which moves so many bytes through the host's memory."""
        self._load(("host sum", 0, ""), num_bytes, self.hardware.host_sum_gb_per_s)
        self._load(("host memory", 0, ""), memory_bytes, self.hardware.host_memory_gb_per_s)

    def busiest(self) -> tuple[str, float]:
        """Return the kind of the link that is busy for longest, and how long, seconds."""
        if not self.busy_s:
            return "latency", 0.0
        link = max(self.busy_s, key=self.busy_s.__getitem__)
        return link[0], self.busy_s[link]

    def by_kind(self) -> Iterator[tuple[str, float]]:
        """Yield how long the busiest link of each kind is busy."""
        longest: dict[str, float] = {}
        for (kind, _, _), busy in self.busy_s.items():
            longest[kind] = max(longest.get(kind, 0.0), busy)
        yield from longest.items()

    def _host_copy(self, source: int, target: int, num_bytes: float) -> None:
        gpu, way = (target, "down") if source == HOST else (source, "up")
        self._to_host(gpu, way, num_bytes)
        self._load(("host memory", 0, ""), num_bytes, self.hardware.host_memory_gb_per_s)

    def _to_host(self, gpu: int, way: str, num_bytes: float) -> None:
        """Load all that lies between a GPU and its host bridge."""
        hardware = self.hardware
        rate = hardware.pcie_gb_per_s
        self._load(("pcie", gpu, way), num_bytes, rate)
        if hardware.gpus_per_board > 1:
            self._load(("board", gpu // hardware.gpus_per_board, way), num_bytes, rate)
        if hardware.gpus_per_switch > 1:
            self._load(("switch", gpu // hardware.gpus_per_switch, way), num_bytes, rate)

    def _nvlink(self, source: int, target: int, num_bytes: float) -> bool:
        """Copy by a direct NVLink, and return whether there is one.

        There is within a clique, and in a mesh of cliques to the GPU's partner in the next.
        """
        hardware = self.hardware
        if not hardware.nvlink_gb_per_s:
            return False
        clique = hardware.nvlink_clique
        is_partner = (
            not hardware.is_bridged
            and source % clique == target % clique
            and abs(source // clique - target // clique) == 1
        )
        if source // clique != target // clique and not is_partner:
            return False
        if hardware.is_mesh:
            pair = source * hardware.num_gpus + target
            self._load(("nvlink", pair, "pair"), num_bytes, hardware.nvlink_gb_per_s / clique)
        self._load(("nvlink", source, "out"), num_bytes, hardware.nvlink_gb_per_s)
        self._load(("nvlink", target, "in"), num_bytes, hardware.nvlink_gb_per_s)
        return True

    def _staged(self, source: int, target: int) -> bool:
        """Return whether a copy goes through the host's memory, for want of peer-to-peer."""
        return not self.hardware.peer_to_peer and not self._same_board(source, target)

    def _same_board(self, source: int, target: int) -> bool:
        per_board = self.hardware.gpus_per_board
        return per_board > 1 and source // per_board == target // per_board

    def _peer_copy(
        self, source: int, target: int, num_bytes: float, *, serial: bool = True
    ) -> None:
        """Copy between peers; a GPU sends one after another, so slow ones hold up the others."""
        hardware = self.hardware
        slowest = hardware.pcie_gb_per_s
        if self._same_board(source, target) or self._same_switch(source, target):
            self._load(("pcie", source, "up"), num_bytes, hardware.pcie_gb_per_s)
            self._load(("pcie", target, "down"), num_bytes, hardware.pcie_gb_per_s)
        else:
            self._to_host(source, "up", num_bytes)
            self._to_host(target, "down", num_bytes)
        slowest = min(slowest, self._between_sockets(source, target, num_bytes))
        if serial:
            self._load(("copy engine", source, "out"), num_bytes, slowest)

    def _staged_copy(self, source: int, target: int, num_bytes: float) -> None:
        self._host_copy(source, HOST, num_bytes)
        self._host_copy(HOST, target, num_bytes)
        self._between_sockets(source, target, num_bytes)

    def _between_sockets(self, source: int, target: int, num_bytes: float) -> float:
        """Load the link between sockets, and return its GB/s; infinite below one socket."""
        hardware = self.hardware
        sockets = source // hardware.gpus_per_socket, target // hardware.gpus_per_socket
        if sockets[0] == sockets[1]:
            return math.inf
        if hardware.socket_gb_per_s is None:
            raise MissingLinkError(
                f"{hardware.name}: GPUs {source} and {target} hang off different CPU sockets, and "
                "socket_gb_per_s is not known; add it to the profile, or say "
                "hardware.profile.socket_gb_per_s=6 to a sweep and --link socket_gb_per_s=6 to "
                "predict (QPI; UPI has 10, AMD 16)"
            )
        way = "up" if sockets[0] < sockets[1] else "down"
        self._load(("sockets", min(sockets), way), num_bytes, hardware.socket_gb_per_s)
        return hardware.socket_gb_per_s

    def _same_switch(self, source: int, target: int) -> bool:
        per_switch = self.hardware.gpus_per_switch
        return per_switch > 1 and source // per_switch == target // per_switch

    def _load(self, link: Link, num_bytes: float, gb_per_s: float) -> None:
        self.busy_s[link] += num_bytes / (gb_per_s * 1e9)
