"""Counts the bytes that an update sends between the devices of a host, from the model's layers."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.reported_work import is_known, work_of
from analysis.results import Result
from simulator.costs.box import profile
from simulator.costs.exchange import exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateBytes:
    """The bytes of one update, of all devices together."""

    weights: float
    gradients: float  # and of their sums, back
    num_items: int  # that the update takes
    num_micro_batches: int  # of each device, whose gradients are summed before they are sent

    @property
    def per_item(self) -> float:
        return (self.weights + self.gradients) / self.num_items


def update_bytes(target: Result) -> UpdateBytes | None:
    """Return None where the cost model does not know the target, as of several hosts or of a source
    that does not report how variables are shared.
    """
    if target.hosts > 1 or not target.axes["batch_size"]:
        return None
    if not is_known(target.axes):
        return None
    try:
        work = work_of(target)
        sent = exchange(work, profile(_ANY_BOX))
    except ValueError:  # a model or strategy that the cost model does not know
        return None
    return UpdateBytes(
        weights=sent.pull.num_bytes,
        gradients=sent.push.num_bytes,
        num_items=work.num_items(target.item),
        num_micro_batches=work.gradient_accumulation,
    )


_ANY_BOX = "dgx_a100"  # what is sent is the same on all of them
