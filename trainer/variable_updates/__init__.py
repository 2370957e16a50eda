"""Variable updates, one file each: where variables are read, where gradients meet, who applies
them.

Each file offers ABILITIES and `create(spec, initial, devices, optimizer) -> VariableUpdate`; the
protocol stands in
`trainer/towers.py`. `initial` holds the value of every trainable variable. One whose every worker
trains offers
`join(spec, cluster, rank) -> Devices`, too: those of one worker, once all workers have joined.
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
    is_distributed: bool = False  # runs over the devices of several processes
    # of those, each worker its own loop; else worker 0 is the one client
    every_worker_trains: bool = False
