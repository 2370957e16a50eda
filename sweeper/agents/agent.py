"""Joins a shared sweep from any host, and runs what fits this one until nothing is left: `python -m
sweeper agent`.
"""

from __future__ import annotations

import os
import platform
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from conf.schema import HardwareConfig
from scalemark.cli.entry_point import INTERRUPTED
from scalemark.host import software
from scalemark.host.processes import this_process
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind, Machine
from scalemark.text.untrusted import quoted
from store.database import file_of, open_for_reading
from store.errors import NoSweepError, StoreError
from store.sweeps.agents import settings_of
from store.sweeps.shared import SharedLedger
from store.sweeps.sweep_record import read_sweep
from store.writer import Writer
from sweeper.agents.same_code import Code, check_same
from sweeper.agents.shared_settings import REFUSED, SharedSettings
from sweeper.devices.host_lock import HostLock
from sweeper.devices.machine import describe_machine, take_inventory
from sweeper.devices.slots import Slots
from sweeper.errors import SweepRefusedError
from sweeper.launchers import HOSTS_VARIABLE, RANK_START_VARIABLE
from sweeper.live.progress import AgentLog
from sweeper.loop.orchestrator import Orchestrator
from sweeper.loop.source import LeasedSource
from sweeper.loop.tools import Policy, Ranks, Tools
from sweeper.planning.plan_view import machine_line
from sweeper.program_software import key_of_programs
from sweeper.running.run_folders import RunFolders
from sweeper.starts import STARTS
from sweeper.stop import Stop

# a folder that another host made just now may take a moment to be seen over a network
LOOK_FOR_FOLDER_S = 5.0
LOOK_AGAIN_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Joining:
    """The command line of an agent."""

    sweep: str
    url: str
    hosts: int  # that it runs over; it takes trials of as many
    wait_s: float  # for a sweep that has not begun


def run(asked: Joining) -> int:
    """Return the exit code: 0, also when trials failed; 128 and the signal's number when it was
    ended by one.

    Raises SweepRefusedError or StoreError for what it refuses, before it runs anything.
    """
    if file_of(asked.url):
        raise SweepRefusedError(
            "the database is a SQLite file, and hosts share a sweep by way of PostgreSQL; set --db "
            "or SCALEMARK_DB to the URL of the sweep's database, as postgresql://USER@HOST/NAME"
        )
    ranks = _ranks(asked.hosts, os.environ)
    settings = _settings(_wait_for_sweep(asked))
    with ExitStack() as stack:
        writer = Writer(asked.url)
        stack.callback(writer.close)
        machine, problem = _machine(settings)
        ledger = writer.join_sweep(
            asked.sweep,
            machine=machine,
            # Slurm's nodes may be several on one machine: people know them by these names
            process=replace(
                this_process(), host=os.environ.get("SLURMD_NODENAME") or platform.node()
            ),
            software_key=_software_key(settings),
            shares_host=settings.launcher.share_host,
        )
        try:
            if problem:
                raise problem
            orchestrator, stop = _orchestrator(asked, settings, ledger, machine, ranks, stack)
        except SweepRefusedError as error:
            ledger.tell(f"{REFUSED}{quoted(str(error))}")
            ledger.end(datetime.now(UTC), finished=False)
            raise
        orchestrator.run()
        return _conclude(orchestrator, stop, ledger)


def _wait_for_sweep(asked: Joining) -> dict[str, Any]:
    """Return its settings, once its command has begun it. Raises StoreError when it has not for
    long, and for other sweeps.
    """
    gives_up_s, was_said = time.monotonic() + asked.wait_s, False
    while True:
        try:
            return settings_of(open_for_reading(asked.url), asked.sweep)[1]
        except NoSweepError as error:
            if time.monotonic() >= gives_up_s:
                raise
            if not was_said:
                _print(f"{error}; waiting {asked.wait_s:g} s for its command (--wait)")
                was_said = True
        time.sleep(LOOK_AGAIN_EVERY_S)


def _print(text: str) -> None:
    print(f"agent {platform.node()}: {quoted(text)}", file=sys.stderr, flush=True)


def _settings(values: Mapping[str, Any]) -> SharedSettings:
    """Raises SweepRefusedError for what other code wrote."""
    try:
        return SharedSettings.from_json(values)
    except (KeyError, TypeError, AttributeError) as error:
        raise SweepRefusedError(
            f"the sweep's settings have no {error}, or it is not known here: they are of "
            "another version; use the sweep's"
        ) from error


def _software_key(settings: SharedSettings) -> str:
    """Enter the folder in which the sweep was started, and find the software that its trials have.

    Trials of programs cannot do without that folder. Raises SweepRefusedError.
    """
    is_of_programs = settings.engine is Engine.command
    try:
        os.chdir(settings.folder)
    except OSError as error:
        if is_of_programs:
            raise SweepRefusedError(
                f"{settings.folder}, where the sweep was started: {error.strerror} on "
                f"{platform.node()}; all hosts must have it at the same path, with the program"
            ) from error
    if is_of_programs:
        return key_of_programs(settings.programs)
    return software.key(software.describe())


def _ranks(hosts: int, variables: Mapping[str, str]) -> Ranks:
    """Read where the ranks of distributed trials run from what started this agent. Raises
    SweepRefusedError.
    """
    if hosts == 1:
        return Ranks()
    names = tuple(filter(None, variables.get(HOSTS_VARIABLE, "").split(",")))
    start = variables.get(RANK_START_VARIABLE, "")
    if hosts < 1 or len(names) != hosts or not start:
        raise SweepRefusedError(
            f"--hosts {hosts}: wanted the names of as many hosts in {HOSTS_VARIABLE}, and "
            f"{RANK_START_VARIABLE}; launcher=slurm and launcher=ray set both"
        )
    return Ranks(hosts=names, start=start)


def _machine(settings: SharedSettings) -> tuple[Machine, SweepRefusedError | None]:
    """Describe this host, and what is wrong with it, if NVML says so: an agent joins with that, so
    that others see it.
    """
    pool = settings.launcher.agents.pool or ""
    try:
        return replace(describe_machine(settings.hardware), pool=pool), None
    except SweepRefusedError as error:
        plain = HardwareConfig(device_kind=DeviceKind.CPU_DEVICE)
        return replace(describe_machine(plain), pool=pool), error


def _orchestrator(
    asked: Joining,
    settings: SharedSettings,
    ledger: SharedLedger,
    machine: Machine,
    ranks: Ranks,
    stack: ExitStack,
) -> tuple[Orchestrator, Stop]:
    """Make it with all that it needs; what must be closed is put on the stack. Raises
    SweepRefusedError.
    """
    problem = check_same(Code.here(), settings.code, platform.node())
    here = take_inventory(machine, settings.hardware)
    if here.num_devices < settings.num_devices:
        raise SweepRefusedError(
            f"{platform.node()} has {here.num_devices} usable {here.kind.plural}, and the sweep "
            f"was planned for {settings.num_devices} on each host; plan it again with "
            f"launcher.agents.gpus_per_host={here.num_devices}"
        )
    inventory = replace(here, num_hosts=asked.hosts)
    folders = _folders(settings, ledger, machine)
    if problem:
        _print(problem)
        ledger.tell(problem)
    launcher = settings.launcher
    start = STARTS[settings.engine][launcher.start.name]()
    stack.callback(start.close)
    progress = AgentLog(f"agent {platform.node()}")
    progress.note(f"joined sweep {asked.sweep}; {machine_line(machine, here)}")
    tools = Tools(
        source=LeasedSource(ledger, asked.hosts, progress.note),
        slots=Slots(inventory, share_host=launcher.share_host, max_parallel=launcher.max_parallel),
        host_lock=HostLock(),
        start=start,
        folders=folders,
        progress=progress,
        stop=Stop(),
    )
    policy = Policy(
        sweep=settings.sweep,
        launcher=launcher,
        retry=settings.retry,
        heartbeat_timeout_s=settings.lease_s,
        ranks=ranks,
    )
    return Orchestrator(tools, policy, inventory), tools.stop


def _folders(settings: SharedSettings, ledger: SharedLedger, machine: Machine) -> RunFolders:
    """Find the sweep's, where its controller made them. Raises SweepRefusedError when they cannot
    be seen from here.
    """
    sweep = read_sweep(ledger.engine, ledger.sweep_id)
    key = ledger.settings["software_key"]  # of this agent, too: else it could not join
    gives_up_s = time.monotonic() + LOOK_FOR_FOLDER_S
    while True:
        try:
            return RunFolders(Path(settings.runs_dir), sweep, machine, key, joins=True)
        except SweepRefusedError:
            if time.monotonic() > gives_up_s:
                raise
        time.sleep(LOOK_AGAIN_EVERY_S)


def _conclude(orchestrator: Orchestrator, stop: Stop, ledger: SharedLedger) -> int:
    """Say how it ended, to who started it and in the database."""
    ran = orchestrator.ran
    parts = [f"{count} {state}" for state, count in sorted(ran.states.items())]
    if ran.num_retries:
        parts.append(f"{ran.num_retries} to be tried again")
    _print(", ".join(parts) or "nothing run")
    if orchestrator.failure:
        _tell(ledger, str(orchestrator.failure))
        raise orchestrator.failure
    if not orchestrator.was_interrupted:
        return 0
    if stop.last_signal is None:
        return INTERRUPTED
    _tell(ledger, f"it was sent {signal.Signals(stop.last_signal).name}")
    return 128 + stop.last_signal


def _tell(ledger: SharedLedger, note: str) -> None:
    """Leave a note, if the database can be reached: it may be what is wrong."""
    try:
        ledger.tell(quoted(note))
    except StoreError as error:
        _print(str(error))
