"""Plans a sweep for other hosts, hands it to its controller, and reports how it ended:
launcher=agents, slurm, ray.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from conf.schema import Config, HardwareConfig
from scalemark.cli.terminal import make_console, silence
from scalemark.host import software
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Machine
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import quoted
from store.database import check_writable, open_existing
from store.sweeps.agents import num_completed_shared
from store.sweeps.sweep_record import read_sweep
from store.writer import Writer
from sweeper.agents.controller import Controller, ControllerTools
from sweeper.agents.fleet import Fleet
from sweeper.agents.shared_settings import shared_settings
from sweeper.devices.machine import Inventory, describe_machine
from sweeper.errors import SweepRefusedError
from sweeper.grid.compose import Composer
from sweeper.grid.expand import Cell
from sweeper.launchers import HostLauncher, agent_command, load
from sweeper.launchers.settings import doubts
from sweeper.planning.estimate import Estimate
from sweeper.planning.new_sweep import new_sweep
from sweeper.planning.plan import Plan, make_plan, resolve_grid
from sweeper.planning.plan_view import machine_line, plan_json, print_plan
from sweeper.progress import Progress
from sweeper.race.tally import Saved
from sweeper.report import Report
from sweeper.running.recover import recover
from sweeper.running.run_folders import RunFolders
from sweeper.stop import Stop

LOGS = "agents"  # a folder of the sweep's, for what agents write


def run(cells: Sequence[Cell], composer: Composer, name: str) -> Report | None:
    """As `sweeper.sweep.run`, whose checks are done."""
    config = composer.base
    for doubt in doubts(config):
        print(f"sweep: {doubt}", file=sys.stderr)
    launcher = load(config)
    inventory = launcher.check()
    # of this host, which runs no trial
    machine = describe_machine(HardwareConfig(device_kind=DeviceKind.CPU_STAND_IN))
    specs, left_out = resolve_grid(cells, composer.compose, inventory, config.sweep)
    launcher.check_width(max((spec.hosts for spec in specs), default=1))
    software_key = software.key(software.describe())
    if config.sweep.dry_run:
        check_writable(config.store.url)
        engine = open_existing(config.store.url)
        plan = _plan(config, name, specs, left_out, engine, software_key)
        _print_plan(config, plan, machine, inventory, _estimate(config, name, engine))
        return None
    with ExitStack() as stack:
        writer = Writer(config.store.url)
        stack.callback(writer.close)
        if recovered := recover(writer.engine):
            print(f"sweep: {quoted(str(recovered))}", file=sys.stderr)
        plan = _plan(config, name, specs, left_out, writer.engine, software_key)
        try:
            print_plan(
                make_console(stderr=True),
                plan,
                machine,
                inventory,
                _estimate(config, name, writer.engine),
            )
        except OSError:  # nobody reads it: the results are what counts
            silence(sys.stderr)
        controller = _controller(
            config, name, plan, machine, inventory, software_key, writer, launcher, stack
        )
        controller.run()
    return Report(
        name=name,
        store_url=config.store.url,
        figures_dir=Path(config.store.figures_dir),
        is_simulated=False,
        states=controller.states,
        num_retries=controller.num_retries,
        num_finished_earlier=sum(trial.num_repeats == 0 for trial in plan.trials),
        num_not_started=controller.num_not_started,
        num_running=controller.num_running,
        interrupted=controller.was_interrupted,
        saved=Saved(),
        device=inventory.kind.singular,
        failures=controller.failures,
        failure=str(controller.failure) if controller.failure else None,
        notify=config.sweep.notify,
    )


def _plan(
    config: Config,
    name: str,
    specs: Sequence[TrialSpec],
    left_out: Sequence[tuple[str, str]],
    engine: sa.Engine | None,
    software_key: str,
) -> Plan:
    """No `engine`: nothing was completed."""
    launcher = config.launcher
    done = (
        num_completed_shared(
            engine,
            name,
            launcher.agents.pool,
            software_key,
            shares_host=launcher.share_host,
            trial_ids=[spec.trial_id for spec in specs],
        )
        if engine
        else {}
    )
    return make_plan(specs, left_out, config.sweep, done)


def _estimate(config: Config, name: str, engine: sa.Engine | None) -> Estimate:
    return Estimate.of_shared(engine, name, config.launcher.agents.pool)


def _print_plan(
    config: Config, plan: Plan, machine: Machine, inventory: Inventory, estimate: Estimate
) -> None:
    """Here the plan is the answer: on stdout."""
    if config.sweep.plan_format.name == "json":
        print(plan_json(plan, machine, estimate))
    else:
        print_plan(make_console(), plan, machine, inventory, estimate)


def _controller(
    config: Config,
    name: str,
    plan: Plan,
    machine: Machine,
    inventory: Inventory,
    software_key: str,
    writer: Writer,
    launcher: HostLauncher,
    stack: ExitStack,
) -> Controller:
    """With everything it needs; what must be closed is put on the stack. Raises
    SweepRefusedError.
    """
    runs_dir = Path(config.store.runs_dir).expanduser().resolve()
    sweep = new_sweep(config, name, plan, machine, software_key)
    ledger = writer.begin_shared_sweep(
        sweep, shared_settings(config, inventory, str(runs_dir)).to_json()
    )
    try:
        folders = RunFolders(
            runs_dir, read_sweep(writer.engine, ledger.sweep_id), machine, software_key
        )
        logs = folders.path / LOGS
        _make(logs)
    except SweepRefusedError:
        ledger.end(datetime.now(UTC), finished=False)
        raise
    progress = stack.enter_context(
        Progress(name, machine_line(machine, inventory), inventory, plan)
    )
    fleet = Fleet(
        launcher,
        name,
        config.launcher.agents.num_hosts,
        lambda hosts: agent_command(name, config.store.url, hosts=hosts, logs=logs),
        progress.note,
    )
    tools = ControllerTools(
        ledger=ledger, fleet=fleet, progress=progress, stop=Stop(), runs_dir=folders.path
    )
    trials = {trial.spec.trial_id: trial for trial in plan.trials}
    return Controller(tools, config.sweep, trials, inventory.num_devices)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise SweepRefusedError(
            f"{folder}: {error.strerror}; choose another folder with store.runs_dir="
        ) from error
