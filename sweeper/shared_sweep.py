"""Runs a sweep on other hosts: launcher=agents, slurm, ray."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from conf.schema import Config, HardwareConfig
from scalemark.host import software
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from store.sweeps.agents import num_completed_shared
from store.writer import Writer
from sweeper.agents.controller import Controller, ControllerTools
from sweeper.agents.fleet import Fleet
from sweeper.agents.shared_settings import shared_settings
from sweeper.devices.machine import describe_machine
from sweeper.errors import SweepRefusedError
from sweeper.launchers import agent_command, load
from sweeper.live.progress import Progress
from sweeper.planning.launcher_settings import doubts
from sweeper.planning.new_sweep import new_sweep
from sweeper.planning.plan import Plan
from sweeper.planning.plan_view import machine_line
from sweeper.planning.simulate import Estimate
from sweeper.program_software import Words, key_of_programs, words_of_programs
from sweeper.stop import Stop
from sweeper.way import Planned, make_run_folders

LOGS = "agents"  # a folder of the sweep's, for what agents write


class SharedSweep:
    """Plans a sweep, has agents run it, and reports; see `sweeper.local_sweep.LocalSweep`."""

    def __init__(self, config: Config, name: str) -> None:
        """Raises SweepRefusedError."""
        self.config, self._name = config, name
        for doubt in doubts(config):
            print(f"sweep: {doubt}", file=sys.stderr)
        self._launcher = load(config)
        self.inventory = self._launcher.check()
        # this host runs no trial
        self.machine = describe_machine(HardwareConfig(device_kind=DeviceKind.CPU_DEVICE))
        self._software_key = software.key(software.describe())
        self._programs: Words = ()

    def check(self, specs: Sequence[TrialSpec]) -> None:
        """Find the software of a user's programs, and whether hosts can be had for all trials.

        Raises SweepRefusedError.
        """
        if self.config.engine is Engine.command:
            self._programs = words_of_programs(specs)
            self._software_key = key_of_programs(self._programs)
        self._launcher.check_width(max((spec.hosts for spec in specs), default=1))

    def num_completed(
        self, engine: sa.Engine | None, specs: Sequence[TrialSpec]
    ) -> Mapping[str, int]:
        if engine is None:
            return {}
        launcher = self.config.launcher
        return num_completed_shared(
            engine,
            self._name,
            launcher.agents.pool,
            self._software_key,
            shares_host=launcher.share_host,
            trial_ids=[spec.trial_id for spec in specs],
        )

    def planned(self, plan: Plan, engine: sa.Engine | None) -> Planned:
        pool = self.config.launcher.agents.pool
        return Planned(plan=plan, estimate=Estimate.of_shared(engine, self._name, pool))

    def runner(
        self, planned: Planned, writer: Writer, stack: ExitStack, typed: Sequence[str]
    ) -> Controller:
        config, name = self.config, self._name
        runs_dir = str(Path(config.store.runs_dir).expanduser().resolve())
        sweep = new_sweep(config, name, planned.plan, self.machine, self._software_key, typed)
        settings = shared_settings(config, self.inventory, runs_dir, self._programs)
        ledger = writer.begin_shared_sweep(sweep, settings.to_json())
        folders = make_run_folders(runs_dir, ledger, self.machine, self._software_key)
        logs = folders.path / LOGS
        try:
            logs.mkdir(exist_ok=True)
        except OSError as error:
            ledger.end(datetime.now(UTC), finished=False)
            raise SweepRefusedError(
                f"{logs}: {error.strerror}; choose another folder with store.runs_dir="
            ) from error
        shown = machine_line(self.machine, self.inventory)
        progress = stack.enter_context(Progress(name, shown, self.inventory, planned.plan))
        fleet = Fleet(
            self._launcher,
            name,
            config.launcher.agents.num_hosts,
            lambda hosts: agent_command(name, config.store.url, hosts=hosts, logs=logs),
            progress.note,
        )
        tools = ControllerTools(
            ledger=ledger, fleet=fleet, progress=progress, stop=Stop(), runs_dir=folders.path
        )
        trials = {trial.spec.trial_id: trial for trial in planned.plan.trials}
        return Controller(tools, config.sweep, trials)
