"""What each way of sharing variables and reducing gradients sends, and when: before the forward
pass, or during the backward.

S = bytes of all gradients, n = GPUs:
  parameter_server cpu     pull S, push S per GPU; the host sums n S
  parameter_server gpu     whole variables, greedily on the GPU with the fewest bytes; its owner
  sends and gets (n-1) times them replicated none          gradient i is summed on GPU i mod n,
  round robin by number and not by size, and copied back replicated pscpu         S to the host and
  S back per GPU replicated psgpu         every gradient in n shards: (n-1)/n S out and in, twice
  replicated hierarchical  half of the GPUs to one of them, these two exchange, and back replicated
  nccl, ring    2 (n-1)/n S per GPU

Repacking joins all gradients before it cuts them, as tf_cnn_benchmarks does: fewer messages, of
which none hides behind the backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from costs import spread
from costs.hardware import Hardware
from costs.topology import HOST, Traffic
from costs.work import Work

NCCL_PROTOCOLS = ((8.4, 1.0, 1.0), (6.6, 0.175, 2.0))
"""Simple, and LL for small messages: microseconds of one all-reduce before its first hop, times the
profile's hop_us, times the bytes. NCCL takes whichever is faster (NVIDIA/nccl src/graph/tuning.cc
at 5067397c: LL hops 1.0 us on PCIe and 0.6 on NVLink).
"""

_FUSED_BYTES = {"horovod": 64 * 2**20, "ddp": 25 * 2**20}
"""Of the buffers in which these send gradients, by default (Horovod's and PyTorch's
documentation).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Of one step."""

    pull: Traffic  # of variables, while the forward pass wants them
    push: Traffic  # of gradients, as the backward pass brings them; and of their sums, back
    message_bytes: tuple[float, ...]  # of gradients of one GPU, in the order of the layers
    waits_for_all: bool  # nothing is sent before the backward pass has ended
    num_casts: int  # kernels that pack, cut or cast, per GPU
    updated_bytes: float  # of variables that one GPU updates, or the host
    updates_on_host: bool

    @property
    def uses_nccl(self) -> bool:
        return self.push.uses_nccl


def exchange(work: Work, hardware: Hardware) -> Exchange:
    """Raises MissingLinkError, and ValueError for a way that the cost model does not know."""
    name = work.variable_update
    try:
        of = _UPDATES[name]
    except KeyError:
        known = ", ".join(sorted(_UPDATES))
        raise ValueError(
            f"variable_update={name}: the cost model does not know what it sends; it knows {known}"
        ) from None
    return of(work, hardware)


def _parameter_server(work: Work, hardware: Hardware) -> Exchange:
    sizes = _sizes(work)
    n = work.num_gpus
    on_host = work.local_parameter_device == "cpu"
    owners = [HOST] * len(sizes) if on_host else spread.owners(sizes, n)
    pull, push = Traffic(hardware=hardware), Traffic(hardware=hardware)
    for owner in dict.fromkeys(owners):
        owned, num_owned = _owned(sizes, owners, owner), owners.count(owner)
        for gpu in range(n):
            pull.copy(owner, gpu, owned, num_owned)
            push.copy(gpu, owner, owned, num_owned)
    if on_host:
        push.host_sums(n * sum(sizes), (2 * n + 1) * sum(sizes))
    most = max(_owned(sizes, owners, owner) for owner in set(owners))
    return _exchange(
        work, sizes, push, pull=pull, updated_share=most / sum(sizes), updates_on_host=on_host
    )


def _replicated(work: Work, hardware: Hardware) -> Exchange:
    if work.num_gpus == 1:
        return _independent(work, hardware)
    all_reduce = work.all_reduce.rstrip("?") or "none"
    if all_reduce not in _ALL_REDUCES:
        known = ", ".join(sorted(_ALL_REDUCES))
        raise ValueError(
            f"all_reduce={work.all_reduce}: the cost model does not know what it sends; it "
            f"knows {known}"
        )
    sizes = _sizes(work)
    push = Traffic(hardware=hardware)
    _ALL_REDUCES[all_reduce](push, sizes, work.num_gpus, work.local_parameter_device)
    casts = 2 * len(sizes) * (bool(work.gradient_repacking) + work.compact_gradients)
    return _exchange(
        work, sizes, push, num_casts=casts, waits_for_all=bool(work.gradient_repacking)
    )


def _independent(work: Work, hardware: Hardware) -> Exchange:
    return _exchange(work, _sizes(work), Traffic(hardware=hardware))


def _fused(work: Work, hardware: Hardware) -> Exchange:
    """A process per GPU, which sends gradients in buffers of a fixed size."""
    if work.num_gpus == 1:
        return _independent(work, hardware)
    total = sum(_element_bytes(work) * elements for elements in work.network.tensors)
    num = max(1, math.ceil(total / _FUSED_BYTES[work.variable_update]))
    sizes = tuple([total / num] * num)
    push = Traffic(hardware=hardware)
    _nccl(push, sizes, 1, "gpu", num_gpus=work.num_gpus)
    return _exchange(work, sizes, push, num_casts=2 * num)


def _exchange(
    work: Work,
    sizes: Sequence[float],
    push: Traffic,
    *,
    pull: Traffic | None = None,
    num_casts: int = 0,
    waits_for_all: bool = False,
    updated_share: float = 1.0,
    updates_on_host: bool = False,
) -> Exchange:
    return Exchange(
        pull=pull or Traffic(hardware=push.hardware),
        push=push,
        message_bytes=tuple(sizes),
        num_casts=num_casts,
        waits_for_all=waits_for_all,
        updated_bytes=_VARIABLE_BYTES * work.network.num_parameters * updated_share,
        updates_on_host=updates_on_host,
    )


_VARIABLE_BYTES = 4  # variables and their slots are fp32, however gradients are sent


def _element_bytes(work: Work) -> int:
    """Gradients are fp32 also in mixed precision, unless they are sent compact."""
    return 2 if work.compact_gradients else 4


def _sizes(work: Work) -> tuple[float, ...]:
    """Bytes of each message."""
    per_element = _element_bytes(work)
    if not work.gradient_repacking:
        return tuple(float(per_element * elements) for elements in work.network.tensors)
    packs = min(work.gradient_repacking, work.network.num_parameters)
    return tuple([per_element * work.network.num_parameters / packs] * packs)


def _owned(sizes: Sequence[float], owners: Sequence[int], owner: int) -> float:
    return sum(size for size, one in zip(sizes, owners, strict=True) if one == owner)


def _on_one(push: Traffic, sizes: Sequence[float], num_gpus: int, device: str) -> None:
    if device == "cpu":
        return _pscpu(push, sizes, num_gpus, device)
    for owner in range(num_gpus):
        owned = sizes[owner::num_gpus]
        for gpu in range(num_gpus):
            push.copy(gpu, owner, sum(owned), len(owned))
            push.copy(owner, gpu, sum(owned), len(owned))


def _pscpu(push: Traffic, sizes: Sequence[float], num_gpus: int, _device: str) -> None:
    for gpu in range(num_gpus):
        push.copy(gpu, HOST, sum(sizes), len(sizes))
        push.copy(HOST, gpu, sum(sizes), len(sizes))
    push.host_sums(num_gpus * sum(sizes), (num_gpus + 1) * sum(sizes))


def _psgpu(push: Traffic, sizes: Sequence[float], num_gpus: int, _device: str) -> None:
    for owner in range(num_gpus):
        for gpu in range(num_gpus):
            push.copy(gpu, owner, sum(sizes) / num_gpus, len(sizes))
            push.copy(owner, gpu, sum(sizes) / num_gpus, len(sizes))


def _hierarchical_copy(push: Traffic, sizes: Sequence[float], num_gpus: int, _device: str) -> None:
    half = num_gpus // 2
    groups = [range(half), range(half, num_gpus)]
    for index in range(num_gpus):
        owned = sizes[index::num_gpus]
        mains = [group[index % len(group)] for group in groups]
        push.copy(mains[0], mains[1], sum(owned), len(owned))
        push.copy(mains[1], mains[0], sum(owned), len(owned))
        for main, group in zip(mains, groups, strict=True):
            for gpu in group:
                push.copy(gpu, main, sum(owned), len(owned))
                push.copy(main, gpu, sum(owned), len(owned))


def _nccl(
    push: Traffic,
    sizes: Sequence[float],
    launchers: int,
    _device: str,
    *,
    num_gpus: int | None = None,
) -> None:
    """One process launches a kernel per GPU and message, while the message before is sent; with a
    process per GPU each launches its own.
    """
    n = num_gpus or launchers
    hardware = push.hardware
    num_bytes = latency_us = 0.0
    us_per_byte = _ring_us_per_byte(hardware, n)
    for size in sizes:
        sent = 2 * (n - 1) / n * size
        ways = [
            (base_us + 2 * (n - 1) * hops * hardware.hop_us, times * sent)
            for base_us, hops, times in NCCL_PROTOCOLS
        ]
        waited_us, loaded = min(ways, key=lambda way: way[0] + way[1] * us_per_byte)
        latency_us += max(waited_us, launchers * hardware.launch_us - loaded * us_per_byte)
        num_bytes += loaded
    push.ring(n, num_bytes)
    push.latency_s += latency_us * 1e-6


def _ring_us_per_byte(hardware: Hardware, num_gpus: int) -> float:
    probe = Traffic(hardware=hardware)
    probe.ring(num_gpus, 1.0)
    return 1e6 * probe.busiest()[1]


def _nccl_of_one_process(push: Traffic, sizes: Sequence[float], num_gpus: int, device: str) -> None:
    _nccl(push, sizes, num_gpus, device)


def _ring(push: Traffic, sizes: Sequence[float], num_gpus: int, _device: str) -> None:
    """TensorFlow's: copies from neighbor to neighbor, 2 (n-1) rounds one after another for each
    message.
    """
    for gpu in range(num_gpus):
        push.copy(
            gpu,
            (gpu + 1) % num_gpus,
            2 * (num_gpus - 1) / num_gpus * sum(sizes),
            2 * (num_gpus - 1) * len(sizes),
        )


_AllReduce = Callable[[Traffic, Sequence[float], int, str], None]

_ALL_REDUCES: dict[str, _AllReduce] = {
    "none": _on_one,
    "pscpu": _pscpu,
    "psgpu": _psgpu,
    "hierarchical_copy": _hierarchical_copy,
    "nccl": _nccl_of_one_process,
    "ring": _ring,
}

_UPDATES: dict[str, Callable[[Work, Hardware], Exchange]] = {
    "parameter_server": _parameter_server,
    "replicated": _replicated,
    "independent": _independent,
    "mirrored": _replicated,
    "horovod": _fused,
    "ddp": _fused,
}

UPDATES = tuple(_UPDATES)
"""Variable updates that the cost model knows, ours and others'."""
