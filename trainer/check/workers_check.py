"""Checks one mode in which every replica is a process that trains, as `mode_check` does others.

`python -m trainer.check.workers_check PART_JSON OUT` forks the workers of each check before it
touches a device itself, and compares what they left with one device.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import tensorflow as tf

from scalemark.abilities import VARIABLE_UPDATES
from scalemark.records.attempt import Cluster, Rank
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from trainer import devices, registry
from trainer.check import exactness, plan
from trainer.check.mode_check import (
    EXACT,
    EXACT_ON_GPUS,
    NUM_MICRO_BATCHES,
    NUM_STEPS,
    Changes,
    text_of,
    write_checks,
)
from trainer.check.plan import Check, Mode, Part
from trainer.errors import UnsupportedTrialError
from trainer.process import own_process
from trainer.ranks import own_rank, ports
from trainer.watching import op_placement

JOIN_LIMIT_S = 60.0
_CHECKED: tuple[Changes, ...] = (
    {},
    {"steps_per_execution": NUM_STEPS},
    {"gradient_accumulation": NUM_MICRO_BATCHES},
)
_IN_BUCKETS: Changes = {"gradient_repacking": 3}


def checks(part: Part) -> Iterator[Check]:
    """Yield all checks. Raises UnsupportedTrialError for a mode that cannot run here at all."""
    mode, bench = part.mode, part.bench
    if bench.kind == "logical_gpu":
        raise UnsupportedTrialError("each of its processes needs a physical GPU of its own")
    kind = DeviceKind(bench.kind)
    alone = plan.of_one_device(bench)
    spec = own_rank.with_processes(plan.of_mode(mode, bench))
    registry.load("variable_updates", mode.variable_update).check(spec)
    repacks = mode.all_reduce in VARIABLE_UPDATES[mode.variable_update].repacks_with
    checked = (*_CHECKED, _IN_BUCKETS) if repacks else _CHECKED
    batches = list(exactness.whole_batches(bench.num_replicas, NUM_STEPS))
    with TemporaryDirectory() as folder:
        left = [Path(folder) / str(number) for number in range(len(checked))]
        for path, changes in zip(left, checked, strict=True):
            path.mkdir()
            _run_workers(replace(spec, **changes), path)
        one = devices.claim(kind, 1)
        reference, loss = exactness.train_to_loss(alone, one, batches)
        whole = reference.update.weights(0)
        bound = EXACT if kind is DeviceKind.CPU_DEVICE else EXACT_ON_GPUS
        for path, changes in zip(left, checked, strict=True):
            yield _compared(
                mode, changes, [path / str(i) for i in range(spec.hosts)], whole, loss, bound
            )


def _run_workers(spec: TrialSpec, folder: Path) -> None:
    """Fork a worker per process of the trial; all end before it returns."""
    forking = multiprocessing.get_context("fork")
    with ports.reserved(spec.hosts) as reserved:
        cluster = Cluster(worker_hosts=tuple(f"127.0.0.1:{port}" for port in reserved))
        workers = []
        for rank in cluster.ranks:
            arguments = (os.getpid(), spec, cluster, rank, folder / str(rank.task_index))
            workers.append(forking.Process(target=_work, args=arguments, name=rank.name))
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def _work(starter: int, spec: TrialSpec, cluster: Cluster, rank: Rank, out: Path) -> None:
    """Train one worker's part of the whole batches, and leave what it found; in its process."""
    own_process.die_with(starter)
    try:
        _train(spec, cluster, rank, out)
    except Exception as error:
        traceback.print_exc()
        line = (str(error).strip().splitlines() or [""])[0]
        out.with_suffix(".txt").write_text(f"{rank.name}: {type(error).__name__}: {line}")
    finally:
        sys.stdout.flush()
        os._exit(0)  # a worker that lost the others may hang in the interpreter's exit


def _train(spec: TrialSpec, cluster: Cluster, rank: Rank, out: Path) -> None:
    if spec.device_kind == DeviceKind.GPU:
        os.environ["CUDA_VISIBLE_DEVICES"] = own_rank.visible_devices(
            rank.task_index, spec.gpus_per_host, spec.hosts
        )
    update = registry.load("variable_updates", spec.variable_update)
    on = update.join(spec, cluster, rank, JOIN_LIMIT_S)
    batches = list(exactness.whole_batches(spec.num_gpus, NUM_STEPS))
    with op_placement.recorded() as placement:
        training, loss = exactness.train_to_loss(spec, on, batches)
    if problem := placement.problem(training.wanted(spec)):
        out.with_suffix(".txt").write_text(f"{rank.name}: {problem}")
    np.savez(out.with_suffix(".npz"), *training.update.weights(0), loss=loss)
    # who has taken one step more knows that all have taken theirs, and goes
    last = exactness.split(batches[: spec.steps_per_execution], on)
    with suppress(tf.errors.OpError):
        float(training.towers.step(last))


def _compared(
    mode: Mode,
    changes: Changes,
    left: list[Path],
    whole: list[np.ndarray],
    loss: float,
    bound: float,
) -> Check:
    """Compare what every worker left with one device."""
    said = [path.with_suffix(".txt") for path in left]
    problems = [path.read_text() for path in said if path.exists()]
    found = [path.with_suffix(".npz") for path in left]
    if not problems and not all(path.exists() for path in found):
        problems = ["a worker ended without a word"]
    check = Check(mode=mode.name, options=text_of(changes), outcome="failed")
    if problems:
        return replace(check, problem=problems[0])
    difference = loss_difference = 0.0
    for path in found:
        arrays = np.load(path)
        ours = [arrays[f"arr_{number}"] for number in range(len(whole))]
        difference = max(difference, exactness.largest_difference(ours, whole))
        loss_difference = max(loss_difference, abs(float(arrays["loss"]) - loss))
    check = replace(check, difference=difference, loss_difference=loss_difference, bound=bound)
    largest = max(difference, loss_difference)
    if largest < bound:
        return replace(check, outcome="passed")
    return replace(check, problem=f"differs by {largest:.1e}, wanted less than {bound:.0e}")


if __name__ == "__main__":
    write_checks(checks, *sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # past the interpreter's exit, in which a library may hang or crash
