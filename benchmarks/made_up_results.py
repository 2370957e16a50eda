"""Makes up results as a lab would collect them over years: every number different, as in life, so
that nothing packs too well.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from scalemark.records.attempt import Placement, sweep_uid
from scalemark.records.machine import Machine
from scalemark.records.measurement import (
    AttemptResult,
    Measurement,
    Outcome,
    Phase,
    State,
    StepSample,
    Verdict,
)
from scalemark.records.trial import STRATEGY_AXES, TrialSpec
from store.database import open_for_writing, writing
from store.rebuild import FolderSweep, Rebuilt, add_sweep
from store.rows import FinishedAttempt

MODELS = ("resnet50", "vgg16", "alexnet", "inception3", "resnet152")
STRATEGIES = (
    ("parameter_server", "cpu", "none"),
    ("parameter_server", "gpu", "none"),
    ("replicated", "gpu", "none"),
    ("replicated", "gpu", "pscpu"),
    ("replicated", "gpu", "psgpu"),
)
NUM_GPUS = (1, 2, 4, 8)
PRECISIONS = ("fp32", "bf16")
BATCH_SIZES = (16, 32, 64, 128)
TRIALS_PER_SWEEP = 800  # all of the above, with one seed
REPEATS = 3
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
ENVIRONMENT: dict[str, Any] = {
    "python": "3.11.7",
    "kernel": "6.1",
    "packages": {"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6", "scalemark": "0.1.0"},
    "commit": "0123456789abcdef0123456789abcdef01234567",
    "variables": {},
}
MACHINE = Machine(
    host="box", cpu="AMD EPYC 7763", num_cores=64, memory_bytes=512 * 2**30, gpus=(), driver=""
)
_COMPLETED = {"state": State.COMPLETED, "num_attempts": 1}


# model, strategy, precision, batch size, GPUs
Axes = tuple[str, tuple[str, str, str], str, int, int]
GRID: list[Axes] = list(itertools.product(MODELS, STRATEGIES, PRECISIONS, BATCH_SIZES, NUM_GPUS))
# 100 trials: what one sweep asks for
ARTICLE: list[Axes] = list(itertools.product(MODELS, STRATEGIES, ["fp32"], [64], NUM_GPUS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A completed attempt with all around it."""

    sweep: dict[str, Any]  # columns of `sweeps`
    position: int
    spec: TrialSpec
    attempt: FinishedAttempt


def add(engine: sa.Engine, made: Iterable[Made], at_once: int = 5_000) -> None:
    """Write attempts, those of a sweep and at most so many in one transaction."""
    for _, of_sweep in itertools.groupby(made, key=lambda one: one.sweep["uid"]):
        while some := list(itertools.islice(of_sweep, at_once)):
            trials = {one.spec.trial_id: (one.position, one.spec) for one in some}
            sweep = FolderSweep(
                head=some[0].sweep,
                trials=list(trials.values()),
                stands={(one.spec.trial_id, one.attempt.repeat): _COMPLETED for one in some},
                attempts=[(MACHINE, one.attempt) for one in some],
            )
            with writing(engine) as connection:
                add_sweep(connection, sweep, Rebuilt())


def write(
    database: Path,
    num_trials: int,
    num_steps: int,
    *,
    grid: Sequence[Axes] = GRID,
    num_repeats: int = REPEATS,
) -> None:
    """Write a new database of such attempts."""
    engine = open_for_writing(str(database))
    add(engine, attempts(num_trials, num_steps, grid=grid, num_repeats=num_repeats))
    engine.dispose()


def attempts(
    num_trials: int,
    num_steps: int,
    *,
    name: str = "sweep",
    grid: Sequence[Axes] = GRID,
    num_repeats: int = REPEATS,
) -> Iterator[Made]:
    """Completed attempts of each trial of the grid, then of the next seed."""
    chance = random.Random(1)
    for number in range(num_trials):
        seed, axes = 1 + number // len(grid), grid[number % len(grid)]
        sweep = _sweep(f"{name}{number // TRIALS_PER_SWEEP}", number // TRIALS_PER_SWEEP)
        model, strategy, precision, batch_size, num_gpus = axes
        spec = spec_of(
            model=model,
            strategy=strategy,
            precision=precision,
            batch_size=batch_size,
            num_gpus=num_gpus,
            seed=seed,
        )
        speed = chance.uniform(50, 300) * spec.num_gpus * chance.uniform(0.5, 1.0)
        for repeat in range(1, num_repeats + 1):
            started = sweep["started_at"] + timedelta(
                seconds=40 * ((number % TRIALS_PER_SWEEP) * num_repeats + repeat)
            )
            yield _attempt(
                sweep, spec, number % TRIALS_PER_SWEEP, repeat, started, speed, num_steps, chance
            )


def _sweep(name: str, number: int) -> dict[str, Any]:
    started = BEGIN + timedelta(days=2 * number)
    command = f"python sweep.py experiment=cloud_article sweep.name={name}"
    return {
        "uid": sweep_uid(name, started, command),
        "name": name,
        "reason": "nightly",
        "command": command,
        "started_at": started,
        "finished_at": started + timedelta(hours=30),
        "run_dir": f"/home/lab/benchmarks/runs/{name}",
        "origin": "",
    }


def spec_of(*, strategy: tuple[str, str, str], **axes: object) -> TrialSpec:
    """Return a trial of these axes, and of usual ones besides; a strategy is three of them."""
    usual: dict[str, object] = {
        "device_kind": "cpu_device",
        "precision": "fp32",
        "optimizer": "momentum",
        "learning_rate": 0.01,
        "momentum": 0.9,
        "weight_decay": 4e-5,
        "data": "synthetic",
        "distortions": False,
        "image_px": 224,
        "num_classes": 1001,
        "min_warm_up_steps": 10,
        "num_steps": 20,
        "seed": 1,
    }
    usual.update(zip(STRATEGY_AXES, strategy, strict=True))
    return TrialSpec.of(usual | axes)


def _attempt(
    sweep: dict[str, Any],
    spec: TrialSpec,
    position: int,
    repeat: int,
    started: datetime,
    speed: float,
    num_steps: int,
    chance: random.Random,
) -> Made:
    speed *= chance.gauss(1, 0.01)
    steps = _steps(spec.num_gpus * spec.batch_size / speed, num_steps, chance)
    duration_s = chance.uniform(20, 39)
    run_dir = (
        f"{spec.model}-{spec.variable_update}-x{spec.num_gpus}-{spec.trial_id[:8]}-r{repeat}-a1"
    )
    return Made(
        sweep=sweep,
        position=position,
        spec=spec,
        attempt=FinishedAttempt(
            trial_id=spec.trial_id,
            repeat=repeat,
            attempt=1,
            exit_code=0,
            placement=Placement(
                start="fork", devices=tuple(range(spec.num_gpus)), visible_devices=""
            ),
            run_dir=f"{sweep['run_dir']}/{run_dir}",
            started_at=started,
            duration_s=duration_s,
            result=AttemptResult(
                outcome=Outcome.COMPLETED.value,
                message="",
                measurement=_measurement(speed, steps, spec, chance),
                op_placement=_op_placement(spec.num_gpus),
                verdict=Verdict.VALID.value,
            ),
            steps=steps,
            environment=ENVIRONMENT,
        ),
    )


def _steps(step_s: float, num_steps: int, chance: random.Random) -> list[StepSample]:
    """The first are slow, as in life; a loss is a float32."""
    found, now = [], chance.uniform(1e-5, 5e-5)
    for step in range(num_steps):
        duration = step_s * chance.gauss(1, 0.01) * (1.5 if step < 3 else 1.0)
        phase = Phase.WARM_UP if step < 10 else Phase.MEASURE
        loss = chance.gauss(6.9, 0.05)
        wait = chance.uniform(2e-7, 2e-6)
        found.append(
            StepSample(
                step=step,
                phase=phase,
                start_s=now,
                duration_s=duration,
                data_wait_s=wait,
                loss=loss,
            )
        )
        now += duration + chance.uniform(5e-6, 5e-5)
    return found


def _measurement(
    speed: float, steps: list[StepSample], spec: TrialSpec, chance: random.Random
) -> Measurement:
    step_s = spec.num_gpus * spec.batch_size / speed
    return Measurement(
        throughput=speed,
        throughput_low=speed * chance.uniform(0.97, 0.99),
        throughput_high=speed * chance.uniform(1.01, 1.03),
        median_step_s=step_s,
        jitter_s=step_s * chance.uniform(0.005, 0.02),
        p90_step_s=step_s * chance.uniform(1.01, 1.03),
        num_steps=len(steps) - 10,
        window_s=step_s * (len(steps) - 10),
        num_warm_up_steps=10,
        steady=True,
        time_to_first_step_s=chance.uniform(5, 15),
        trace_s=chance.uniform(1, 3),
        first_step_s=chance.uniform(2, 8),
        data_wait_share=chance.uniform(0, 1e-4),
        cpu_s=chance.uniform(10, 100),
        cores_taken_by_others=chance.uniform(0, 0.1),
        peak_host_memory_bytes=int(chance.uniform(3e9, 9e9)),
        peak_device_memory_bytes=None,
        first_loss=chance.gauss(7, 0.1),
        last_loss=chance.gauss(6.9, 0.05),
        num_skipped_steps=0,
        last_loss_scale=None,
        num_parameters=25_557_032,
    )


def _op_placement(num_gpus: int) -> dict[str, dict[str, int]]:
    return {
        "update": {f"ResourceApplyMomentum @ CPU:{device}": 161 for device in range(num_gpus)},
        "reduce": {f"AddN @ CPU:{device}": 20 for device in range(num_gpus)},
    }
