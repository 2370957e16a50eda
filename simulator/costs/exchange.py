"""What each strategy sends: before the forward pass and during the backward.

S = bytes of all gradients, n = GPUs:
  to owners, on the host   pull S, push S per GPU; the host sums n S
  to owners, on the GPUs   whole variables, greedily on the GPU with the fewest bytes; its owner
                           sends and gets (n-1) times them
  all-reduce               as the file of each in trainer/all_reduces/ declares
  reduce-scatter           equal shards: every GPU pulls (n-1)/n S of weights, and pushes as much
                           of gradients; TensorFlow's ring pushes twice as much
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from scalemark.abilities import ALL_REDUCES, HOST, VARIABLE_UPDATES, AllReduceAbilities, Sends
from simulator.costs.box import Hardware
from simulator.costs.exchange import LinkTraffic
from simulator.costs.work import Work

_FUSED_BYTES = {"horovod": 64 * 2**20, "ddp": 25 * 2**20}
"""Buffers in which these send gradients by default, by their documentation."""

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
    sends = Sends.ALL_REDUCE if name in _FUSED_BYTES else VARIABLE_UPDATES[name].sends
    if sends is Sends.TO_OWNERS:
        return _to_owners(work, hardware)
    push = LinkTraffic(hardware=hardware)
    pull = LinkTraffic(hardware=hardware)
    num_casts, share = 0, 1.0
    sizes = _sizes(work)
    if sends is not Sends.NOTHING and work.num_gpus > 1:
        if name in _FUSED_BYTES:
            num = max(1, math.ceil(sum(sizes) / _FUSED_BYTES[name]))
            push.collective([sum(sizes) / num] * num, work.num_gpus, launchers=1)
            num_casts = 2 * num
        elif sends is Sends.REDUCE_SCATTER:
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
    if not work.gradient_repacking or work.variable_update in _FUSED_BYTES:
        return tuple(float(per_element * elements) for elements in work.network.tensors)
    packs = min(work.gradient_repacking, work.network.num_parameters)
    return tuple([per_element * work.network.num_parameters / packs] * packs)


@cache
def updates() -> tuple[str, ...]:
    """Return the variable updates that the cost model knows, ours and others'."""
    known = [
        name for name, abilities in VARIABLE_UPDATES.items() if abilities.sends is not Sends.UNKNOWN
    ]
    return (*known, *_FUSED_BYTES)


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
