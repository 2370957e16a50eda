"""Starts trainers: one file per choice of launcher.start."""

from scalemark.records.axes import Engine
from sweeper.starts.fork import Fork
from sweeper.starts.spawn import Process, Spawn, Start, environment

__all__ = ["MODULES", "Fork", "Process", "Spawn", "Start", "environment"]

MODULES = {
    Engine.tensorflow: "trainer.__main__",
    Engine.simulated: "simulator.__main__",
    Engine.command: "command.__main__",
}
"""Engine -> the program that runs its trials."""
