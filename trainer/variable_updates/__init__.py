"""Variable updates, one file each: where variables are read, where gradients meet, who applies them.

Each file offers ABILITIES and `create(spec, initial, devices, optimizer) -> VariableUpdate`; the protocol stands in
`trainer/towers.py`. `initial` holds the value of every trainable variable.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a variable update can do, for who wants to try all of it."""

    local_parameter_devices: tuple[str, ...] = ("gpu",)
    all_reduces: tuple[str, ...] = ("none",)
    repacks_with: tuple[str, ...] = ()  # all-reduces whose messages can be packed
    compacts: bool = False
    stages: bool = False
    is_synchronous: bool = True  # trains as one device with the whole batch does
