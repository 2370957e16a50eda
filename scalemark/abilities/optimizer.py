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
    decouples_decay: bool = (
        False  # it decays weights itself; else gradients have that of an L2 loss
    )
    without_decay: str = ""  # the optimizer that it is when weight_decay=0, where there is one
