"""Lists what each strategy sends, and when: before the forward pass, or during the backward.

S = bytes of all gradients, n = GPUs:
  to owners, on the host   pull S, push S per GPU; the host sums n S
  to owners, on the GPUs   whole variables, greedily on the GPU with the fewest bytes; its owner
                           sends and gets (n-1) times them
  all-reduce               as the file of each in trainer/all_reduces/ declares
  reduce-scatter           equal shards of the elements of all variables: every GPU pulls (n-1)/n S
                           of weights, and pushes as much of gradients; TensorFlow's ring pushes
                           twice as much

Repacking joins all gradients before it cuts them, as tf_cnn_benchmarks does: fewer messages, of
which none hides behind the backward pass. Nor does any where gradients of several micro-batches
are summed before they are sent, once per update.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from costs import spread
from costs.hardware import Hardware
from costs.topology import Traffic
from costs.work import Work
from scalemark.abilities import ALL_REDUCES, VARIABLE_UPDATES
from scalemark.abilities.all_reduce import HOST
from scalemark.abilities.variable_update import Sends

_FUSED_BYTES = {"horovod": 64 * 2**20, "ddp": 25 * 2**20}
"""Buffers in which these send gradients by default, by their documentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The bytes and messages of one update."""

    pull: Traffic  # of variables, while the forward pass of the first micro-batch wants them
    push: Traffic  # of gradients, as the backward pass brings them; and of their sums, back
    message_bytes: tuple[float, ...]  # of gradients of one GPU, in the order of the layers
    waits_for_all: bool  # nothing is sent before the backward pass has ended
    num_casts: int  # kernels that pack, cut or cast, per GPU
    updated_bytes: float  # of variables that one GPU updates, or the host
    updates_on_host: bool


def exchange(work: Work, hardware: Hardware) -> Exchange:
    """Work out what a step sends.

    Raises MissingLinkError, and ValueError for a strategy that the cost model does not know.
    """
    name = work.variable_update
    if name in _FUSED_BYTES:
        return _fused(work, hardware)
    if name not in updates():
        known = ", ".join(sorted(updates()))
        raise ValueError(
            f"variable_update={name}: the cost model does not know what it sends; it knows {known}"
        )
    return _FORMULAS[VARIABLE_UPDATES[name].sends](work, hardware)


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
    if all_reduce == "none" and work.local_parameter_device == "cpu":
        all_reduce = "pscpu"  # sources say so of copies that are summed on the host
    if all_reduce not in ALL_REDUCES:
        known = ", ".join(ALL_REDUCES)
        raise ValueError(
            f"all_reduce={work.all_reduce}: the cost model does not know what it sends; it "
            f"knows {known}"
        )
    sizes = _sizes(work)
    push = Traffic(hardware=hardware)
    ALL_REDUCES[all_reduce].sends(push, sizes, work.num_gpus)
    casts = 2 * len(sizes) * (bool(work.gradient_repacking) + work.compact_gradients)
    return _exchange(
        work, sizes, push, num_casts=casts, waits_for_all=bool(work.gradient_repacking)
    )


def _sharded(work: Work, hardware: Hardware) -> Exchange:
    """Gather weights from equal shards, and sum gradients there."""
    n = work.num_gpus
    if n == 1:
        return _independent(work, hardware)
    if work.all_reduce in _SCATTERING:
        return _scattered(work, hardware)
    pull, push = Traffic(hardware=hardware), Traffic(hardware=hardware)
    sizes: list[float] = []
    for owner, of_shard in enumerate(spread.cuts(work.network.tensors, n)):
        pieces = [piece.end - piece.begin for piece in of_shard]
        elements = sum(pieces)
        num_messages = min(work.gradient_repacking, elements) or len(pieces)
        if work.gradient_repacking:
            sizes += [_element_bytes(work) * elements / num_messages] * num_messages
        else:
            sizes += [float(_element_bytes(work) * piece) for piece in pieces]
        for gpu in range(n):
            pull.copy(owner, gpu, _VARIABLE_BYTES * elements, len(pieces))
            push.copy(gpu, owner, _element_bytes(work) * elements, num_messages)
    casts = 2 * len(sizes) * (bool(work.gradient_repacking) + work.compact_gradients)
    return _exchange(work, sizes, push, pull=pull, num_casts=casts, updated_share=1 / n)


def _scattered(work: Work, hardware: Hardware) -> Exchange:
    """Do the same by collectives, a message per tensor or pack, of which each GPU has its part."""
    n, sizes = work.num_gpus, _sizes(work)
    pull, push = Traffic(hardware=hardware), Traffic(hardware=hardware)
    weights = [size * _VARIABLE_BYTES / _element_bytes(work) for size in sizes]
    _SCATTERING[work.all_reduce](pull, push, weights, sizes, n)
    casts = 2 * len(sizes) * (bool(work.gradient_repacking) + work.compact_gradients)
    return _exchange(work, sizes, push, pull=pull, num_casts=casts, updated_share=1 / n)


def _by_nccl(
    pull: Traffic, push: Traffic, weights: Sequence[float], sizes: Sequence[float], n: int
) -> None:
    pull.collective(weights, n, launchers=n, num_passes=1)
    push.collective(sizes, n, launchers=n, num_passes=1)


def _by_ring(
    pull: Traffic, push: Traffic, weights: Sequence[float], sizes: Sequence[float], n: int
) -> None:
    """Gather in n - 1 rounds; sums go all the way round, for TensorFlow's ring cannot scatter."""
    for gpu in range(n):
        pull.copy(gpu, (gpu + 1) % n, (n - 1) / n * sum(weights), (n - 1) * len(weights))
    ALL_REDUCES["ring"].sends(push, sizes, n)


_SCATTERING: dict[
    str, Callable[[Traffic, Traffic, Sequence[float], Sequence[float], int], None]
] = {"nccl": _by_nccl, "ring": _by_ring}
"""The all-reduces of shards that are collectives."""


def _independent(work: Work, hardware: Hardware) -> Exchange:
    return _exchange(work, _sizes(work), Traffic(hardware=hardware))


def _fused(work: Work, hardware: Hardware) -> Exchange:
    """Send gradients in buffers of a fixed size, from a process per GPU."""
    if work.num_gpus == 1:
        return _independent(work, hardware)
    total = sum(_element_bytes(work) * elements for elements in work.network.tensors)
    num = max(1, math.ceil(total / _FUSED_BYTES[work.variable_update]))
    sizes = tuple([total / num] * num)
    push = Traffic(hardware=hardware)
    push.collective(sizes, work.num_gpus, launchers=1)
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
        waits_for_all=waits_for_all or work.gradient_accumulation > 1,
        updated_bytes=_VARIABLE_BYTES * work.network.num_parameters * updated_share,
        updates_on_host=updates_on_host,
    )


_VARIABLE_BYTES = 4  # variables and their slots are fp32, however gradients are sent


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


def _owned(sizes: Sequence[float], owners: Sequence[int], owner: int) -> float:
    return sum(size for size, one in zip(sizes, owners, strict=True) if one == owner)


_FORMULAS: dict[Sends, Callable[[Work, Hardware], Exchange]] = {
    Sends.TO_OWNERS: _parameter_server,
    Sends.ALL_REDUCE: _replicated,
    Sends.REDUCE_SCATTER: _sharded,
    Sends.NOTHING: _independent,
}


@cache
def updates() -> tuple[str, ...]:
    """Return the variable updates that the cost model knows, ours and others'."""
    known = [name for name, one in VARIABLE_UPDATES.items() if one.sends in _FORMULAS]
    return (*known, *_FUSED_BYTES)
