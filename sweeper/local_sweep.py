"""Plans a sweep and makes what runs it, on whatever its launcher has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from conf.schema import Config
from scalemark.host import software
from scalemark.host.processes import is_alive, this_process
from scalemark.records.axes import Engine
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import storable
from scalemark.text.untrusted import command_line, without_secrets
from store.ledger import Ledger
from store.reading import earlier
from store.writer import NewSweep, Writer, read_sweep
from sweeper import launchers
from sweeper.devices.gpu_users import GpuInUse, GpuUsers
from sweeper.early_stopping.races import make_races, results_in, with_races
from sweeper.errors import SweepRefusedError
from sweeper.live.progress import Progress
from sweeper.loop.orchestrator import Orchestrator
from sweeper.loop.stopping import Stop
from sweeper.loop.tools import Policy, Tools
from sweeper.planning.plan import Plan
from sweeper.planning.plan_view import Planned, machine_line
from sweeper.planning.simulate import Estimate
from sweeper.program_software import check_programs, describe_programs, words_of_programs
from sweeper.running.recover import recover
from sweeper.running.run_folders import RunFolders


class LocalSweep:
    """Plans and runs a sweep."""

    def __init__(self, config: Config, name: str) -> None:
        """Raises SweepRefusedError."""
        self.config, self._name = config, name
        self._launcher = launchers.load(config, name)
        self.machine, self.inventory = self._launcher.machine, self._launcher.inventory
        self.software = self._launcher.software

    @property
    def software_key(self) -> str:
        return software.key(self.software)

    def check(self, specs: Sequence[TrialSpec]) -> None:
        """Find a user's programs and their software; resolving the grid refused what does not fit
        here. Raises SweepRefusedError.
        """
        if self.config.engine is Engine.command and specs:
            check_programs(specs)
            self.software = describe_programs(words_of_programs(specs))

    def num_completed(
        self, engine: sa.Engine | None, specs: Sequence[TrialSpec]
    ) -> Mapping[str, int]:
        """Return trial id -> repeats that need not be run again."""
        if engine is None:
            return {}
        shares_host = self.config.launcher.share_host
        return earlier.num_completed(
            engine, self.machine.key, self.software_key, shares_host=shares_host
        )

    def planned(self, plan: Plan, engine: sa.Engine | None) -> Planned:
        sweep, estimate = self.config.sweep, Estimate.of(engine, self.machine.key)
        in_use: Sequence[GpuInUse] = ()
        if not self.inventory.num_hosts:
            in_use = GpuUsers(self.inventory, self.config.launcher.in_use_from_mib).look()
        if not sweep.race:
            return Planned(
                plan=plan,
                estimate=estimate,
                in_use=in_use,
                num_of_other_software=self._num_of_other_software(plan, engine),
            )
        read = results_in(
            engine,
            self.machine.key,
            self.software_key,
            shares_host=self.config.launcher.share_host,
            rerun=sweep.rerun,
        )
        contests = make_races(plan.specs, sweep.race_over, sweep.repeats, read)
        raced, races = with_races(plan, contests)
        return Planned(plan=raced, estimate=estimate, races=races, contests=contests, in_use=in_use)

    def _num_of_other_software(self, plan: Plan, engine: sa.Engine | None) -> int:
        if engine is None or self.config.sweep.rerun:
            return 0
        of_others = earlier.num_completed(
            engine, self.machine.key, self.software_key, of_others=True
        )
        waiting = {trial.spec.trial_id for trial in plan.trials if trial.num_repeats}
        return len(waiting & of_others.keys())

    def runner(
        self, planned: Planned, writer: Writer, stack: ExitStack, command: Sequence[str]
    ) -> Orchestrator:
        """Write the sweep down, and return what runs it; what must be closed is put on the stack.
        Raises SweepRefusedError.
        """
        config, launcher = self.config, self.config.launcher
        ledger = writer.begin_sweep(self._new_sweep(planned.plan, command), is_alive)
        folders = self._run_folders(ledger)
        start = self._launcher.start()
        stack.callback(start.close)
        shown = machine_line(self.machine, self.inventory)
        progress = Progress(self._name, shown, self.inventory, planned.plan)
        tools = Tools(
            ledger=ledger,
            recover=partial(recover, ledger.engine),
            slots=self._launcher.slots(),
            host_lock=self._launcher.host_lock(),
            start=start,
            folders=folders,
            progress=stack.enter_context(progress),
            stop=Stop(),
        )
        policy = Policy(sweep=config.sweep, launcher=launcher, retry=config.retry)
        trials, expected_s = planned.plan.trials, planned.estimate.expected_s
        return Orchestrator(tools, policy, self.inventory, trials, expected_s, planned.contests)

    def _new_sweep(self, plan: Plan, command: Sequence[str]) -> NewSweep:
        """Describe for the database the sweep that this process begins now."""
        sweep = self.config.sweep
        return NewSweep(
            name=self._name,
            reason=storable(without_secrets(sweep.reason)),
            command=storable(command_line(command)),
            started_at=datetime.now(UTC),
            trials=plan.specs,
            num_repeats={trial.spec.trial_id: trial.num_repeats for trial in plan.trials},
            left_out=plan.left_out,
            wanted_repeats=sweep.repeats,
            rerun=sweep.rerun,
            machine=self.machine,
            software_key=self.software_key,
            shares_host=self.config.launcher.share_host,
            process=this_process(),
        )

    def _run_folders(self, ledger: Ledger) -> RunFolders:
        """Make them for the sweep as the database has it: one that is continued keeps its
        beginning. Raises SweepRefusedError.
        """
        try:
            path = Path(self.config.store.runs_dir).expanduser().resolve()
            record = read_sweep(ledger.engine, ledger.sweep_id)
            return RunFolders(path, record, self.machine, self.software_key)
        except SweepRefusedError:
            ledger.end(datetime.now(UTC), finished=False)
            raise
