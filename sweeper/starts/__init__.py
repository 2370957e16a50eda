"""Ways of starting a trainer: one file per choice of launcher.start."""

from collections.abc import Callable

from sweeper.starts.fork import Fork
from sweeper.starts.process import Process, Start
from sweeper.starts.spawn import Spawn

__all__ = ["START", "Fork", "Process", "Spawn", "Start"]

START: dict[str, Callable[[], Start]] = {Fork.name: Fork, Spawn.name: Spawn}
