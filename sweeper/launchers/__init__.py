"""Has agents run on other hosts: one file per launcher that shares a sweep, named as launcher.name
has it.

Each declares ABILITIES, see `scalemark/abilities.py`, and has a class `Launcher`. The controller
asks it for the devices before it plans, then for agents as long as there is work.
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
from scalemark.records.attempt import PYTHONPATH_VARIABLE
from scalemark.records.machine import DeviceKind
from scalemark.text.wording import counted
from store.database import DATABASE_VARIABLE
from sweeper.devices.machine import Inventory
from sweeper.errors import SweepRefusedError

# names of the hosts of an agent over several, its own first, with commas between
HOSTS_VARIABLE = "SCALEMARK_HOSTS"
# what starts ranks on them: a file in trainer/rank_starts/
RANK_START_VARIABLE = "SCALEMARK_RANK_START"


class JobState(StrEnum):
    """The state of an agent, as the engine that runs it knows it."""

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
    """Runs an agent on a host that has this project and this Python at the same paths."""

    sweep: str
    hosts: int  # that it runs over; more than 1 for trials with as many
    argv: tuple[str, ...]
    # beside what the host has; holds secrets, so it is in no command line and in no file others
    # read
    environment: dict[str, str]
    logs: Path  # a folder, seen by all hosts, that exists


class HostLauncher(Protocol):
    """Starts agents on hosts, and says what became of them. Made with the sweep's config. Never
    waits for long.
    """

    def check(self) -> Inventory:
        """Return the devices of each host, with `num_hosts`: see `sweeper.devices.agent_hosts`.
        Nothing is started.

        Raises SweepRefusedError when agents could not be had: better now than after a plan.
        """

    def check_width(self, hosts: int) -> None:
        """Raises SweepRefusedError where agents over so many hosts could not be had, which the
        widest trial of a plan wants.
        """

    def start(self, num: int, command: AgentCommand) -> None:
        """Ask for so many more agents. Raises SweepRefusedError when that is refused."""

    def look(self, sweep: str) -> Sequence[AgentJob]:
        """Return the agents that were asked for, in order, also by an earlier controller of this
        sweep where the engine knows.

        Raises SweepRefusedError when the engine does not answer for long.
        """

    def take_back(self, sweep: str) -> None:
        """Cancel those that have not begun; those that run go on. Raises SweepRefusedError."""

    def stop(self, sweep: str, *, at_once: bool) -> None:
        """End them, and take back those that were not begun; `at_once`: without time to tell
        anybody. May be asked again.
        """


def load(config: Config) -> HostLauncher:
    """Raises SweepRefusedError where no file here is named as the launcher."""
    name = config.launcher.name
    if name not in LAUNCHERS:
        raise SweepRefusedError(
            f"launcher={name}: sweeper/launchers/{name}.py is missing; there are "
            f"{', '.join(LAUNCHERS)}"
        )
    module = import_module(f"{__name__}.{name}")
    return cast(HostLauncher, module.Launcher(config))


def gpus_of_hosts(
    config: Config, counts: Sequence[int], where: str, wanted: int | None = None
) -> int:
    """Return the most GPUs that each of as many hosts as are wanted has; `counts` are those of the
    hosts that are there.

    Raises SweepRefusedError where too few have `wanted` GPUs, by default as launcher.agents says.
    """
    num_hosts = config.launcher.agents.num_hosts
    if wanted is None and config.hardware.device_kind != DeviceKind.CPU_DEVICE:
        wanted = config.launcher.agents.gpus_per_host
    num_fit = sum(count >= (wanted or 0) for count in counts)
    if num_fit < max(1, num_hosts):
        raise SweepRefusedError(
            f"launcher.agents.num_hosts={num_hosts}: {where} has {num_fit} nodes that are up and "
            f"have {counted(wanted or 0, 'GPU')} or more; ask for fewer hosts or GPUs"
        )
    return sorted(counts, reverse=True)[num_hosts - 1]


def agent_command(sweep: str, url: str, *, hosts: int, logs: Path) -> AgentCommand:
    """Return the command of an agent over `hosts` hosts; the engine that names these adds
    `HOSTS_VARIABLE` and `RANK_START_VARIABLE`.
    """
    over = ("--hosts", str(hosts)) if hosts > 1 else ()
    return AgentCommand(
        sweep=sweep,
        hosts=hosts,
        argv=module_command("sweeper", "agent", "--sweep", sweep, *over),
        environment={
            DATABASE_VARIABLE: url,
            "PYTHONPATH": python_path(os.environ),
            PYTHONPATH_VARIABLE: os.environ.get("PYTHONPATH", ""),
        },
        logs=logs,
    )
