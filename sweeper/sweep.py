"""Runs one sweep: plans it, hands it to what runs it, and reports how it ended."""

import copy
import math
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from rich.console import Console

from conf.schema import Config, PlanFormat, SweepConfig
from scalemark.cli.terminal import make_console, silence
from scalemark.host import files, processes, program_software, software
from scalemark.host.orphans import Guard
from scalemark.program import template
from scalemark.records.axes import Engine
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import storable
from scalemark.text.untrusted import command_line, quoted
from scalemark.text.wording import counted
from store.database import check_writable, file_of, open_existing, reading
from store.errors import StoreError
from store.reading import earlier
from store.rebuild import BEING_RUN
from store.tables import refuse_other_readings
from store.writer import NewSweep, Writer, read_sweep
from sweeper import SweepRefusedError, launchers
from sweeper.devices.nvml import GpuUsers
from sweeper.early_stopping.budget import read_budget
from sweeper.early_stopping.contests import Race, make_races, results_in, without_decided
from sweeper.early_stopping.fastest import (
    BudgetedRace,
    BudgetedRound,
    conclusions,
    make_searches,
)
from sweeper.grid.compose import Grid
from sweeper.grid.from_trial import Taken
from sweeper.grid.plan import Plan, check, check_folders, make_plan, resolve_grid
from sweeper.grid.plan_view import Estimate, Planned, machine_line, plan_json, print_plan
from sweeper.grid.search import resolve_searches, split
from sweeper.largest import Searching
from sweeper.live.progress import Progress
from sweeper.loop.orchestrator import Orchestrator
from sweeper.loop.run_folders import RunFolders, recover, take_up_lost
from sweeper.loop.supervision import Policy, Stop, Tools
from sweeper.report import Report


class Sweep:
    """Plans a sweep, and makes what runs it, on whatever its launcher has."""

    def __init__(self, config: Config, name: str) -> None:
        """Raises SweepRefusedError."""
        try:
            os.close(os.pidfd_open(os.getpid()))
        except OSError as error:
            raise SweepRefusedError(
                f"pidfd_open: {error.strerror}; trials are watched by it, which needs Linux 5.3 or "
                f"newer (here {platform.release()}), and a container that allows it"
            ) from error
        self.config, self.name = config, name
        self.reason = ""  # why `judge` runs it, for the record
        self.budget = read_budget(config.sweep.budget)  # of rounds and of what comes after them
        self._is_round = False
        self._launcher = launchers.load(config, name)
        self.machine, self.inventory = self._launcher.machine, self._launcher.inventory
        self._software = self._launcher.software

    @property
    def software_key(self) -> str:
        return software.key(self._software)

    def of(self, settings: SweepConfig, *, is_round: bool) -> "Sweep":
        """Return the same with other settings: a round of a search, or what comes after it."""
        other = copy.copy(self)
        other._is_round = is_round
        other.config = replace(self.config, sweep=settings)
        other.name = settings.name or self.name
        return other

    @property
    def where(self) -> earlier.Where:
        """Say what must be equal for results to answer a search of this sweep."""
        memory_gib = self.config.launcher.host_memory_gib
        return earlier.Where(
            machine_key=self.machine.key,
            software_key=self.software_key,
            shares_host=self.config.launcher.share_host,
            host_memory_bytes=round(memory_gib * 2**30) if memory_gib else None,
        )

    def check(self, specs: Sequence[TrialSpec]) -> None:
        """Take the software of a user's programs for the sweep's; resolving the grid refused what
        does not fit. Raises SweepRefusedError.
        """
        if self.config.engine is Engine.command and specs:
            self._software = self.software_of(specs)

    def software_of(self, specs: Sequence[TrialSpec]) -> Mapping[str, Any]:
        """Find a user's programs, and what is not known of them. Raises SweepRefusedError."""
        described, doubts = self._launcher.software_of(launchers.programs_of(specs))
        for doubt in doubts:
            print(f"sweep: {doubt}", file=sys.stderr)
        return described

    def plan(
        self,
        specs: Sequence[TrialSpec],
        left_out: Sequence[tuple[str, str]],
        engine: sa.Engine | None,
    ) -> Planned:
        """Plan what is still to run, by what the database has; None: there is none yet.

        Raises StoreError for trials with numbers that were read another way.
        """
        settings, shares_host = self.config.sweep, self.config.launcher.share_host
        key, software_key = self.machine.key, self.software_key
        num_completed = {}
        if engine is not None:
            with reading(engine) as connection:
                refuse_other_readings(connection, specs)
            num_completed = earlier.num_completed(
                engine, key, software_key, shares_host=shares_host
            )
        plan = make_plan(specs, left_out, settings, num_completed)
        races: Sequence[Race] = []
        budget, estimate = self.budget, Estimate.of(engine, key)
        if budget:
            num, rerun = settings.repeats, settings.rerun
            read = results_in(engine, key, software_key, shares_host=shares_host, rerun=rerun)
            if not budget.is_endless:
                kind = BudgetedRound if self._is_round else BudgetedRace
                races = make_searches(specs, num, read, budget, estimate.expected_s, kind)
            elif not self._is_round:
                races = make_races(specs, num, read)
            plan = without_decided(plan, races)
        waiting = [trial.spec.trial_id for trial in plan.trials if trial.num_repeats]
        with_others: list[str] = []
        changed: list[str] = []
        if engine is not None and not settings.rerun and not settings.budget:
            others = earlier.num_completed(engine, key, software_key, of_others=True)
            with_others = sorted(others.keys() & set(waiting))
            if with_others:
                before = earlier.last_software(engine, with_others[0], key, software_key)
                changed = software.differences(before, self._software)
                if software.CODE_DIFFERS in changed:
                    words = template.software_words(specs[0])
                    commit = before["program"].get("commit") or ""
                    changed += program_software.edited_since(words, Path.cwd(), commit)
        return Planned(
            plan=plan,
            estimate=estimate,
            budget=budget,
            contests=races,
            in_use=GpuUsers(self.inventory.gpu_uuids).look(),
            num_of_other_software=len(with_others),
            changed=changed,
        )

    def runner(
        self, planned: Planned, writer: Writer, stack: ExitStack, command: Sequence[str]
    ) -> Orchestrator:
        """Write the sweep down, and return what runs it; what must be closed is put on the stack.
        Raises SweepRefusedError.
        """
        ledger = writer.begin_sweep(self._new_sweep(planned.plan, command), processes.is_alive)
        try:  # a sweep that is continued keeps its beginning
            record = read_sweep(ledger.engine, ledger.sweep_id)
            runs_dir = Path(self.config.store.runs_dir).expanduser().resolve()
            folders = RunFolders(runs_dir, record, self.machine, self.software_key)
        except SweepRefusedError:
            ledger.end(datetime.now(UTC), finished=False)
            raise
        stack.callback(Guard().close)
        start = self._launcher.start()
        stack.callback(start.close)
        shown = machine_line(self.machine, self.inventory)
        progress = Progress(self.name, shown, self.inventory, planned.plan)
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
        policy = Policy(launcher=self.config.launcher)
        trials, expected_s = planned.plan.trials, planned.estimate.expected_s
        most_left_s = planned.budget.left if planned.budget else lambda: math.inf
        return Orchestrator(
            tools, policy, self.inventory, trials, expected_s, planned.contests, most_left_s
        )

    def _new_sweep(self, plan: Plan, command: Sequence[str]) -> NewSweep:
        """Describe for the database the sweep that this process begins now."""
        settings = self.config.sweep
        return NewSweep(
            name=self.name,
            reason=self.reason,
            command=storable(command_line(command)),
            started_at=datetime.now(UTC),
            trials=plan.specs,
            num_repeats={trial.spec.trial_id: trial.num_repeats for trial in plan.trials},
            left_out=plan.left_out,
            wanted_repeats=settings.repeats,
            rerun=settings.rerun,
            machine=self.machine,
            software_key=self.software_key,
            shares_host=self.config.launcher.share_host,
            process=processes.this_process(),
        )


def run(grid: Grid, typed: Sequence[str], taken: Taken | None = None) -> Report | None:
    """Plan and run a sweep; None when the plan was all that was asked for, and can be run.

    `typed` are the arguments of the command, which the database keeps, and `taken` is what an
    earlier trial gave. Raises SweepRefusedError or StoreError before anything runs, but after a
    plan that was asked for is printed.
    """
    config = grid.composer.base
    name = check(config)
    if not config.sweep.dry_run:
        check_folders(config.store)
    known, searched = split(grid.cells, config.sweep)
    sweep = Sweep(config, name)
    compose, inventory = grid.composer.compose, sweep.inventory
    specs: list[TrialSpec] = []
    left_out: list[tuple[str, str]] = []
    if known or not searched:
        specs, left_out = resolve_grid(known, compose, inventory, config.sweep)
    searches, more_left_out = resolve_searches(searched, compose, inventory, config.sweep)
    left_out += more_left_out
    every = [spec for search in searches for spec in search.specs.values()]
    sweep.check([*specs, *every])
    searching = Searching(searches, config.sweep, config.store.url, sweep.where)
    for search in searches:
        print(f"sweep: {search}", file=sys.stderr)
    if searches and sweep.budget and not sweep.budget.is_endless:
        print(
            "sweep: sweep.budget: surely makes the first attempt of a search; searches take half "
            "of it at most, and what was found until then is measured with the rest",
            file=sys.stderr,
        )
    if config.sweep.dry_run:
        if searching.is_over:
            specs = list({spec.trial_id: spec for spec in (*specs, *searching.chosen())}.values())
        # the plan is what was asked for: on stdout
        planned = sweep.plan(specs, left_out, open_existing(config.store.url))
        if config.sweep.plan_format is PlanFormat.json:
            print(plan_json(planned, sweep.machine, taken))
        else:
            _print(make_console(), sweep, planned, taken)
        try:
            check_folders(config.store)
            check_writable(config.store.url)
        except (SweepRefusedError, StoreError) as error:
            raise SweepRefusedError(f"this plan cannot be run as it is: {error}") from error
        return None
    if not searches:
        return _measure(sweep, specs, left_out, typed, taken)

    def measure(specs: Sequence[TrialSpec], settings: SweepConfig) -> Report:
        is_last = settings is config.sweep  # not a round of the search
        part, refused = sweep.of(settings, is_round=not is_last), left_out if is_last else []
        return _measure(part, specs, refused, typed, taken, shows_plan=is_last)

    return searching.run(name, measure, specs)


def _measure(
    sweep: Sweep,
    specs: Sequence[TrialSpec],
    left_out: Sequence[tuple[str, str]],
    typed: Sequence[str],
    taken: Taken | None,
    *,
    shows_plan: bool = True,
) -> Report:
    """Plan these trials and run them. Raises SweepRefusedError or StoreError before that."""
    config, name = sweep.config, sweep.name
    with ExitStack() as stack:
        writer = open_writer(config.store.url)
        stack.callback(writer.close)
        _take_up_lost(writer.engine, config, name)
        planned = sweep.plan(specs, left_out, writer.engine)
        try:
            if shows_plan:
                _print(make_console(stderr=True), sweep, planned, taken)
        except OSError:  # nobody reads it: the results are what counts
            silence(sys.stderr)
        words = [sys.argv[0]]
        if words[0].startswith("scalemark "):
            words = words[0].split()
        runner = sweep.runner(planned, writer, stack, [*words, *typed])
        runner.run()
        if runner.failure is None:
            writer.settle()
    return Report(
        name=name,
        store_url=config.store.url,
        is_simulated=sweep.inventory.kind is DeviceKind.SIMULATED_GPU,
        num_finished_earlier=sum(
            trial.num_repeats == 0 and not trial.is_decided for trial in planned.plan.trials
        ),
        num_decided_earlier=sum(trial.is_decided for trial in planned.plan.trials),
        ran=runner.ran,
        conclusions=conclusions(planned.races, planned.budget),
    )


def _print(console: Console, sweep: Sweep, planned: Planned, taken: Taken | None) -> None:
    if taken:
        console.print(taken.line, markup=False, soft_wrap=True)
    print_plan(console, planned, sweep.machine, sweep.inventory)


def _take_up_lost(engine: sa.Engine, config: Config, name: str) -> None:
    """Record what the database lost of the sweep, and say so. Raises StoreError."""
    runs_dir = Path(config.store.runs_dir).expanduser().resolve()
    rebuilt = take_up_lost(engine, runs_dir, name)
    if rebuilt.num_new:
        lost = counted(rebuilt.num_new, "attempt")
        said = f"the database had lost {lost} of {name}: recorded from the run folders"
        print(f"sweep: {said}", file=sys.stderr)
    rejected = [each for each in rebuilt.rejected if each.reason != BEING_RUN]
    if rejected:
        said = f"not recorded: {counted(len(rejected), 'run folder')} of {name}"
        first = f"{rejected[0].where}: {rejected[0].reason}"
        print(f"sweep: {said}: {quoted(first)}", file=sys.stderr)


def open_writer(url: str) -> Writer:
    """Open the database, and record what killed orchestrators left."""
    path = file_of(url)
    kind = path and files.without_reliable_locks(path)
    if kind:
        print(
            f"sweep: {path} is on a file system ({kind}) where SQLite's locks may not reach every "
            "host: use the database from one host only, or choose a local disk with store.url=FILE",
            file=sys.stderr,
        )
    writer = Writer(url)
    recovered = recover(writer.engine)
    if recovered:
        print(f"sweep: {quoted(str(recovered))}", file=sys.stderr)
    return writer
