"""The abilities that a launcher declares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherAbilities:
    """ABILITIES of a file in `sweeper/launchers/`, which has one of its name in
    `conf/launcher/`."""

    starts_agents: bool  # itself, on launcher.agents.num_hosts; else people start them
    # dataclass of the settings `launcher.<name>.*` that it alone heeds, all with defaults; its
    # types are built-in ones. None = it has none
    settings: type | None
