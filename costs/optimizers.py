"""Values that an optimizer keeps beside each variable: they take memory, and passes to update."""

from __future__ import annotations

from scalemark.abilities import OPTIMIZERS

_OF_OTHERS = {"lamb": 2}  # that published figures name, and no file of ours implements


def num_slots(optimizer: str) -> int:
    """Return how many. Raises ValueError for an optimizer that nothing describes."""
    if optimizer in _OF_OTHERS:
        return _OF_OTHERS[optimizer]
    if optimizer not in OPTIMIZERS:
        known = ", ".join([*OPTIMIZERS, *_OF_OTHERS])
        raise ValueError(
            f"optimizer={optimizer}: the cost model does not know what it keeps; it knows {known}"
        )
    return OPTIMIZERS[optimizer].num_slots


def update_passes(optimizer: str) -> float:
    """Return how often an update goes through the variables' bytes: it reads the gradient, and
    reads and writes the variable and each slot.
    """
    return 3.0 + 2.0 * num_slots(optimizer)
