"""Trains a small model in one mode, and checks it, for `selfcheck.py`: a rank of what that starts.

A synchronous mode must reach the weights of one device with the whole batch, and every op must run
where the mode says. Worker 0 makes the checks. Where every worker trains, all make them together,
each of its own replicas; else the others serve it.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import trainer
from scalemark import layers
from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES, jobs_of
from scalemark.records.attempt import WORKER_0
from scalemark.records.machine import DeviceKind
from scalemark.records.trial import TrialSpec, strategy_name
from scalemark.run_folder import RunFolder
from scalemark.text.untrusted import telling_line
from trainer import devices, keras_model, own_process, run
from trainer.devices import Devices, on_each
from trainer.keras_model import Kernels
from trainer.model_tower import Batch
from trainer.own_rank import OwnRank, start_beat
from trainer.selfcheck import ONE_DEVICE, Bench, Check, bench_file, checks_file
from trainer.towers import Towers
from trainer.watching import op_placement

IMAGE_PX, NUM_CLASSES, BATCH_SIZE = 8, 5, 8  # per replica

WholeBatch = tuple[np.ndarray, np.ndarray]  # inputs and labels of all replicas together


def convolutional(kernels: Kernels = Kernels.ANY) -> keras.Model:
    """Build convolutions, pooling and a dense layer.

    Batch normalization and dropout would make N batches differ from one.
    """
    x = layers.images(IMAGE_PX)
    x = layers.conv(x, 4, 3)
    x = layers.conv(x, 5, 3)
    x = layers.flatten(layers.max_pool(x, 2, 2))
    return keras_model.build(layers.logits(x, NUM_CLASSES), kernels=kernels)


def normalized(kernels: Kernels = Kernels.ANY) -> keras.Model:
    """Build a model with batch normalization and dropout, whose state is each replica's own."""
    x = layers.images(IMAGE_PX)
    x = layers.relu(layers.conv_norm(x, 4, 3))
    x = layers.dropout(layers.flatten(x))
    return keras_model.build(layers.logits(x, NUM_CLASSES), kernels=kernels)


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
    model: run.MakeModel = convolutional,
) -> tuple[run.Training, float]:
    """Take a step on every whole batch, split evenly over the replicas; return the loss of the last
    one, too. Their number must be a multiple of steps_per_execution.
    """
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
    training, _ = train(spec, one_device, [])
    weights = seen = training.update.weights(0)
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

    def model(kernels: Kernels) -> keras.Model:
        built = convolutional(kernels)
        for variable, value in zip(built.trainable_variables, weights, strict=True):
            variable.assign(value)
        return built

    plain = replace(spec, optimizer="sgd", momentum=0.0, weight_decay=0.0, learning_rate=1.0)
    training, _ = train(plain, one_device, [batch], model)
    after = training.update.weights(0)
    return [before - now for before, now in zip(weights, after, strict=True)]


def largest_difference(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """Return the largest of any value; NaN where one is."""
    largest = [np.abs(own - other).max() for own, other in zip(ours, theirs, strict=True)]
    return float(np.max(largest))


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
    return on_each(devices.replicas, lambda batch: (batch[0][index], batch[1][index]), batches)


NUM_STEPS = 3
NUM_MICRO_BATCHES = 4
NUM_PACKS = 2
# of weights after three steps, fp32; cuDNN sums a batch of 2 B in another order than two of B
BOUNDS = {"cpu_device": 1e-6, "logical_gpu": 1e-5, "gpu": 1e-5}
COMPACT = 1e-3  # gradients sent in float16
LOGICAL_GPU_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the table of checks: a mode with some axes changed."""

    changes: dict[str, Any]  # fields of TrialSpec
    bound: float | None = None  # of the difference from one device; without, replicas are compared
    compares_loss: bool = False
    model: run.MakeModel = convolutional

    @property
    def options(self) -> str:
        """Return what differs from the plain mode, as overrides."""
        if self.model is not convolutional:
            return f"model={self.model.__name__}"
        return " ".join(f"{name}={value}" for name, value in self.changes.items()) or "-"


def table(spec: TrialSpec, bound: float) -> Iterator[Row]:
    """Yield all that is checked of a mode, whose plain trial comes first."""
    abilities = VARIABLE_UPDATES[spec.variable_update]
    others = [name for name, precision in PRECISIONS.items() if precision.tolerance]
    if not abilities.is_synchronous:
        yield Row(changes={})
        for name in others:
            yield Row(changes={"precision": name})
        return
    if abilities.has_own_loop:
        yield Row(changes={}, bound=bound, compares_loss=True)
        return
    packs: list[dict[str, Any]] = [{}]
    if spec.all_reduce in abilities.repacks_with:
        packs.append({"gradient_repacking": NUM_PACKS})
    for pack, steps in product(packs, ({}, {"steps_per_execution": NUM_STEPS})):
        yield Row(changes=pack | steps, bound=bound, compares_loss=True)
    accumulates = {"gradient_accumulation": NUM_MICRO_BATCHES}
    yield Row(changes=accumulates, bound=bound, compares_loss=True)
    if abilities.every_worker_trains:
        return
    # XLA compiles the same tower in every combination, once per replica: one is enough
    yield Row(changes={"xla": "on"}, bound=bound, compares_loss=True)
    yield Row(changes={}, model=normalized)
    if abilities.stages:  # comparable with `one_step_stale` without weight decay
        yield Row(changes={"staged_vars": True, "weight_decay": 0.0}, bound=bound)
    if abilities.compacts:
        for pack in packs:
            yield Row(changes={"compact_gradients": True} | pack, bound=COMPACT)
    yield Row(changes={"data_format": "NCHW"}, bound=bound)
    for name in others:
        changes = {"precision": name}
        if PRECISIONS[name].is_loss_scaled:
            changes["loss_scale"] = "dynamic"
        yield Row(changes=changes, bound=PRECISIONS[name].tolerance)


class ModeCheck:
    """The checks of one mode, by one of the processes that train."""

    def __init__(self, spec: TrialSpec, on: Devices, bound: float) -> None:
        self._name = name_of(spec)
        self._spec, self._devices, self._bound = spec, on, bound
        self._batches = list(whole_batches(spec.num_gpus, NUM_STEPS))
        self._one = replace(on, replicas=on.replicas[:1], first=0, num_elsewhere=0, lockstep=None)
        self._alone = replace(ONE_DEVICE, device_kind=spec.device_kind)
        training, self._loss = train(self._alone, self._one, self._batches)
        self._weights = training.update.weights(0)

    def all(self) -> Iterator[Check]:
        """Yield all checks; a mode that cannot run here at all says so once."""
        for row in table(self._spec, self._bound):
            check = self._check(row)
            yield check
            if check.outcome == "unsupported" and row.options == "-":
                return

    def _check(self, row: Row) -> Check:
        """Train, look where the ops ran, then compare."""
        check = Check(mode=self._name, options=row.options, outcome="failed")
        spec = replace(self._spec, **row.changes)
        try:
            with op_placement.recorded() as placement:
                training, loss = train(spec, self._devices, self._batches, row.model)
            problem = placement.problem(training.wanted(spec))
            if problem:
                return replace(check, problem=problem)
            if row.bound is None:
                problem = self._problem_between_replicas(training)
                return replace(check, problem=problem, outcome="failed" if problem else "passed")
            return self._compared(replace(check, bound=row.bound), row, training, loss)
        except trainer.UnsupportedTrialError as error:
            return replace(check, problem=str(error), outcome="unsupported")
        except Exception as error:  # whatever it is, it is this check that failed
            if self._devices.num_elsewhere:
                raise  # other workers would wait for this one's next step
            problem = f"{type(error).__name__}: {telling_line(str(error))}"
            return replace(check, problem=problem)

    def _compared(self, check: Check, row: Row, training: run.Training, loss: float) -> Check:
        """Compare the weights of all replicas with one device's, and the last step's loss."""
        reference = self._weights
        if "staged_vars" in row.changes:
            reference = one_step_stale(self._alone, self._one, self._batches)
        differences = [
            largest_difference(training.update.weights(replica), reference)
            for replica in range(len(self._devices.replicas))
        ]
        check = replace(check, difference=float(np.max(differences)))
        if row.compares_loss:
            differences.append(abs(loss - self._loss))
            check = replace(check, loss_difference=differences[-1])
        largest = float(np.max(differences))  # NaN where one is
        if check.bound is not None and largest < check.bound:
            return replace(check, outcome="passed")
        return replace(
            check, problem=f"differs by {largest:.1e}, wanted less than {check.bound:.0e}"
        )

    def _problem_between_replicas(self, training: run.Training) -> str:
        """Return what is wrong where only weights are shared, or, of `independent`, nothing is."""
        assert isinstance(training.towers, Towers)
        weights, statistics = training.update.weights, training.towers.statistics
        is_synchronous = VARIABLE_UPDATES[self._spec.variable_update].is_synchronous
        for replica in range(1, len(self._devices.replicas)):
            apart = largest_difference(weights(0), weights(replica))
            if not is_synchronous:
                if apart == 0:
                    return "replicas that share nothing have equal weights"
            elif apart:
                return f"weights of replicas differ by {apart:.1e}"
            elif largest_difference(statistics(0), statistics(replica)) == 0:
                return "replicas share batch statistics"
        return ""


def name_of(spec: TrialSpec) -> str:
    return strategy_name(spec.variable_update, spec.local_parameter_device, spec.all_reduce)


def main(spec: TrialSpec, folder: RunFolder, own: OwnRank | None) -> int:
    """Be one rank of a mode: write a line of JSON per check, or serve worker 0."""
    bench = Bench.from_json(bench_file(folder).read_text())
    own = own if jobs_of(spec) else None
    rank = own.rank if own else WORKER_0
    if own and not own.leads and not VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        _claim(spec, bench, rank.job_name)
        run.serve_claimed(own.cluster, own.rank, lambda: None)
    with checks_file(folder, rank).open("w") as file:
        for check in _checks(spec, folder, bench, own):
            print(json.dumps(asdict(check)), file=file, flush=True)
    return 0


def _checks(
    spec: TrialSpec, folder: RunFolder, bench: Bench, own: OwnRank | None
) -> Iterator[Check]:
    """Yield the checks that this rank makes."""
    try:
        on = _devices(spec, folder, bench, own)
    except trainer.UnsupportedTrialError as error:
        yield Check(mode=name_of(spec), options="-", outcome="unsupported", problem=str(error))
        return
    yield from ModeCheck(spec, on, BOUNDS[bench.kind]).all()
    if on.num_elsewhere:
        # who has taken one step more knows that all have taken theirs, and goes
        with suppress(tf.errors.OpError):
            train(spec, on, list(whole_batches(spec.num_gpus, 1)))


def _devices(spec: TrialSpec, folder: RunFolder, bench: Bench, own: OwnRank | None) -> Devices:
    """Return the devices of all ranks, or of one that trains among others."""
    if own and VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        if bench.kind == "logical_gpu":
            raise trainer.UnsupportedTrialError(
                "each of its processes needs a physical GPU of its own"
            )
        start_beat(folder, own.rank)
        return run.join(spec, folder, own)
    claimed = _claim(spec, bench, WORKER_0.job_name)
    return devices.connect(claimed, own.cluster) if own else claimed


def _claim(spec: TrialSpec, bench: Bench, job_name: str) -> Devices:
    """Claim the devices of one rank."""
    if job_name != WORKER_0.job_name:
        return devices.claim(DeviceKind.CPU_DEVICE, 0)
    if bench.kind == "logical_gpu":
        return devices.logical_gpus(spec.gpus_per_host, LOGICAL_GPU_BYTES)
    return devices.claim(DeviceKind(bench.kind), spec.gpus_per_host)


if __name__ == "__main__":
    own_process.run_by_command(main, "trainer.mode_check", "Checks one mode.", has_ranks=True)
