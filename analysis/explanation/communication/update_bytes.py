"""Counts the bytes that an update sends between the devices of a host, from the model's layers."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.calibration.environments import guess_of
from analysis.calibration.row import row
from analysis.results import Result
from costs.communication import exchange


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
    hardware = guess_of(target.environment, target.num_gpus).hardware
    try:
        own = row(target, hardware)
        sent = exchange(own.work, hardware)
    except ValueError:  # a model, strategy or link that the cost model does not know
        return None
    if not own.is_known:
        return None
    return UpdateBytes(
        weights=sent.pull.num_bytes,
        gradients=sent.push.num_bytes,
        num_items=own.work.num_items(own.item),
        num_micro_batches=own.work.gradient_accumulation,
    )
