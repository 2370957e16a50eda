"""Runs one sweep: plans it, hands it to the orchestrator, and reports how it ended."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from conf.schema import Config
from store import queries, software
from store.database import check_writable, file_of, open_existing
from store.filesystem import without_reliable_locks
from store.ledger import Ledger
from store.records import Machine, State
from store.redact import command_line, without_secrets
from store.sweep_record import read_sweep
from store.terminal import make_console, silence
from store.writer import NewSweep, Writer
from sweeper.compose import Composer
from sweeper.errors import SweepRefusedError
from sweeper.estimate import Estimate
from sweeper.expand import Cell
from sweeper.host_lock import HostLock
from sweeper.machine import Inventory, describe_machine, take_inventory
from sweeper.orchestrator import Orchestrator, Policy, Tools
from sweeper.plan import Plan, make_plan, resolve_grid
from sweeper.plan_view import machine_line, plan_json, print_plan
from sweeper.process_identity import is_alive, this_process
from sweeper.progress import Progress
from sweeper.recover import recover
from sweeper.run_folders import RunFolders
from sweeper.settings import check
from sweeper.slots import Slots
from sweeper.starts import START
from sweeper.stop import Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a sweep ended."""

    name: str
    store_url: str
    figures_dir: Path
    states: Counter[State]  # of repeats, the last of each
    num_retries: int  # attempts beyond the first of a repeat
    num_finished_earlier: int  # trials that needed no attempt, and repeats that another sweep completed meanwhile
    num_not_started: int  # repeats that a stop left over
    interrupted: bool
    failures: list[str]  # a line for each repeat that did not complete: what it was, why, and where its log is
    failure: str | None  # why results could no longer be written; what ran then is in its run folders
    notify: str | None  # what to run in the end

    @property
    def summary(self) -> str:
        """One line."""
        parts = [f"{count} {state}" for state, count in sorted(self.states.items())]
        told = {
            "tried again": self.num_retries,
            "not started": self.num_not_started,
            "finished earlier": self.num_finished_earlier,
        }
        return ", ".join([*parts, *(f"{count} {what}" for what, count in told.items() if count)]) or "nothing to run"


def run(cells: Sequence[Cell], composer: Composer) -> Report | None:
    """Plan and run a sweep; None when the plan was all that was asked for.

    Raises SweepRefusedError or StoreError before anything runs.
    """
    config = composer.base
    name = check(config)
    machine = describe_machine(config.hardware)
    inventory = take_inventory(machine, config.hardware)
    specs, left_out = resolve_grid(cells, composer.compose, inventory, config.sweep)
    software_key = software.key(software.describe())
    if config.sweep.dry_run:
        check_writable(config.store.url)
        engine = open_existing(config.store.url)
        done = _num_completed(engine, machine.key, software_key, config) if engine else {}
        _print_plan(config, make_plan(specs, left_out, config.sweep, done), machine, inventory, Estimate.of(engine, machine.key))
        return None
    with ExitStack() as stack:
        writer = _open(config.store.url)
        stack.callback(writer.close)
        plan = make_plan(specs, left_out, config.sweep, _num_completed(writer.engine, machine.key, software_key, config))
        estimate = Estimate.of(writer.engine, machine.key)
        try:
            print_plan(make_console(stderr=True), plan, machine, inventory, estimate)
        except OSError:  # nobody reads it: the results are what counts
            silence(sys.stderr)
        orchestrator = _orchestrator(config, name, plan, machine, inventory, software_key, estimate, writer, stack)
        orchestrator.run()
    return Report(
        name=name,
        store_url=config.store.url,
        figures_dir=Path(config.store.figures_dir),
        states=orchestrator.states,
        num_retries=orchestrator.num_retries,
        num_finished_earlier=sum(trial.num_repeats == 0 for trial in plan.trials) + orchestrator.num_finished_elsewhere,
        num_not_started=orchestrator.num_left,
        interrupted=orchestrator.was_interrupted,
        failures=orchestrator.failures,
        failure=str(orchestrator.failure) if orchestrator.failure else None,
        notify=config.sweep.notify,
    )


def _num_completed(engine: sa.Engine, machine_key: str, software_key: str, config: Config) -> dict[str, int]:
    return queries.num_completed(engine, machine_key, software_key, shares_host=config.launcher.share_host)


def _print_plan(config: Config, plan: Plan, machine: Machine, inventory: Inventory, estimate: Estimate) -> None:
    """Here the plan is the answer: on stdout."""
    if config.sweep.plan_format.name == "json":
        print(plan_json(plan, machine, estimate))
    else:
        print_plan(make_console(), plan, machine, inventory, estimate)


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
        print(f"sweep: {recovered}", file=sys.stderr)
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
) -> Orchestrator:
    """With everything it needs; what must be closed is put on the stack."""
    launcher = config.launcher
    slots = Slots(inventory, share_host=launcher.share_host, max_parallel=launcher.max_parallel)
    sweep = NewSweep(
        name=name,
        reason=without_secrets(config.sweep.reason),
        command=command_line(sys.argv),
        started_at=datetime.now(UTC),
        trials=[trial.spec for trial in plan.trials],
        num_repeats={trial.spec.trial_id: trial.num_repeats for trial in plan.trials},
        left_out=plan.left_out,
        wanted_repeats=config.sweep.repeats,
        rerun=config.sweep.rerun,
        machine=machine,
        software_key=software_key,
        shares_host=launcher.share_host,
        process=this_process(),
    )
    host_lock = HostLock()
    ledger = writer.begin_sweep(sweep, is_alive)
    folders = _run_folders(config, writer, ledger, sweep)
    start = START[launcher.start.name]()
    stack.callback(start.close)
    tools = Tools(
        ledger=ledger,
        slots=slots,
        host_lock=host_lock,
        start=start,
        folders=folders,
        progress=stack.enter_context(Progress(name, machine_line(machine, inventory), inventory, plan)),
        stop=Stop(),
    )
    policy = Policy(sweep=config.sweep, launcher=launcher, retry=config.retry)
    return Orchestrator(tools, policy, inventory, plan.trials, estimate.expected_s)


def _run_folders(config: Config, writer: Writer, ledger: Ledger, sweep: NewSweep) -> RunFolders:
    """Of the sweep as the database has it: one that is continued keeps its beginning. Raises SweepRefusedError."""
    try:
        runs_dir = Path(config.store.runs_dir).expanduser().resolve()
        return RunFolders(runs_dir, read_sweep(writer.engine, ledger.sweep_id), sweep.machine, sweep.software_key)
    except SweepRefusedError:
        ledger.end(datetime.now(UTC), finished=False)
        raise
