"""Runs one sweep: plans it, hands it to the orchestrator, and reports how it ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from conf.schema import Config, Engine
from scalemark.cli.terminal import make_console, silence
from scalemark.host import software
from scalemark.host.filesystem import without_reliable_locks
from scalemark.host.process_identity import is_alive
from scalemark.records.devices import DeviceKind
from scalemark.records.machine import Machine
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import quoted
from store.database import check_writable, file_of, open_existing
from store.reading import queries
from store.sweeps.ledger import Ledger
from store.sweeps.sweep_record import read_sweep
from store.writer import NewSweep, Writer
from sweeper import sweep_shared
from sweeper.devices import simulated_box
from sweeper.devices.host_lock import HostLock, NoHostLock
from sweeper.devices.machine import Inventory, describe_machine, take_inventory
from sweeper.devices.slots import Slots
from sweeper.errors import SweepRefusedError
from sweeper.grid.compose import Composer
from sweeper.grid.expand import Cell
from sweeper.launchers import SHARED
from sweeper.loop.orchestrator import Orchestrator
from sweeper.loop.policy import Policy
from sweeper.loop.source import OwnSource
from sweeper.loop.tools import Tools
from sweeper.planning.estimate import Estimate
from sweeper.planning.new_sweep import new_sweep
from sweeper.planning.plan import Plan, make_plan, resolve_grid
from sweeper.planning.plan_view import machine_line, plan_json, print_plan
from sweeper.planning.settings import check
from sweeper.progress import Progress
from sweeper.race.planned import PlannedRaces, with_races
from sweeper.race.races import sort_into_races
from sweeper.race.tally import Tally, results_in
from sweeper.report import Report
from sweeper.running.recover import recover
from sweeper.running.run_folders import RunFolders
from sweeper.starts import START, START_SIMULATOR
from sweeper.stop import Stop


def run(cells: Sequence[Cell], composer: Composer) -> Report | None:
    """Plan and run a sweep; None when the plan was all that was asked for.

    Raises SweepRefusedError or StoreError before anything runs.
    """
    config = composer.base
    name = check(config)
    if config.launcher.name in SHARED:
        return sweep_shared.run(cells, composer, name)
    machine, inventory = _devices(config)
    specs, left_out = resolve_grid(cells, composer.compose, inventory, config.sweep)
    software_key = software.key(software.describe())
    if config.sweep.dry_run:
        check_writable(config.store.url)
        engine = open_existing(config.store.url)
        plan, races, _ = _plan(config, specs, left_out, engine, machine.key, software_key)
        _print_plan(config, plan, machine, inventory, Estimate.of(engine, machine.key), races)
        return None
    with ExitStack() as stack:
        writer = _open(config.store.url)
        stack.callback(writer.close)
        plan, races, tally = _plan(
            config, specs, left_out, writer.engine, machine.key, software_key
        )
        estimate = Estimate.of(writer.engine, machine.key)
        try:
            print_plan(make_console(stderr=True), plan, machine, inventory, estimate, races)
        except OSError:  # nobody reads it: the results are what counts
            silence(sys.stderr)
        orchestrator = _orchestrator(
            config, name, plan, machine, inventory, software_key, estimate, writer, stack, tally
        )
        orchestrator.run()
        if orchestrator.failure is None:
            writer.settle()
    return Report(
        name=name,
        store_url=config.store.url,
        figures_dir=Path(config.store.figures_dir),
        is_simulated=inventory.kind is DeviceKind.SIMULATED_GPU,
        states=orchestrator.totals.states,
        num_retries=orchestrator.totals.num_retries,
        num_finished_earlier=sum(trial.num_repeats == 0 for trial in plan.trials)
        + orchestrator.totals.num_finished_elsewhere,
        num_not_started=orchestrator.num_left,
        num_running=0,
        interrupted=orchestrator.was_interrupted,
        saved=orchestrator.saved,
        device=inventory.kind.singular,
        failures=orchestrator.totals.failures,
        failure=str(orchestrator.failure) if orchestrator.failure else None,
        notify=config.sweep.notify,
    )


def _devices(config: Config) -> tuple[Machine, Inventory]:
    """Of this machine, or of a profile. Raises SweepRefusedError."""
    if config.engine is Engine.simulated:
        machine = simulated_box.machine_of(simulated_box.hardware_of(config.hardware))
        return machine, simulated_box.inventory_of(machine)
    machine = describe_machine(config.hardware)
    return machine, take_inventory(machine, config.hardware)


def _plan(
    config: Config,
    specs: Sequence[TrialSpec],
    left_out: Sequence[tuple[str, str]],
    engine: sa.Engine | None,
    machine_key: str,
    software_key: str,
) -> tuple[Plan, PlannedRaces | None, Tally | None]:
    """With its races and what their contenders have shown, when the sweep races. No `engine`:
    nothing was completed.
    """
    sweep, shares_host = config.sweep, config.launcher.share_host
    done = (
        queries.num_completed(engine, machine_key, software_key, shares_host=shares_host)
        if engine
        else {}
    )
    plan = make_plan(specs, left_out, sweep, done)
    if not sweep.race:
        return plan, None, None
    read = results_in(engine, machine_key, software_key, shares_host=shares_host, rerun=sweep.rerun)
    tally = Tally(sort_into_races(specs, sweep.race_over), sweep.repeats, read)
    return *with_races(plan, tally, sweep.race_over), tally


def _print_plan(
    config: Config,
    plan: Plan,
    machine: Machine,
    inventory: Inventory,
    estimate: Estimate,
    races: PlannedRaces | None,
) -> None:
    """Here the plan is the answer: on stdout."""
    if config.sweep.plan_format.name == "json":
        print(plan_json(plan, machine, estimate, races))
    else:
        print_plan(make_console(), plan, machine, inventory, estimate, races)


def _open(url: str) -> Writer:
    """The database, with what killed orchestrators left in it recorded."""
    path = file_of(url)
    if path and (kind := without_reliable_locks(path)):
        print(
            f"sweep: {path} is on a file system ({kind}) where SQLite's locks may not reach every host: use the database "
            "from one host only, or choose a local disk with store.url=FILE",
            file=sys.stderr,
        )
    writer = Writer(url)
    if recovered := recover(writer.engine):
        print(f"sweep: {quoted(str(recovered))}", file=sys.stderr)
    return writer


def _orchestrator(
    config: Config,
    name: str,
    plan: Plan,
    machine: Machine,
    inventory: Inventory,
    software_key: str,
    estimate: Estimate,
    writer: Writer,
    stack: ExitStack,
    tally: Tally | None,
) -> Orchestrator:
    """With everything it needs; what must be closed is put on the stack."""
    launcher = config.launcher
    slots = Slots(inventory, share_host=launcher.share_host, max_parallel=launcher.max_parallel)
    sweep = new_sweep(config, name, plan, machine, software_key)
    simulates = inventory.kind is DeviceKind.SIMULATED_GPU
    host_lock = NoHostLock() if simulates else HostLock()
    ledger = writer.begin_sweep(sweep, is_alive)
    folders = _run_folders(config, writer, ledger, sweep)
    start = (START_SIMULATOR if simulates else START)[launcher.start.name]()
    stack.callback(start.close)
    tools = Tools(
        source=OwnSource(ledger),
        slots=slots,
        host_lock=host_lock,
        start=start,
        folders=folders,
        progress=stack.enter_context(
            Progress(name, machine_line(machine, inventory), inventory, plan)
        ),
        stop=Stop(),
    )
    policy = Policy(sweep=config.sweep, launcher=launcher, retry=config.retry)
    return Orchestrator(tools, policy, inventory, plan.trials, estimate.expected_s, tally)


def _run_folders(config: Config, writer: Writer, ledger: Ledger, sweep: NewSweep) -> RunFolders:
    """Of the sweep as the database has it: one that is continued keeps its beginning. Raises
    SweepRefusedError.
    """
    try:
        runs_dir = Path(config.store.runs_dir).expanduser().resolve()
        return RunFolders(
            runs_dir, read_sweep(writer.engine, ledger.sweep_id), sweep.machine, sweep.software_key
        )
    except SweepRefusedError:
        ledger.end(datetime.now(UTC), finished=False)
        raise
