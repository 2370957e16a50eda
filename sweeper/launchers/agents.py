"""`launcher=agents`: people start the agents by hand, on one host or more, by a command that is
printed.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace

from scalemark.abilities import LauncherAbilities

ABILITIES = LauncherAbilities(starts_agents=False, settings=None)

from conf.schema import Config
from scalemark.abilities import starting_agents
from scalemark.cli.terminal import silence
from scalemark.text.untrusted import masked
from store.database import DATABASE_VARIABLE
from sweeper.devices.agent_hosts import devices_of_hosts
from sweeper.devices.machine import Inventory
from sweeper.launchers import AgentCommand, AgentJob


class Launcher:
    """Starts nothing, and so knows of no agent; those that joined are in the database."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._has_reported = False

    def check(self) -> Inventory:
        other = (
            f"choose launcher={' or '.join(starting_agents())}, or launcher=local, whose hosts are "
            "processes of this machine"
        )
        return replace(devices_of_hosts(self._config, None), more_hosts=other)

    def check_width(self, hosts: int) -> None:
        """Check nothing: people know best."""

    def start(self, num: int, command: AgentCommand) -> None:
        """Print what to type, once."""
        if self._has_reported:
            return
        self._has_reported = True
        typed = shlex.join(command.argv)
        url = command.environment[DATABASE_VARIABLE]
        is_set = os.environ.get(DATABASE_VARIABLE) == url
        how = "as here" if is_set else f"to {masked(url)}"
        text = f"sweep: start an agent on each host, with {DATABASE_VARIABLE} set {how}:\n  {typed}"
        try:
            print(text, file=sys.stderr, flush=True)
        except OSError:
            silence(sys.stderr)

    def look(self, sweep: str) -> Sequence[AgentJob]:
        return ()

    def take_back(self, sweep: str) -> None:
        """Cancel nothing: it knows of no agent."""

    def stop(self, sweep: str, *, at_once: bool) -> None:
        """Do nothing: agents see it in the database."""
