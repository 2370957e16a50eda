"""Runs one sweep: plan it, run every attempt, and have each in the database before the next begins."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
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
from store import queries, software
from store.database import check_writable, open_existing, path_of
from store.records import Machine, RunFolder
from store.terminal import make_console
from store.writer import FinishedAttempt, Writer
from sweeper.attempt import result_of, run_process
from sweeper.errors import SweepRefusedError
from sweeper.expand import Cell, Composer
from sweeper.machine import Inventory, describe_machine, take_inventory
from sweeper.plan import Plan, PlannedTrial, make_plan, resolve_grid
from sweeper.progress import Progress

MOST_REPEATS = 1000
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
    num_not_started: int  # attempts that an interrupt left over
    interrupted: bool


def run(cells: Sequence[Cell], composer: Composer) -> Report | None:
    """Plan and run a sweep; None when the plan was all that was asked for.

    Raises SweepRefusedError or StoreError before anything runs, and when results can no longer be written; whatever was
    finished by then is in the database.
    """
    config = composer.base
    name = _check(config)
    machine = describe_machine(config.hardware)
    software_key = software.key(software.describe())
    inventory = take_inventory(machine, config.hardware)
    specs, left_out = resolve_grid(cells, composer.compose, inventory, config.sweep)
    if config.sweep.dry_run:
        check_writable(path_of(config.store.url))
        engine = open_existing(config.store.url)
        plan = make_plan(
            specs, left_out, config.sweep, queries.num_completed(engine, machine.key, software_key) if engine else {}
        )
        Progress(inventory, plan, make_console()).print_plan(machine)  # here the plan is the answer: on stdout
        return None
    with ExitStack() as stack:
        writer = Writer(config.store.url)
        stack.callback(writer.close)
        plan = make_plan(specs, left_out, config.sweep, queries.num_completed(writer.engine, machine.key, software_key))
        sweep_id = writer.begin_sweep(
            name=name,
            reason=config.sweep.reason,
            command=shlex.join(sys.argv),
            started_at=datetime.now(UTC),
            trials=specs,
            left_out=left_out,
        )
        progress = stack.enter_context(Progress(inventory, plan))
        progress.print_plan(machine)
        stop = _Stop()
        stack.enter_context(stop.listening())
        outcomes = _Attempts(config, name, machine, inventory, writer, sweep_id, progress, stop).run(plan)
        if not stop.asked:
            writer.finish_sweep(sweep_id, datetime.now(UTC))
    return Report(
        name=name,
        store_url=config.store.url,
        figures_dir=Path(config.store.figures_dir),
        outcomes=outcomes,
        num_finished_earlier=sum(trial.num_repeats == 0 for trial in plan.trials),
        num_not_started=plan.num_attempts - outcomes.total(),
        interrupted=stop.asked,
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
    stop: _Stop

    def run(self, plan: Plan) -> Counter[str]:
        """Round by round, so that the repeats of a trial are spread over the sweep and drift hits all trials alike."""
        outcomes: Counter[str] = Counter()
        machine_id = self.writer.add_machine(self.machine)
        for round_ in range(max((trial.num_repeats for trial in plan.trials), default=0)):
            for trial in plan.trials:
                if round_ >= trial.num_repeats:
                    continue
                if self.stop.asked:
                    return outcomes
                outcomes[self._run_one(trial, machine_id)] += 1
        return outcomes

    def _run_one(self, trial: PlannedTrial, machine_id: int) -> str:
        started_at = datetime.now(UTC)
        launcher = self.config.launcher
        visible_devices = self.inventory.visible_devices(trial.spec.num_gpus)
        repeat, attempt = self.writer.next_attempt(self.sweep_id, trial.spec.trial_id)
        folder = self._make_folder(trial, repeat, attempt)
        show = self.progress.attempt_started(trial, folder)

        def look() -> None:
            show()
            if self.stop.asked:
                raise KeyboardInterrupt

        ended = run_process(
            folder,
            visible_devices=visible_devices,
            timeout_s=launcher.timeout_s,
            step_timeout_s=launcher.step_timeout_s,
            grace_s=launcher.grace_s,
            on_look=look,
        )
        result = result_of(folder, ended, launcher.timeout_s, launcher.step_timeout_s)
        finished = FinishedAttempt(
            trial_id=trial.spec.trial_id,
            repeat=repeat,
            attempt=attempt,
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

    def _make_folder(self, trial: PlannedTrial, repeat: int, attempt: int) -> RunFolder:
        """A new run folder with the trial and the machine in it. Raises SweepRefusedError when it cannot be written."""
        root = Path(self.config.store.runs_dir).expanduser().resolve() / self.name
        name = f"{trial.label}-{trial.spec.trial_id[:8]}-r{repeat}-a{attempt}"
        left_behind = len(list(root.glob(f"{name}*")))  # by a sweep that was killed before it could record the attempt
        folder = RunFolder(root / (f"{name}-{left_behind}" if left_behind else name))
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
    if not 1 <= config.sweep.repeats <= MOST_REPEATS:
        raise SweepRefusedError(f"sweep.repeats={config.sweep.repeats}: wanted 1 to {MOST_REPEATS}")
    for setting in ("timeout_s", "step_timeout_s", "grace_s"):
        if not 0 < getattr(config.launcher, setting) < float("inf"):
            raise SweepRefusedError(f"launcher.{setting}={getattr(config.launcher, setting)}: wanted seconds, more than 0")
    name = config.sweep.name
    if name is None:
        name = f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    elif not _NAME.fullmatch(name):
        raise SweepRefusedError(f"sweep.name={name[:40]}: wanted letters, digits, '.', '_' and '-', 100 at most")
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
    disk = shutil.disk_usage(existing)
    free_bytes = disk.free
    if disk.total == 0:
        raise SweepRefusedError(f"store.{setting}={folder}: {existing} holds no files; choose another folder")
    if free_bytes < LEAST_FREE_BYTES:
        found = f"only {free_bytes // 2**20} MiB free, a sweep wants {LEAST_FREE_BYTES // 2**20}"
        raise SweepRefusedError(f"store.{setting}={folder}: {found}; make room or choose another folder")


class _Stop:
    """Set by SIGINT, SIGTERM and SIGHUP; looked at where an attempt may be ended, so that none is lost while it is recorded."""

    def __init__(self) -> None:
        self.asked = False

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGINT is heard also where a shell had it ignored for a background job; SIGHUP not where `nohup` did."""
        heard = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            heard.append(signal.SIGHUP)
        before = [signal.signal(number, self._ask) for number in heard]
        try:
            yield
        finally:
            for number, handler in zip(heard, before, strict=True):
                signal.signal(number, handler)
