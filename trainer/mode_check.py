"""Trains a small model in one mode, and checks it, for `selfcheck.py` in a process of its own.

`python -m trainer.mode_check PART_JSON OUT` proves exactness and placement: a synchronous mode must
reach the weights of one device with the whole batch. It writes a line of JSON per check. Where
every replica is a process that trains, it forks the workers of each check before it touches a
device itself, and compares what they left with one device.
"""

import json
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import trainer
from scalemark import layers
from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES
from scalemark.records.attempt import ORCHESTRATOR_VARIABLE, WORKER_0, Cluster, Rank
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec
from scalemark.text.untrusted import telling_line
from trainer import devices, keras_model, own_process, own_rank, run, selfcheck, towers
from trainer.devices import Devices
from trainer.model_tower import Batch
from trainer.own_rank import reserved_ports
from trainer.selfcheck import Bench, Check, Mode, Part
from trainer.watching import op_placement

IMAGE_PX, NUM_CLASSES, BATCH_SIZE = 8, 5, 8  # per replica

WholeBatch = tuple[np.ndarray, np.ndarray]  # inputs and labels of all replicas together


def convolutional() -> keras.Model:
    """Build convolutions, pooling and a dense layer.

    Batch normalization and dropout would make N batches differ from one.
    """
    x = layers.images(IMAGE_PX)
    x = layers.conv(x, 4, 3)
    x = layers.conv(x, 5, 3)
    x = layers.flatten(layers.max_pool(x, 2, 2))
    return keras_model.build(layers.logits(x, NUM_CLASSES))


def normalized() -> keras.Model:
    """Build a model with batch normalization and dropout, whose state is each replica's own."""
    x = layers.images(IMAGE_PX)
    x = layers.relu(layers.conv_norm(x, 4, 3))
    x = layers.dropout(layers.flatten(x))
    return keras_model.build(layers.logits(x, NUM_CLASSES))


def whole_batches(num_replicas: int, num_steps: int) -> Iterator[WholeBatch]:
    """Yield images (N * B, H, W, 3) float32 and labels (N * B,) int64, always the same ones."""
    random = np.random.default_rng(7)
    size = num_replicas * BATCH_SIZE
    for _ in range(num_steps):
        images = random.normal(size=(size, IMAGE_PX, IMAGE_PX, 3)).astype("float32")
        yield images, random.integers(0, NUM_CLASSES, size)


def train(
    spec: TrialSpec,
    devices: Devices,
    batches: Sequence[WholeBatch],
    model: Callable[[], keras.Model] | None = convolutional,
) -> run.Training:
    """Take a step on every whole batch, split evenly over the replicas; a `model` of None is the
    one that the trial names.

    Their number must be a multiple of steps_per_execution.
    """
    return train_to_loss(spec, devices, batches, model)[0]


def train_to_loss(
    spec: TrialSpec,
    devices: Devices,
    batches: Sequence[WholeBatch],
    model: Callable[[], keras.Model] | None = convolutional,
) -> tuple[run.Training, float]:
    """Do the same as `train`, and return the loss of the last step, too."""
    training = run.build(spec, devices, model, partial(at, devices))
    per_call, loss = spec.steps_per_execution, float("nan")
    for first in range(0, len(batches), per_call):
        loss = float(training.towers.step(split(batches[first : first + per_call], devices)))
    return training, loss


def one_step_stale(
    spec: TrialSpec, one_device: Devices, batches: Sequence[WholeBatch]
) -> list[np.ndarray]:
    """Compute in numpy the weights that `staged_vars` must reach, without weight decay.

    w(t+1) = w(t) - lr a(t), a(t) = m a(t-1) + g(w(t-1)), with g from plain steps of one device.
    """
    weights = seen = train(spec, one_device, []).update.weights(0)
    velocity = [np.zeros_like(value) for value in weights]
    for batch in batches:
        gradients = gradients_at(seen, spec, one_device, batch)
        velocity = [spec.momentum * v + g for v, g in zip(velocity, gradients, strict=True)]
        seen = weights
        weights = [w - spec.learning_rate * v for w, v in zip(weights, velocity, strict=True)]
    return weights


def gradients_at(
    weights: Sequence[np.ndarray], spec: TrialSpec, one_device: Devices, batch: WholeBatch
) -> list[np.ndarray]:
    """Return the gradients at these weights, by a step of plain gradient descent of rate 1."""

    def model() -> keras.Model:
        built = convolutional()
        for variable, value in zip(built.trainable_variables, weights, strict=True):
            variable.assign(value)
        return built

    plain = replace(spec, optimizer="sgd", momentum=0.0, weight_decay=0.0, learning_rate=1.0)
    after = train(plain, one_device, [batch], model).update.weights(0)
    return [before - now for before, now in zip(weights, after, strict=True)]


def largest_difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    largest = 0.0
    for own, other in zip(ours, theirs, strict=True):
        largest = max(largest, float(np.abs(own - other).max()))
    return largest


def split(batches: Sequence[WholeBatch], devices: Devices) -> list[Batch]:
    """Split by replica of this process; several batches get a leading dimension of steps."""
    images, labels = (
        np.split(np.stack(arrays), devices.num_all, 1) for arrays in zip(*batches, strict=True)
    )
    parts = []
    for replica, device in enumerate(devices.replicas, devices.first):
        with tf.device(device):
            whole = tf.constant(images[replica]), tf.constant(labels[replica])
            parts.append(whole if len(batches) > 1 else (whole[0][0], whole[1][0]))
    return parts


def at(devices: Devices, batches: list[Batch], index: tf.Tensor) -> list[Batch]:
    """Implement `trainer.towers.Input.at`."""
    chosen = []
    for device, (images, labels) in zip(devices.replicas, batches, strict=True):
        with tf.device(device):
            chosen.append((images[index], labels[index]))
    return chosen


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
        self._batches = list(whole_batches(bench.num_replicas, NUM_STEPS))

    def all(self) -> Iterator[Check]:
        """Yield all checks of the part; a mode that cannot run here at all says so once."""
        try:
            run.build(self._spec, self._devices, convolutional)
        except trainer.UnsupportedTrialError as error:
            yield Check(mode=self._name, options="-", outcome="unsupported", problem=str(error))
            return
        is_plain = self._spec.precision in self._precisions
        if not self._abilities.is_synchronous:
            for precision in self._precisions:
                yield self._trained(self._precision(precision), self._drifts)
            return
        alone, loss = train_to_loss(self._alone, self._one, self._batches)
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
        yield self._trained({}, self._normalizes_alone, normalized, "model=normalized")
        if self._abilities.stages:
            stale = one_step_stale(self._alone, self._one, self._batches)
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
                difference = max(difference, largest_difference(weights, reference))
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
        model: Callable[[], keras.Model] = convolutional,
        options: str = "",
    ) -> Check:
        """Train, look where the ops ran, then judge."""
        options = options or text_of(changes)
        figures: Found = {}
        try:
            spec = replace(self._spec, **changes)
            with op_placement.recorded() as placement:
                training, last_loss = train_to_loss(spec, self._devices, self._batches, model)
            problem = placement.problem(training.wanted(spec)) or ""
            if not problem:
                problem, figures = judge(training, last_loss)
            outcome = "failed" if problem else "passed"
        except trainer.UnsupportedTrialError as error:
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
    with started(bench.num_hosts, lambda rank: _claim_own(bench, rank)) as cluster:
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
    return largest_difference(of_replica(0), of_replica(replica))


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
        except trainer.UnsupportedTrialError as error:
            refusal = str(error)
            write(Check(mode=part.mode.name, options="-", outcome="unsupported", problem=refusal))


START_TIMEOUT_S = 120.0


@contextmanager
def started(num_hosts: int, claim: Callable[[Rank], object]) -> Iterator[Cluster]:
    """Fork a cluster whose worker 0 is this process, with a parameter server per host.

    Call it before TensorFlow touches any device. `claim` makes a worker's devices, in its process.
    All end with the block, or with this process. Raises LostRankError for a rank that does not
    start.
    """
    with ExitStack() as stack:
        ports = stack.enter_context(reserved_ports(2 * num_hosts))
        addresses = tuple(f"127.0.0.1:{port}" for port in ports)
        cluster = Cluster(worker_hosts=addresses[:num_hosts], ps_hosts=addresses[num_hosts:])
        others = [rank for rank in cluster.ranks if rank != WORKER_0]
        connections = [_fork(stack, cluster, rank, claim) for rank in others]
        for rank, connection in zip(others, connections, strict=True):
            _wait_for(rank, connection)
        yield cluster


def _wait_for(rank: Rank, ready: Connection) -> None:
    try:
        if ready.poll(START_TIMEOUT_S):
            ready.recv()
            return
    except EOFError:  # it has ended
        pass
    raise trainer.LostRankError(f"{rank.name} did not start; what it said is above")


def _fork(
    stack: ExitStack, cluster: Cluster, rank: Rank, claim: Callable[[Rank], object]
) -> Connection:
    forking = multiprocessing.get_context("fork")
    here, there = forking.Pipe(duplex=False)
    process = forking.Process(
        target=_serve, args=(os.getpid(), cluster, rank, claim, there), name=rank.name, daemon=True
    )
    process.start()
    there.close()
    stack.callback(process.join)
    stack.callback(process.kill)
    return here


def _serve(
    starter: int, cluster: Cluster, rank: Rank, claim: Callable[[Rank], object], ready: Connection
) -> None:
    own_process.die_with(starter)
    if rank.job_name == "worker":
        claim(rank)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        devices.claim(DeviceKind.CPU_DEVICE, 0)
    run.serve_claimed(cluster, rank, lambda: ready.send(True))


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
        raise trainer.UnsupportedTrialError("each of its processes needs a physical GPU of its own")
    kind = DeviceKind(bench.kind)
    alone = selfcheck.of_one_device(bench)
    spec = own_rank.with_processes(selfcheck.of_mode(mode, bench))
    towers.load("variable_updates", mode.variable_update).check(spec)
    repacks = mode.all_reduce in VARIABLE_UPDATES[mode.variable_update].repacks_with
    checked = (*_CHECKED, _IN_BUCKETS) if repacks else _CHECKED
    batches = list(whole_batches(bench.num_replicas, NUM_STEPS))
    with TemporaryDirectory() as folder:
        left = [Path(folder) / str(number) for number in range(len(checked))]
        for path, changes in zip(left, checked, strict=True):
            path.mkdir()
            _run_workers(replace(spec, **changes), path)
        first = devices.claim(kind, 1)
        reference, loss = train_to_loss(alone, first, batches)
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
    batches = list(whole_batches(spec.num_gpus, NUM_STEPS))
    with op_placement.recorded() as placement:
        training, loss = train_to_loss(spec, on, batches)
    problem = placement.problem(training.wanted(spec))
    if problem:
        out.with_suffix(".txt").write_text(f"{rank.name}: {problem}")
    np.savez(out.with_suffix(".npz"), *training.update.weights(0), loss=loss)
    # who has taken one step more knows that all have taken theirs, and goes
    last = split(batches[: spec.steps_per_execution], on)
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
        difference = max(difference, largest_difference(ours, whole))
        loss_difference = max(loss_difference, abs(float(arrays["loss"]) - loss))
    problem, figures = _within(bound, difference, loss_difference)
    return replace(check, outcome="failed" if problem else "passed", problem=problem, **figures)


if __name__ == "__main__":
    _write_checks(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # past the interpreter's exit, in which a library may hang or crash
