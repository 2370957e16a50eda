"""Runs one sweep: plans it, hands it to what runs it, and reports how it ended."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import sqlalchemy as sa
from rich.console import Console

from conf.schema import PlanFormat, StoreConfig
from scalemark.cli.terminal import make_console, silence
from scalemark.host.files import without_reliable_locks
from scalemark.records.machine import DeviceKind
from scalemark.text.untrusted import quoted
from store.database import check_writable, file_of, open_existing
from store.errors import StoreError
from store.reading.earlier import failed_last
from store.writer import Writer
from sweeper.errors import SweepRefusedError
from sweeper.grid.compose import Grid
from sweeper.grid.from_trial import Taken
from sweeper.local_sweep import LocalSweep
from sweeper.planning.plan import make_plan, resolve_grid
from sweeper.planning.plan_view import Planned, plan_json, print_plan
from sweeper.planning.settings import check, check_folders
from sweeper.report import Report
from sweeper.running.recover import recover


def run(
    grid: Grid,
    typed: Sequence[str],
    taken: Taken | None = None,
) -> Report | None:
    """Plan and run a sweep; None when the plan was all that was asked for.

    `typed` are the arguments of the command, which the database keeps, and `taken` is what an
    earlier trial gave. Raises SweepRefusedError or StoreError before anything runs.
    """
    config = grid.composer.base
    name = check(config)
    if not config.sweep.dry_run:
        check_folders(config.store)
    way = LocalSweep(config, name)
    specs, left_out = resolve_grid(grid.cells, grid.composer.compose, way.inventory, config.sweep)
    way.check(specs)

    def plan(engine: sa.Engine | None) -> Planned:
        made = make_plan(specs, left_out, config.sweep, way.num_completed(engine, specs))
        planned = way.planned(made, engine)
        waiting = [trial.spec.trial_id for trial in planned.plan.trials if trial.num_repeats]
        if engine is None:
            return planned
        return replace(planned, failed_last=failed_last(engine, waiting, way.machine.key))

    sources = [taken.line] if taken else []
    if config.sweep.dry_run:
        # the plan is what was asked for: on stdout
        planned = plan(open_existing(config.store.url))
        if config.sweep.plan_format is PlanFormat.json:
            print(plan_json(planned, way.machine, taken))
        else:
            _print(make_console(), way, planned, sources)
        _tell_what_would_refuse_it(config.store)
        return None
    with ExitStack() as stack:
        writer = open_writer(config.store.url)
        stack.callback(writer.close)
        planned = plan(writer.engine)
        try:
            _print(make_console(stderr=True), way, planned, sources)
        except OSError:  # nobody reads it: the results are what counts
            silence(sys.stderr)
        program = sys.argv[0]
        words = program.split() if program.startswith("scalemark ") else [program]
        runner = way.runner(planned, writer, stack, [*words, *typed])
        runner.run()
        if runner.failure is None:
            writer.settle()
    return Report(
        name=name,
        store_url=config.store.url,
        figures_dir=Path(config.store.figures_dir),
        is_simulated=way.inventory.kind is DeviceKind.SIMULATED_GPU,
        num_finished_earlier=sum(trial.num_repeats == 0 for trial in planned.plan.trials),
        ran=runner.ran,
    )


def _tell_what_would_refuse_it(store: StoreConfig) -> None:
    try:
        check_folders(store)
        check_writable(store.url)
    except (SweepRefusedError, StoreError) as error:
        print(f"sweep: this plan cannot be run as it is: {quoted(str(error))}", file=sys.stderr)


def _print(console: Console, way: LocalSweep, planned: Planned, sources: Sequence[str]) -> None:
    for source in sources:
        console.print(source, markup=False, soft_wrap=True)
    print_plan(console, planned, way.machine, way.inventory)


def open_writer(url: str) -> Writer:
    """Open the database, and record what killed orchestrators left."""
    path = file_of(url)
    kind = without_reliable_locks(path) if path else None
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
