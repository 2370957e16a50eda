"""The abilities that an optimizer declares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerAbilities:
    """ABILITIES of a file in `trainer/optimizers/`."""

    has_momentum: bool  # heeds the axis `momentum`
    num_slots: int  # values that it keeps for each value of a variable
    learning_rate: float | None  # that `auto` means; None = the model's own, made for momentum
    weight_decay: float = 4e-5  # that `auto` means; tf_cnn_benchmarks' default
    # the optimizer that it is when weight_decay=0; empty = its decay is that of an L2 loss
    without_decay: str = ""

    @property
    def decouples_decay(self) -> bool:
        """Return whether it decays weights itself, so that gradients have no decay in them."""
        return bool(self.without_decay)
