"""How many bytes a step sends between hosts, for each way of training over several: the formulas,
and where they come from.

S = bytes of all gradients, H hosts, N replicas in all; parameter server h holds s_h of S, whole
variables, largest first, each on the server with the fewest bytes. What host h sends:

  distributed_parameter_server  weights (H-1) s_h, then gradients S - s_h
  distributed_replicated        gradients S - s_h, then weights (H-1) s_h
  distributed_all_reduce ring   2 (N-1)/N S: the ring through all replicas, host by host, leaves
  each host once distributed_all_reduce nccl   2 (H-1)/H S: NCCL sums within each host, and a ring
  of one replica per host does the rest multi_worker_mirrored         2 (N-1)/N S: a ring, of
  TensorFlow or NCCL, which on CPUs has one replica per host

It receives as much: of parameter servers S - s_h of weights, and (H-1) s_h of gradients. A host's
gradients are summed before they leave it, and weights come once for all of its replicas.
(TensorFlow alone would send a tensor once to each device that reads it: two replicas of a host that
read a variable of 4 MB elsewhere took 8 MB of its link, counted in /proc/net/dev.)

A link takes both directions at once. Weights and gradients follow each other, because nobody
computes before the one, or sends the other before it has computed: so what counts of each is its
busiest host and direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from costs.spread import spread
from scalemark.records.cluster import RANK_JOBS


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """All that is on its way at once. Bytes by host."""

    sent: tuple[float, ...]
    received: tuple[float, ...]

    @property
    def busiest(self) -> float:
        """Of one direction of one link."""
        return max(*self.sent, *self.received)


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenHosts:
    """Of one step, phases one after another."""

    phases: tuple[Phase, ...]

    @property
    def link_bytes(self) -> float:
        """That one link passes while all others wait for it, or pass as many: divided by its rate,
        the step's seconds.
        """
        return sum(phase.busiest for phase in self.phases)

    def sent(self, host: int) -> float:
        """In all."""
        return sum(phase.sent[host] for phase in self.phases)

    def received(self, host: int) -> float:
        """In all."""
        return sum(phase.received[host] for phase in self.phases)


def between_hosts(
    variable_update: str, all_reduce: str, tensor_bytes: Sequence[float], hosts: int, num_gpus: int
) -> BetweenHosts:
    """`tensor_bytes` of each gradient. Raises ValueError for a way that is of one host."""
    if variable_update not in _WAYS:
        raise ValueError(
            f"variable_update={variable_update}: is of one host; of several are {', '.join(_WAYS)}"
        )
    if hosts == 1:
        return BetweenHosts(phases=())
    return BetweenHosts(phases=_WAYS[variable_update](tensor_bytes, hosts, num_gpus, all_reduce))


def _parameter_servers(
    tensor_bytes: Sequence[float], hosts: int, _num_gpus: int, _all_reduce: str
) -> tuple[Phase, ...]:
    held = spread(sorted(tensor_bytes, reverse=True), hosts)
    out, others = tuple((hosts - 1) * own for own in held), tuple(sum(held) - own for own in held)
    return Phase(sent=out, received=others), Phase(sent=others, received=out)


def _of_all_reduce(
    tensor_bytes: Sequence[float], hosts: int, num_gpus: int, all_reduce: str
) -> tuple[Phase, ...]:
    return _ring(tensor_bytes, hosts, hosts if all_reduce == "nccl" else num_gpus)


def _of_mirrored(
    tensor_bytes: Sequence[float], hosts: int, num_gpus: int, _all_reduce: str
) -> tuple[Phase, ...]:
    return _ring(tensor_bytes, hosts, num_gpus)


def _ring(tensor_bytes: Sequence[float], hosts: int, num_in_ring: int) -> tuple[Phase, ...]:
    each = (2 * (num_in_ring - 1) / num_in_ring * sum(tensor_bytes),) * hosts
    return (Phase(sent=each, received=each),)


_WAYS: dict[str, Callable[[Sequence[float], int, int, str], tuple[Phase, ...]]] = {
    "distributed_parameter_server": _parameter_servers,
    "distributed_replicated": _parameter_servers,
    "distributed_all_reduce": _of_all_reduce,
    "multi_worker_mirrored": _of_mirrored,
}

WAYS = tuple(_WAYS)
"""Variable updates that can go over several hosts."""

if lacking := RANK_JOBS.keys() ^ _WAYS.keys():
    raise NotImplementedError(
        f"{', '.join(sorted(lacking))}: wanted both in RANK_JOBS of scalemark/records/ and in _WAYS of "
        "costs/between_hosts.py, which says what it sends"
    )
