"""Ways of having agents run on other hosts: one file per launcher that shares a sweep, named as
launcher.name has it.

Each declares ABILITIES, see `scalemark/abilities/`, and has a class `Launcher`. The controller asks
it for the devices before it plans, then for agents as long as there is work.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from conf.schema import Config
from scalemark.abilities import LAUNCHERS
from scalemark.host.own_code import module_command, python_path
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError

# names of the hosts of an agent over several, its own first, with commas between
HOSTS_VARIABLE = "SCALEMARK_HOSTS"
# what starts ranks on them: a file in trainer/rank_starts/
RANK_START_VARIABLE = "SCALEMARK_RANK_START"
DATABASE_VARIABLE = "SCALEMARK_DB"  # URL; may hold a password, and so is in no command line


class JobState(StrEnum):
    """Of an agent, as the engine that runs it has it."""

    QUEUED = "queued"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentJob:
    """An agent that was asked for."""

    job_id: str  # as the engine names it
    hosts: int  # that it runs over
    state: JobState
    why: str = ""  # it waits, or ended, in a few words; empty where the engine does not say
    log: Path | None = None  # what it wrote


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCommand:
    """What an agent is, for who starts it on a host that has this project and this Python at the
    same paths.
    """

    sweep: str
    hosts: int  # that it runs over; more than 1 for trials with as many
    argv: tuple[str, ...]
    # beside what the host has; holds secrets, so it is in no command line and in no file others
    # read
    environment: dict[str, str]
    logs: Path  # a folder, seen by all hosts, that exists


class HostLauncher(Protocol):
    """Starts agents on hosts, and tells what became of them. Made with the sweep's config. Never
    waits for long.
    """

    def check(self) -> Inventory:
        """The devices of each host, with `num_hosts`: see `sweeper.devices.agent_hosts`. Nothing is
        started.

        Raises SweepRefusedError when agents could not be had: better now than after a plan.
        """

    def check_width(self, hosts: int) -> None:
        """That agents over so many hosts could be had, which the widest trial of a plan wants.
        Raises SweepRefusedError.
        """

    def start(self, num: int, command: AgentCommand) -> None:
        """Ask for so many more agents. Raises SweepRefusedError when that is refused."""

    def look(self, sweep: str) -> Sequence[AgentJob]:
        """The agents that were asked for, in order, also by an earlier controller of this sweep
        where the engine knows.

        Raises SweepRefusedError when the engine does not answer for long.
        """

    def take_back(self, sweep: str) -> None:
        """Those that were not begun; those that run go on. Raises SweepRefusedError."""

    def stop(self, sweep: str, *, at_once: bool) -> None:
        """End them, and take back those that were not begun; `at_once`: without time to tell
        anybody. May be asked again.
        """


def load(config: Config) -> HostLauncher:
    """By the launcher's name. Raises SweepRefusedError where no file here is named so."""
    name = config.launcher.name
    if name not in LAUNCHERS:
        raise SweepRefusedError(
            f"launcher={name}: sweeper/launchers/{name}.py is missing; there are {', '.join(LAUNCHERS)}"
        )
    module = import_module(f"{__name__}.{name}")
    return cast(HostLauncher, module.Launcher(config))


def agent_command(sweep: str, url: str, *, hosts: int, logs: Path) -> AgentCommand:
    """Runs over `hosts` hosts. Where those are named by the engine, it adds `HOSTS_VARIABLE` and
    `RANK_START_VARIABLE`.
    """
    over = ("--hosts", str(hosts)) if hosts > 1 else ()
    return AgentCommand(
        sweep=sweep,
        hosts=hosts,
        argv=module_command("sweeper", "agent", "--sweep", sweep, *over),
        environment={DATABASE_VARIABLE: url, "PYTHONPATH": python_path(os.environ)},
        logs=logs,
    )
