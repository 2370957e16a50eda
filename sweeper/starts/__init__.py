"""Starts trainers: one file per choice of launcher.start."""

from collections.abc import Callable
from functools import partial

from scalemark.host.own_code import module_command
from scalemark.records.axes import Engine
from sweeper.starts.fork import Fork
from sweeper.starts.process import Process, Start
from sweeper.starts.spawn import Spawn

__all__ = ["START", "STARTS", "Fork", "Process", "Spawn", "Start"]

START: dict[str, Callable[[], Start]] = {Fork.name: Fork, Spawn.name: Spawn}

START_SIMULATOR: dict[str, Callable[[], Start]] = {
    Fork.name: partial(Fork, "simulator.__main__"),
    Spawn.name: partial(Spawn, module_command("simulator")),
}
"""The same for the simulator."""

START_COMMAND: dict[str, Callable[[], Start]] = {
    Fork.name: partial(Fork, "command.__main__"),
    Spawn.name: partial(Spawn, module_command("command")),
}
"""The same for programs of the user's own."""

STARTS = {
    Engine.tensorflow: START,
    Engine.simulated: START_SIMULATOR,
    Engine.command: START_COMMAND,
}
"""Engine -> how its trials are started, by launcher.start."""
