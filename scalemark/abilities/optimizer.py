"""The abilities that an optimizer declares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerAbilities:
    """ABILITIES of a file in `trainer/optimizers/`."""

    has_momentum: bool  # heeds the axis `momentum`
    num_slots: int  # values that it keeps for each value of a variable
    learning_rate: float | None  # that `auto` means; None = the model's own, made for momentum
