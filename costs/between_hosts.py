"""Counts the bytes that a step sends between hosts, by strategy, with the reasons.

S = bytes of all gradients, H hosts, N replicas in all; parameter server h holds s_h of S, whole
variables, largest first, each on the server with the fewest bytes. What host h sends:

  parameter servers             weights (H-1) s_h and gradients S - s_h, one after the other
  ring                          2 (N-1)/N S: through all replicas, host by host, it leaves each
                                host once
  ring with one_per_host_with   2 (H-1)/H S: NCCL sums within each host, and a ring of one replica
                                per host does the rest

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
from scalemark.abilities import VARIABLE_UPDATES, distributed, rank_jobs
from scalemark.abilities.variable_update import SendsBetweenHosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """All that is on its way at once, bytes by host."""

    sent: tuple[float, ...]
    received: tuple[float, ...]

    @property
    def busiest(self) -> float:
        """The most that one link passes in one direction."""
        return max(*self.sent, *self.received)


@dataclass(frozen=True, slots=True, kw_only=True)
class BetweenHosts:
    """One step, in phases one after another."""

    phases: tuple[Phase, ...]

    @property
    def link_bytes(self) -> float:
        """The bytes over the busiest link: divided by its rate, the step's seconds."""
        return sum(phase.busiest for phase in self.phases)

    def sent(self, host: int) -> float:
        return sum(phase.sent[host] for phase in self.phases)

    def received(self, host: int) -> float:
        return sum(phase.received[host] for phase in self.phases)


def between_hosts(
    variable_update: str, all_reduce: str, tensor_bytes: Sequence[float], hosts: int, num_gpus: int
) -> BetweenHosts:
    """Work out a step from the bytes of each gradient. Raises ValueError for a way of one host."""
    if not rank_jobs(variable_update):
        several = ", ".join(distributed())
        raise ValueError(
            f"variable_update={variable_update}: is of one host; of several are {several}"
        )
    if hosts == 1:
        return BetweenHosts(phases=())
    abilities = VARIABLE_UPDATES[variable_update]
    num_in_ring = hosts if all_reduce in abilities.one_per_host_with else num_gpus
    formula = _FORMULAS[abilities.sends_between_hosts]
    return BetweenHosts(phases=formula(tensor_bytes, hosts, num_in_ring))


def _parameter_servers(
    tensor_bytes: Sequence[float], hosts: int, _num_in_ring: int
) -> tuple[Phase, ...]:
    held = spread(sorted(tensor_bytes, reverse=True), hosts)
    out, others = tuple((hosts - 1) * own for own in held), tuple(sum(held) - own for own in held)
    return Phase(sent=out, received=others), Phase(sent=others, received=out)


def _ring(tensor_bytes: Sequence[float], hosts: int, num_in_ring: int) -> tuple[Phase, ...]:
    each = (2 * (num_in_ring - 1) / num_in_ring * sum(tensor_bytes),) * hosts
    return (Phase(sent=each, received=each),)


_FORMULAS: dict[SendsBetweenHosts, Callable[[Sequence[float], int, int], tuple[Phase, ...]]] = {
    SendsBetweenHosts.PARAMETER_SERVERS: _parameter_servers,
    SendsBetweenHosts.RING: _ring,
}
