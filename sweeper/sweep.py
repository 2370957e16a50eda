"""Runs one sweep: plan it, run every attempt, and have each in the database before the next begins."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from conf.schema import Config
from store import queries
from store.database import open_for_reading, path_of
from store.records import Machine, Outcome, RunFolder
from store.writer import FinishedAttempt, Writer
from sweeper.attempt import result_of, run_process
from sweeper.errors import SweepRefusedError
from sweeper.expand import Cell, Composer
from sweeper.machine import Inventory, describe_machine, take_inventory
from sweeper.plan import Plan, PlannedTrial, make_plan, resolve_grid
from sweeper.progress import Progress

LEAST_FREE_BYTES = 64 * 2**20  # less room than this is no place to start a sweep
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How a sweep ended."""

    name: str
    store_url: str
    figures_dir: Path
    outcomes: Counter[str]  # Outcome -> attempts
    num_finished_earlier: int  # trials that needed no attempt
    interrupted: bool


def run(cells: Sequence[Cell], composer: Composer) -> Report | None:
    """Plan and run a sweep; None when the plan was all that was asked for.

    Raises SweepRefusedError or StoreError before anything runs, and when results can no longer be written; whatever was
    finished by then is in the database.
    """
    config = composer.base
    name = _check(config)
    machine = describe_machine()
    inventory = take_inventory(machine, config.hardware)
    specs, left_out = resolve_grid(cells, composer.compose, inventory, config.sweep)
    if config.sweep.dry_run:
        exists = path_of(config.store.url).exists()
        num_completed = queries.num_completed(open_for_reading(config.store.url), machine.key) if exists else {}
        plan = make_plan(specs, left_out, config.sweep, num_completed)
        Progress(inventory, plan).print_plan(machine)
        return None
    with ExitStack() as stack:
        writer = Writer(config.store.url)
        stack.callback(writer.close)
        plan = make_plan(specs, left_out, config.sweep, queries.num_completed(writer.engine, machine.key))
        sweep_id = writer.begin_sweep(
            name=name,
            reason=config.sweep.reason,
            command=" ".join(sys.argv),
            started_at=datetime.now(UTC),
            trials=specs,
            left_out=left_out,
        )
        progress = stack.enter_context(Progress(inventory, plan))
        progress.print_plan(machine)
        stack.enter_context(_signals_interrupt())
        outcomes = _Attempts(config, name, machine, inventory, writer, sweep_id, progress).run(plan)
        interrupted = outcomes[Outcome.INTERRUPTED] > 0
        if not interrupted:
            writer.finish_sweep(sweep_id, datetime.now(UTC))
    return Report(
        name=name,
        store_url=config.store.url,
        figures_dir=Path(config.store.figures_dir),
        outcomes=outcomes,
        num_finished_earlier=sum(trial.num_repeats == 0 for trial in plan.trials),
        interrupted=interrupted,
    )


@dataclass(frozen=True, slots=True)
class _Attempts:
    """Runs the attempts of one sweep, one at a time."""

    config: Config
    name: str
    machine: Machine
    inventory: Inventory
    writer: Writer
    sweep_id: int
    progress: Progress

    def run(self, plan: Plan) -> Counter[str]:
        """Round by round, so that the repeats of a trial are spread over the sweep and drift hits all trials alike."""
        outcomes: Counter[str] = Counter()
        machine_id = self.writer.add_machine(self.machine)
        for repeat in range(1, max((trial.num_repeats for trial in plan.trials), default=0) + 1):
            for trial in plan.trials:
                if repeat > trial.num_repeats:
                    continue
                outcome = self._run_one(trial, repeat, machine_id)
                outcomes[outcome] += 1
                if outcome == Outcome.INTERRUPTED:
                    return outcomes
        return outcomes

    def _run_one(self, trial: PlannedTrial, repeat: int, machine_id: int) -> str:
        started_at = datetime.now(UTC)
        launcher = self.config.launcher
        visible_devices = self.inventory.visible_devices(trial.spec.num_gpus)
        folder = self._make_folder(trial, repeat)
        ended = run_process(
            folder,
            visible_devices=visible_devices,
            timeout_s=launcher.timeout_s,
            grace_s=launcher.grace_s,
            on_look=self.progress.attempt_started(trial, folder),
        )
        result = result_of(folder, ended, launcher.timeout_s)
        finished = FinishedAttempt(
            trial_id=trial.spec.trial_id,
            repeat=repeat,
            attempt=1,
            exit_code=ended.exit_code,
            visible_devices=visible_devices,
            run_dir=str(folder.path),
            started_at=started_at,
            duration_s=ended.duration_s,
            result=result,
            steps=folder.read_steps(),
            environment=json.loads(folder.environment.read_text()) if folder.environment.exists() else None,
        )
        self.writer.add_attempt(self.sweep_id, machine_id, finished)
        self.progress.attempt_ended(trial, result, ended.duration_s)
        return result.outcome

    def _make_folder(self, trial: PlannedTrial, repeat: int) -> RunFolder:
        """A new run folder with the trial and the machine in it. Raises SweepRefusedError when it cannot be written."""
        root = Path(self.config.store.runs_dir).expanduser().resolve()
        folder = RunFolder(root / self.name / f"{trial.label}-{trial.spec.trial_id[:8]}-r{repeat}")
        try:
            folder.path.mkdir(parents=True)
            folder.trial.write_text(trial.spec.to_json())
            folder.machine.write_text(self.machine.to_json())
        except OSError as error:
            raise SweepRefusedError(
                f"{folder.path}: {error.strerror}; make room or choose another folder with store.runs_dir="
            ) from error
        return folder


def _check(config: Config) -> str:
    """The name of the sweep. Raises SweepRefusedError for settings that cannot be."""
    if config.sweep.repeats < 1:
        raise SweepRefusedError(f"sweep.repeats={config.sweep.repeats}: wanted 1 or more")
    for setting in ("timeout_s", "grace_s"):
        if not 0 < getattr(config.launcher, setting) < float("inf"):
            raise SweepRefusedError(f"launcher.{setting}={getattr(config.launcher, setting)}: wanted seconds, more than 0")
    name = config.sweep.name
    if name is None:
        name = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    elif not _NAME.fullmatch(name):
        raise SweepRefusedError(f"sweep.name={name}: wanted letters, digits, '.', '_' and '-', 100 at most")
    for setting in ("runs_dir", "figures_dir"):
        _check_folder(setting, Path(getattr(config.store, setting)).expanduser().resolve())
    return name


def _check_folder(setting: str, folder: Path) -> None:
    """Raises SweepRefusedError when there will be no writing into it: better now than after hours of trials."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir():
        raise SweepRefusedError(f"store.{setting}={folder}: {existing} is not a folder")
    if not os.access(existing, os.W_OK):
        raise SweepRefusedError(f"store.{setting}={folder}: {existing} is read-only; choose another folder")
    free_bytes = shutil.disk_usage(existing).free
    if free_bytes < LEAST_FREE_BYTES:
        found = f"only {free_bytes // 2**20} MiB free, a sweep wants {LEAST_FREE_BYTES // 2**20}"
        raise SweepRefusedError(f"store.{setting}={folder}: {found}; make room or choose another folder")


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end a sweep as Ctrl-C does; so does SIGINT where a shell had it ignored."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in caught]
    try:
        yield
    finally:
        for number, handler in zip(caught, before, strict=True):
            signal.signal(number, handler)
