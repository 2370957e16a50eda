"""The values that the command line takes for an axis."""

from __future__ import annotations

from scalemark.abilities.folder import names
from scalemark.records.axes import AUTO, Axis


def choices_of(axis: Axis) -> list[str]:
    """Return all values that the command line takes, `auto` included; empty where it does not list
    them.
    """
    folder = axis.folder
    choices = names(f"trainer/{folder}") if folder else axis.choices
    may_be_auto = choices and axis.auto
    return [AUTO, *choices] if may_be_auto else list(choices)
