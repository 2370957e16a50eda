"""Checks one mode, or a part of it, for `trainer/check/selfcheck.py` in a process of its own.

`python -m trainer.check.mode_check PART_JSON OUT` proves exactness and placement with a small model
of ours; it writes a line of JSON per check.
Where every replica is a process that trains, it forks the workers of each check before it touches a
device itself, and compares what they left with one device.
"""

import json
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES
from scalemark.records.attempt import ORCHESTRATOR_VARIABLE, WORKER_0, Cluster, Rank
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import telling_line
from trainer import devices, own_process, run, towers
from trainer.check import exactness, selfcheck
from trainer.check.selfcheck import Bench, Check, Mode, Part
from trainer.errors import UnsupportedTrialError
from trainer.ranks import own_rank, servers
from trainer.ranks.own_rank import reserved_ports
from trainer.watching import op_placement

NUM_STEPS = 3
NUM_MICRO_BATCHES = 4
# of weights after three steps, fp32; cuDNN sums a batch of 2 B in another order than two of B
BOUNDS = {"cpu_device": 1e-6, "logical_gpu": 1e-5, "gpu": 1e-5}
COMPACT = 1e-3  # gradients sent in float16
LOGICAL_GPU_BYTES = 4 * 2**30
# left out of a check's options: what every trial has, and what staged_vars needs to be comparable
_USUAL = {
    "xla": "off",
    "steps_per_execution": 1,
    "loss_scale": "none",
    "gradient_repacking": 0,
    "weight_decay": 0.0,
}


Changes = dict[str, Any]  # fields of TrialSpec
Found = dict[str, Any]  # numeric fields of Check
Judge = Callable[[run.Training, float], tuple[str, Found]]  # training, last loss -> problem, found


class ModeCheck:
    """The checks of one mode, or a part of them, on the devices of this process."""

    def __init__(self, part: Part, on: devices.Devices) -> None:
        mode, bench = part.mode, part.bench
        self._name, self._precisions = mode.name, part.precisions
        self._devices = on
        self._one = replace(on, replicas=on.replicas[:1])
        self._alone = selfcheck.of_one_device(bench)
        self._spec = selfcheck.of_mode(mode, bench)
        self._abilities = VARIABLE_UPDATES[mode.variable_update]
        self._bound = BOUNDS[bench.kind]
        self._batches = list(exactness.whole_batches(bench.num_replicas, NUM_STEPS))

    def all(self) -> Iterator[Check]:
        """Yield all checks of the part; a mode that cannot run here at all says so once."""
        try:
            run.build(self._spec, self._devices, exactness.convolutional)
        except UnsupportedTrialError as error:
            yield Check(mode=self._name, options="-", outcome="unsupported", problem=str(error))
            return
        is_plain = self._spec.precision in self._precisions
        if not self._abilities.is_synchronous:
            for precision in self._precisions:
                yield self._trained(self._precision(precision), self._drifts)
            return
        alone, loss = exactness.train_to_loss(self._alone, self._one, self._batches)
        whole = alone.update.weights(0)
        if is_plain:
            yield from self._synchronous(whole, loss)
        for name in self._precisions:
            tolerance = PRECISIONS[name].tolerance
            if tolerance:
                yield self._exact(self._precision(name), whole, tolerance)

    def _synchronous(self, whole: Sequence[np.ndarray], loss: float) -> Iterator[Check]:
        packs = (0, 2) if self._spec.all_reduce in self._abilities.repacks_with else (0,)
        for num_packs, steps in product(packs, (1, NUM_STEPS)):
            changes = {"gradient_repacking": num_packs, "steps_per_execution": steps}
            yield self._exact(changes, whole, self._bound, loss)
        # XLA compiles the same tower in every combination, once per replica: one is enough
        yield self._exact({"xla": "on"}, whole, self._bound, loss)
        yield self._exact({"gradient_accumulation": NUM_MICRO_BATCHES}, whole, self._bound, loss)
        yield self._trained({}, self._normalizes_alone, exactness.normalized, "model=normalized")
        if self._abilities.stages:
            stale = exactness.one_step_stale(self._alone, self._one, self._batches)
            yield self._exact({"staged_vars": True, "weight_decay": 0.0}, stale, self._bound)
        if self._abilities.compacts:
            for num_packs in packs:
                changes = {"compact_gradients": True, "gradient_repacking": num_packs}
                yield self._exact(changes, whole, COMPACT)
        yield self._exact({"data_format": "NCHW"}, whole, self._bound)

    def _exact(
        self,
        changes: Changes,
        reference: Sequence[np.ndarray],
        bound: float,
        loss: float | None = None,
    ) -> Check:
        """Compare the weights of all replicas, and where given the last step's loss."""

        def judge(training: run.Training, last_loss: float) -> tuple[str, Found]:
            difference = 0.0
            for replica in range(self._spec.num_gpus):
                weights = training.update.weights(replica)
                difference = max(difference, exactness.largest_difference(weights, reference))
            loss_difference = None if loss is None else abs(last_loss - loss)
            return _within(bound, difference, loss_difference)

        return self._trained(changes, judge)

    def _normalizes_alone(self, training: run.Training, _: float) -> tuple[str, Found]:
        for replica in range(1, self._spec.num_gpus):
            apart = _difference(training.update.weights, replica)
            if apart:
                return f"weights of replicas differ by {apart:.1e}", {}
            if _difference(training.towers.statistics, replica) == 0:
                return "replicas share batch statistics", {}
        return "", {}

    def _drifts(self, training: run.Training, _: float) -> tuple[str, Found]:
        if self._spec.num_gpus > 1 and _difference(training.update.weights, 1) == 0:
            return "replicas that share nothing have equal weights", {}
        return "", {}

    def _trained(
        self,
        changes: Changes,
        judge: Judge,
        model: Callable[[], keras.Model] = exactness.convolutional,
        options: str = "",
    ) -> Check:
        """Train, look where the ops ran, then judge."""
        options = options or text_of(changes)
        figures: Found = {}
        try:
            spec = replace(self._spec, **changes)
            with op_placement.recorded() as placement:
                training, last_loss = exactness.train_to_loss(
                    spec, self._devices, self._batches, model
                )
            problem = placement.problem(training.wanted(spec)) or ""
            if not problem:
                problem, figures = judge(training, last_loss)
            outcome = "failed" if problem else "passed"
        except UnsupportedTrialError as error:
            problem, outcome = str(error), "unsupported"
        except Exception as error:  # whatever it is, it is this check that failed
            problem = f"{type(error).__name__}: {telling_line(str(error))}"
            outcome = "failed"
        return Check(mode=self._name, options=options, outcome=outcome, problem=problem, **figures)

    def _precision(self, precision: str) -> Changes:
        scaled = PRECISIONS[precision].is_loss_scaled and self._abilities.is_synchronous
        return {"precision": precision, "loss_scale": "dynamic" if scaled else "none"}


def _checks(part: Part) -> Iterator[Check]:
    """Yield all checks of a mode; other hosts are processes of this one. Raises
    UnsupportedTrialError where it cannot run here at all.
    """
    bench = part.bench
    if bench.num_hosts == 1:
        yield from ModeCheck(part, _claim_own(bench, WORKER_0)).all()
        return
    with servers.started(bench.num_hosts, lambda rank: _claim_own(bench, rank)) as cluster:
        on = devices.connect(_claim_own(bench, WORKER_0), cluster)
        yield from ModeCheck(part, on).all()


def _claim_own(bench: Bench, worker: Rank) -> devices.Devices:
    """Claim the devices of one host."""
    per_host = bench.num_replicas // bench.num_hosts
    if bench.kind == "logical_gpu":
        return devices.logical_gpus(per_host, LOGICAL_GPU_BYTES)
    if bench.kind == "gpu" and bench.num_hosts > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = own_rank.visible_devices(
            worker.task_index, per_host, bench.num_hosts
        )
    return devices.claim(DeviceKind(bench.kind), per_host)


def _difference(of_replica: Callable[[int], Sequence[np.ndarray]], replica: int) -> float:
    return exactness.largest_difference(of_replica(0), of_replica(replica))


def _within(bound: float, difference: float, loss_difference: float | None) -> tuple[str, Found]:
    """Return what is wrong, empty where both are under the bound, and the figures of the check."""
    figures = {"difference": difference, "bound": bound}
    if loss_difference is not None:
        figures["loss_difference"] = loss_difference
    largest = max(difference, loss_difference or 0.0)
    if largest < bound:
        return "", figures
    return f"differs by {largest:.1e}, wanted less than {bound:.0e}", figures


def text_of(changes: Changes) -> str:
    """Write changes as overrides."""
    reported = [f"{name}={value}" for name, value in changes.items() if _USUAL.get(name) != value]
    return " ".join(reported) or "-"


def _write_checks(part_json: str, out: str) -> None:
    """Write a line of JSON per check."""
    own_process.die_with(int(os.environ[ORCHESTRATOR_VARIABLE]))
    part = Part.from_json(part_json)
    with Path(out).open("w") as file:

        def write(check: Check) -> None:
            file.write(json.dumps(asdict(check)) + "\n")
            file.flush()

        try:
            if VARIABLE_UPDATES[part.mode.variable_update].is_of_one_host:
                checks = _checks_of_workers(part)
            else:
                checks = _checks(part)
            for check in checks:
                write(check)
        except UnsupportedTrialError as error:
            refusal = str(error)
            write(Check(mode=part.mode.name, options="-", outcome="unsupported", problem=refusal))


JOIN_LIMIT_S = 60.0
_CHECKED: tuple[Changes, ...] = (
    {},
    {"steps_per_execution": NUM_STEPS},
    {"gradient_accumulation": NUM_MICRO_BATCHES},
)
_IN_BUCKETS: Changes = {"gradient_repacking": 3}


def _checks_of_workers(part: Part) -> Iterator[Check]:
    """Yield the checks of a mode whose replicas are processes."""
    mode, bench = part.mode, part.bench
    if bench.kind == "logical_gpu":
        raise UnsupportedTrialError("each of its processes needs a physical GPU of its own")
    kind = DeviceKind(bench.kind)
    alone = selfcheck.of_one_device(bench)
    spec = own_rank.with_processes(selfcheck.of_mode(mode, bench))
    towers.load("variable_updates", mode.variable_update).check(spec)
    repacks = mode.all_reduce in VARIABLE_UPDATES[mode.variable_update].repacks_with
    checked = (*_CHECKED, _IN_BUCKETS) if repacks else _CHECKED
    batches = list(exactness.whole_batches(bench.num_replicas, NUM_STEPS))
    with TemporaryDirectory() as folder:
        left = [Path(folder) / str(number) for number in range(len(checked))]
        for path, changes in zip(left, checked, strict=True):
            path.mkdir()
            _run_workers(replace(spec, **changes), path)
        first = devices.claim(kind, 1)
        reference, loss = exactness.train_to_loss(alone, first, batches)
        whole = reference.update.weights(0)
        bound = BOUNDS[bench.kind]
        for path, changes in zip(left, checked, strict=True):
            yield _compared(
                mode, changes, [path / str(i) for i in range(spec.hosts)], whole, loss, bound
            )


def _run_workers(spec: TrialSpec, folder: Path) -> None:
    """Fork a worker per process of the trial; all end before it returns."""
    forking = multiprocessing.get_context("fork")
    with reserved_ports(spec.hosts) as reserved:
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
    update = towers.load("variable_updates", spec.variable_update)
    on = update.join(spec, cluster, rank, JOIN_LIMIT_S)
    batches = list(exactness.whole_batches(spec.num_gpus, NUM_STEPS))
    with op_placement.recorded() as placement:
        training, loss = exactness.train_to_loss(spec, on, batches)
    problem = placement.problem(training.wanted(spec))
    if problem:
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
    check = Check(mode=mode.name, options=text_of(changes), outcome="failed")
    difference = loss_difference = 0.0
    for path in left:
        said, weights = path.with_suffix(".txt"), path.with_suffix(".npz")
        if said.exists():
            return replace(check, problem=said.read_text())
        if not weights.exists():
            return replace(check, problem="a worker ended without a word")
        arrays = np.load(weights)
        ours = [arrays[f"arr_{number}"] for number in range(len(whole))]
        difference = max(difference, exactness.largest_difference(ours, whole))
        loss_difference = max(loss_difference, abs(float(arrays["loss"]) - loss))
    problem, figures = _within(bound, difference, loss_difference)
    return replace(check, outcome="failed" if problem else "passed", problem=problem, **figures)


if __name__ == "__main__":
    _write_checks(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # past the interpreter's exit, in which a library may hang or crash
