"""Estimates what the links within one host take of a step: the cost model's communication.

The quick check is one ring over NVLink, without latencies. A parameter server sends 16 times as
much over PCIe, and a small model's tensors take their time one by one, so that the check alone is
no limit to what communication may take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from analysis.explanation.communication.quick_check import QuickCheck
from analysis.known_boxes import known_box
from analysis.reported_work import is_known, work_of
from analysis.results import Result
from scalemark.records.strategies import STRATEGY_COLUMNS
from simulator.costs.box import Hardware, profile
from simulator.costs.step import costs

# times its own cost: published figures on synthetic data lost up to 3 times as much, of K80 boards
# 4
WAY_EXPLAINS = 4.0
# times the quick check, where that is more: VGG16 on a DGX-1 lost 12 times the check in 2017
CHECK_EXPLAINS = 20.0
_SLOWEST_BOX = "k80_8"  # of the profiles, for a box that none describes


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerLinks:
    """The communication of one target."""

    seconds: float  # of a step, as if nothing hid it
    check_s: float  # of the quick check
    gb_per_s: float  # of that check

    @property
    def at_most_s(self) -> float:
        """The most that the links explain, however badly they are used."""
        return max(WAY_EXPLAINS * self.seconds, CHECK_EXPLAINS * self.check_s)


def inner_links(target: Result, check: QuickCheck | None) -> InnerLinks | None:
    """Return None without a quick check, and where the cost model does not know the target."""
    if check is None:
        return None
    box = known_box(target.environment, target.num_gpus)
    if box is None:
        slow = profile(_SLOWEST_BOX)
        box = replace(slow, num_gpus=max(slow.num_gpus, target.num_gpus))
    seconds = list(_communication_s(target, box))
    if not seconds:
        return None
    return InnerLinks(
        seconds=max(seconds), check_s=check.seconds, gb_per_s=check.bandwidth.gb_per_s
    )


def _communication_s(target: Result, box: Hardware) -> Iterator[float]:
    """Yield the seconds of the target's own strategy; of all where it is not reported."""
    try:
        own = work_of(target)
        strategies = list(STRATEGY_COLUMNS)
        if is_known(target.axes):
            strategies = [(own.variable_update, own.local_parameter_device, own.all_reduce)]
        for update, device, all_reduce in strategies:
            # Gradients are fp32 whatever the precision, which a box need not have.
            work = replace(
                own,
                precision="fp32",
                variable_update=update,
                local_parameter_device=device,
                all_reduce=all_reduce,
            )
            yield costs(work, box).communication_s
    except ValueError:  # a model, strategy or link that the cost model does not know
        return
