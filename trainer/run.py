"""Runs one trial from its spec to its result. Read this file first.

```
  devices ─► model (template) ─► variable update + all-reduce + optimizer ─► towers
                                                                               │
  result.json ◄─ verdict ◄─ measurement ◄─ warm-up and measured steps ◄─ first call ◄─ trace
```
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn, SupportsFloat, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

import trainer
from scalemark import models
from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES
from scalemark.own_model import is_own
from scalemark.records import switches
from scalemark.records.attempt import WORKER_0, Cluster, Placement, Rank
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import (
    TOKENS,
    AttemptResult,
    Doing,
    Measurement,
    Outcome,
    Profile,
    ReplicaTimes,
    StepSample,
)
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from scalemark.text.untrusted import telling_line
from trainer import devices, keras_model, measured, own_model, own_process, towers
from trainer.data.synthetic import Synthetic
from trainer.keras_model import Example, Kernels, Template, definition
from trainer.own_rank import OwnRank, joining, start_beat, wait_for_beats
from trainer.watching import op_placement, profile, telemetry, utilization

PROFILED_CALLS = 5
# The supervisor gives up first, because it can name the rank that is missing.
LONGER_THAN_DEADLINE_S = 30.0
# Encoding and writing one sample takes as long as a small model's step, so they are written in
# batches, often enough for whoever watches.
FLUSH_EVERY_S = 0.5


def run(
    spec: TrialSpec,
    folder: RunFolder,
    given: Placement | None = None,
    cluster: Cluster | None = None,
) -> AttemptResult:
    """Train and measure one trial; write steps, telemetry and a profile into its folder.

    A trial started by hand has no placement (`given`). With a `cluster`, this process is its
    worker 0. A trial that did not do what its spec says is invalid and keeps its measurement as
    evidence. Raises UnsupportedTrialError, LostRankError, or what TensorFlow raises.
    """
    with devices.naming_lost_ranks(cluster):
        return _run(spec, folder, given, cluster)


def _run(
    spec: TrialSpec, folder: RunFolder, given: Placement | None, cluster: Cluster | None
) -> AttemptResult:
    trial_devices = _devices(spec, folder, cluster)
    gpus = telemetry.watched(spec, given)
    spare_core, shares_host = None, False
    if given:
        spare_core, shares_host = given.spare_core, given.shares_host
    with telemetry.watching(gpus.uuids, folder.telemetry, spare_core):
        training, data = open_training(spec, trial_devices)
        first = _take_first_step(training, data)
        folder.write(folder.doing, Doing.STEPPING)
        timed, taken = _measure(spec, training, data, folder, given, cluster)
        folder.write(folder.doing, Doing.PROFILING)

        measurement = _measurement(spec, training, first, timed, taken)
        start_s = timed.window_start_s
        seen = telemetry.summarize(folder.telemetry, start_s, start_s + timed.window_s)
        of_example = training.template.items_per_example
        measurement = utilization.with_utilization(
            measurement, spec, of_example, trial_devices, folder, cluster, seen
        )

    problem = _problem(spec, training, first, timed, measurement)
    judged, reasons = measured.judge(
        spec,
        measurement,
        timed.step_durations_s(),
        seen,
        gpus.num_wanted,
        num_cores=len(os.sched_getaffinity(0)),
        shares_host=shares_host,
        problem=problem,
    )
    times, no_times = _replica_times(spec, training, data)
    profiled, no_profile = _profile(spec, training, data, folder)
    if trial_devices.lockstep:
        trial_devices.lockstep.end(lambda: training.towers.step(data.next()))
    return AttemptResult(
        outcome=Outcome.INVALID if problem else Outcome.COMPLETED,
        message=problem or "; ".join(filter(None, (no_times, no_profile))),
        measurement=measurement,
        op_placement=first.placement.summary(),
        verdict=judged,
        verdict_reasons=reasons,
        gpu_telemetry=seen,
        profile=profiled,
        replica_times=times,
    )


def _devices(spec: TrialSpec, folder: RunFolder, cluster: Cluster | None) -> devices.Devices:
    if cluster and VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        return join(spec, folder, OwnRank(cluster=cluster, rank=WORKER_0))
    reach_s = folder.read_rank_limits().start_timeout_s + LONGER_THAN_DEADLINE_S
    return devices.prepare(spec, cluster, reach_s)


def join(spec: TrialSpec, folder: RunFolder, own: OwnRank) -> devices.Devices:
    """Return this worker's devices once all workers have joined. Start its heartbeat before."""
    wait_for_beats(folder, own.others)
    update = towers.load("variable_updates", spec.variable_update)
    with joining():
        return update.join(spec, own.cluster, own.rank, folder.read_rank_limits().start_timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStep:
    """The first call of the training function: it is traced, then compiled and run."""

    trace_s: float | None  # None where a loop of others traces within the first step
    first_step_s: float
    time_to_first_step_s: float
    loss: float
    placement: op_placement.OpPlacement


def cannot_cancel(update: towers.Trained) -> bool:
    """Return whether its replicas would wait for ever for one that failed."""
    return update.num_summed > 1 and "NcclAllReduce" in update.reduction_ops


def _take_first_step(
    training: Training, data: towers.Input, clock: Callable[[], float] = time.monotonic
) -> FirstStep:
    batches = data.next()
    start = traced = clock()
    alone = trace_s = None
    if isinstance(training.towers, towers.Towers):
        # What runs alone shares its tower with the step, and so is traced and compiled in its time.
        if cannot_cancel(training.update):
            alone = training.towers.traced_alone(batches)
        training.towers.step.trace(batches)
        traced = clock()
        trace_s = traced - start
    if alone:
        float(alone())
    with op_placement.recorded() as placement:
        loss = float(training.towers.step(batches))
    return FirstStep(
        trace_s=trace_s,
        first_step_s=clock() - traced,
        time_to_first_step_s=measured.process_age_s(),
        loss=loss,
        placement=placement,
    )


def _measure(
    spec: TrialSpec,
    training: Training,
    data: towers.Input,
    folder: RunFolder,
    given: Placement | None,
    cluster: Cluster | None,
) -> tuple[measured.Timed, float | None]:
    """Warm up and take the measured steps; return them and the cores that others took meanwhile."""
    own_cpu_s = telemetry.cpu_of_ranks_s if cluster else telemetry.own_cpu_s
    window: list[telemetry.HostMoment] = []
    with _steps_file(folder) as add_sample:
        clock = measured.StepClock(
            synchronize=lambda: devices.synchronize(training.devices),
            effort=measured.Effort(
                min_warm_up_steps=spec.min_warm_up_steps,
                num_steps=spec.num_steps,
                min_window_s=spec.min_window_s,
                steps_per_call=spec.steps_per_execution,
                min_warm_up_s=spec.min_warm_up_s,
            ),
            on_sample=add_sample,
            on_window=lambda: window.append(telemetry.now(own_cpu_s)),
        )
        if isinstance(training.towers, towers.Towers):
            measured.run_steps(clock, data.next, training.towers.step)
        else:
            training.towers.run_steps(data.next(), clock)
    timed = clock.timed
    if not telemetry.knows_own_processes(cluster, given):
        return timed, None
    begin, end = window
    return timed, telemetry.cores_taken_by_others(begin, end)


def _measurement(
    spec: TrialSpec,
    training: Training,
    first: FirstStep,
    timed: measured.Timed,
    cores_taken_by_others: float | None,
) -> Measurement:
    return measured.measurement(
        timed,
        items_per_step=training.items_per_step(spec),
        item=training.template.item,
        time_to_first_step_s=first.time_to_first_step_s,
        trace_s=first.trace_s,
        first_step_s=first.first_step_s,
        first_loss=first.loss,
        knows_data_wait=isinstance(training.towers, towers.Towers),
        cores_taken_by_others=cores_taken_by_others,
        peak_host_memory_bytes=_peak_host_memory_bytes(),
        peak_device_memory_bytes=_peak_device_memory_bytes(training.devices),
        num_skipped_steps=training.towers.loss_scale.num_skipped,
        last_loss_scale=training.towers.loss_scale.current,
        num_parameters=training.num_parameters,
        variable_bytes=towers.variable_bytes(training.update),
        optimizer_state_bytes=towers.optimizer_state_bytes(training.update),
    )


def _problem(
    spec: TrialSpec,
    training: Training,
    first: FirstStep,
    timed: measured.Timed,
    measurement: Measurement,
) -> str | None:
    """Return what makes the trial invalid, if anything."""
    num_steps = 1 + sum(sample.num_steps for sample in timed.samples)
    if measurement.num_skipped_steps >= num_steps:
        return (
            f"every step overflowed and was skipped; choose a smaller loss_scale={spec.loss_scale}"
        )
    if any(sample.loss is None for sample in timed.samples):
        return "the loss is not finite; try a smaller learning_rate"
    return first.placement.problem(training.wanted(spec))


def _replica_times(
    spec: TrialSpec, training: Training, data: towers.Input
) -> tuple[ReplicaTimes | None, str]:
    """Return each replica's times where wanted, or why there are none."""
    if not spec.replica_times:
        return None, ""
    assert isinstance(training.towers, towers.Towers)  # loops of others refuse it
    try:
        batches = data.next()
        if spec.steps_per_execution > 1:
            batches = data.at(batches, tf.constant(0))
        weights = [tf.constant(values) for values in training.update.weights(0)]
        return op_placement.time_replicas(training.towers, weights, batches, training.devices), ""
    except tf.errors.OpError as error:
        traceback.print_exc()
        return None, f"no replica_times: {type(error).__name__}: {telling_line(str(error))}"


def _profile(
    spec: TrialSpec, training: Training, data: towers.Input, folder: RunFolder
) -> tuple[Profile | None, str]:
    """Return the profile where it is wanted, or why there is none: its failure does not spoil the
    measurement. Each loss is read once the next step is on its way, as in the measured steps.
    """
    if not spec.profile:
        return None, ""
    waits_s: list[float] = []
    pending: list[SupportsFloat] = []  # one at most

    def take_step() -> None:
        start = time.monotonic()
        batches = data.next()
        waits_s.append(time.monotonic() - start)
        pending.append(training.towers.step(batches))
        if len(pending) > 1:
            float(pending.pop(0))

    try:
        path = profile.capture(take_step, PROFILED_CALLS, folder.profile)
        profiled = profile.read(path, statistics.fmean(waits_s))
    except (tf.errors.OpError, trainer.BadDataError, ValueError, OSError) as error:
        traceback.print_exc()
        return None, f"no profile: {type(error).__name__}: {str(error).splitlines()[0]}"
    return profiled, ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Everything that takes a training step."""

    devices: devices.Devices
    update: towers.Trained
    towers: towers.Towers | towers.OwnLoop
    template: Template
    num_parameters: int  # trained ones, of one replica

    def items_per_step(self, spec: TrialSpec) -> int:
        """Count the items of one step of all replicas."""
        return spec.examples_per_step * self.template.items_per_example

    def wanted(self, spec: TrialSpec) -> op_placement.Wanted:
        """Return what the graph must show for the trial to have done what its spec says."""
        return op_placement.Wanted(
            devices=self.devices,
            update=self.update,
            data_format="" if is_own(spec.model) else spec.data_format,
            compute_type=PRECISIONS[spec.precision].compute_type,
            xla=spec.xla,
        )


MakeModel: TypeAlias = Callable[[Kernels], keras.Model]


def build(
    spec: TrialSpec,
    trial_devices: devices.Devices,
    model: MakeModel | None = None,
    at: towers.At | None = None,
) -> Training:
    """Build the towers on devices already claimed.

    `model` makes another model than the spec names. `at` is the input's, and is needed only where
    a call of several steps takes a batch for each. Raises UnsupportedTrialError.
    """
    prepare(spec)
    precision = PRECISIONS[spec.precision]
    if precision.gpu_only and trial_devices.kind is not DeviceKind.GPU:
        raise trainer.UnsupportedTrialError(
            f"precision={spec.precision}: a way of GPUs; these replicas are "
            f"{trial_devices.described}"
        )
    lack = precision.lack_of(trial_devices.compute_capability)
    if lack:
        raise trainer.UnsupportedTrialError(f"precision={spec.precision}: {lack}")
    kind = towers.load("variable_updates", spec.variable_update)
    abilities, num_replicas = kind.ABILITIES, len(trial_devices.replicas)
    if num_replicas < abilities.least_replicas:
        raise trainer.UnsupportedTrialError(
            f"num_gpus={num_replicas}: variable_update={spec.variable_update} shards over "
            f"{abilities.least_replicas} replicas or more"
        )
    if spec.all_reduce not in abilities.all_reduces:
        raise trainer.UnsupportedTrialError(
            f"all_reduce={spec.all_reduce}: variable_update={spec.variable_update} has "
            f"{', '.join(abilities.all_reduces)}"
        )
    for refusal in abilities.refusals(spec):
        raise trainer.UnsupportedTrialError(refusal)
    with kind.scope(trial_devices) if abilities.has_own_loop else tf.device(trial_devices.host):
        template = _template(spec, model)
        initial = [np.asarray(variable) for variable in template.model.trainable_variables]
        if abilities.has_own_loop:
            update = steps = kind.create(spec, template, trial_devices)
    if not abilities.has_own_loop:
        optimizer = towers.load("optimizers", spec.optimizer).create(spec)
        update = kind.create(spec, initial, trial_devices, optimizer)
        steps = towers.Towers(spec, template, update, optimizer, trial_devices, at)
    return Training(
        devices=trial_devices,
        update=update,
        towers=steps,
        template=template,
        num_parameters=sum(values.size for values in initial),
    )


def open_training(spec: TrialSpec, trial_devices: devices.Devices) -> tuple[Training, towers.Input]:
    """Build the towers, then open the input that they take: setting seeds waits for all that runs,
    and holds locks that a pipeline needs which sends to other hosts. Raises UnsupportedTrialError.
    """
    if is_own(spec.model):  # it says what it takes once it is built
        training = build(spec, trial_devices)
        return training, Synthetic(spec, trial_devices, training.template.example)
    training = build(spec, trial_devices, at=lambda batches, index: data.at(batches, index))
    data: towers.Input = towers.load("data", spec.data).open_input(spec, trial_devices)
    return training, data


def _template(spec: TrialSpec, model: MakeModel | None) -> Template:
    if model is None and is_own(spec.model):
        return own_model.load(spec)
    logits = definition(spec)
    example = Example.of_model(logits, spec)
    kernels = Kernels.of(spec)
    if model:
        built = model(kernels)
    else:
        built = keras_model.build(logits, recompute=spec.recompute, kernels=kernels)
    if models.takes_tokens(logits):
        return Template(model=built, example=example, item=TOKENS, items_per_example=spec.seq_len)
    return Template(model=built, example=example)


def prepare(spec: TrialSpec) -> None:
    """Set the seed, precision and data format under which models are built.

    Raises UnsupportedTrialError for variables that TensorFlow should have seen at its import, and
    for one that overrides the precision.
    """
    if spec.device_kind == DeviceKind.GPU:
        for problem in switches.overrides_of_precision(spec.precision, os.environ):
            raise trainer.UnsupportedTrialError(problem)
    missing = switches.variables(spec, os.environ).items() - os.environ.items()
    if missing:
        raise trainer.UnsupportedTrialError(
            f"{dict(missing)} must be in the environment before TensorFlow is imported"
        )
    precision = towers.load("precisions", spec.precision).ABILITIES
    keras.mixed_precision.set_global_policy(precision.policy)
    tf.config.experimental.enable_tensor_float_32_execution(precision.tensor_float_32)
    data_formats = {"NHWC": "channels_last", "NCHW": "channels_first"}
    keras.config.set_image_data_format(data_formats[spec.data_format])
    keras.utils.set_random_seed(spec.seed)


@contextmanager
def _steps_file(folder: RunFolder) -> Iterator[Callable[[StepSample], None]]:
    """Open steps.jsonl; yield a function that writes samples to it, many at once."""
    waiting: list[StepSample] = []
    written_s = time.monotonic()

    with folder.steps.open("w") as file:

        def write() -> None:
            file.writelines(json.dumps(asdict(sample)) + "\n" for sample in waiting)
            file.flush()
            waiting.clear()

        def add(sample: StepSample) -> None:
            nonlocal written_s
            waiting.append(sample)
            if time.monotonic() - written_s > FLUSH_EVERY_S:
                write()
                written_s = time.monotonic()

        try:
            yield add
        finally:
            write()


def accompany(spec: TrialSpec, folder: RunFolder, own: OwnRank) -> AttemptResult:
    """Return once worker 0 says that all is done; a rank that serves never returns.

    Call once, before TensorFlow touches any device. Raises UnsupportedTrialError when fewer GPUs
    are visible than the host has replicas, LostRankError when the port is taken.
    """

    def on_ready() -> None:
        own_process.end_at_signals()
        start_beat(folder, own.rank)

    if VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        on_ready()
        trial_devices = join(spec, folder, own)
        training, data = open_training(spec, trial_devices)
        assert trial_devices.lockstep is not None  # it joined others
        num_calls = trial_devices.lockstep.follow(lambda: training.towers.step(data.next()))
        print(f"{own.rank.name} took {num_calls * spec.steps_per_execution} steps")
        return AttemptResult(outcome=Outcome.COMPLETED, message="")
    if own.rank.job_name == "worker":
        devices.claim_own(spec)
    else:
        devices.claim(DeviceKind.CPU_DEVICE, 0)
    serve_claimed(own.cluster, own.rank, on_ready)


def serve_claimed(cluster: Cluster, rank: Rank, on_ready: Callable[[], None]) -> NoReturn:
    """Listen on this rank's port of `cluster`, call `on_ready` once the devices that were claimed
    can be reached, and wait for a signal. Raises LostRankError when the port is taken.
    """
    with devices.naming_taken_port(cluster, rank):
        _server = tf.distribute.Server(
            devices.cluster_spec(cluster),
            job_name=rank.job_name,
            task_index=rank.task_index,
            protocol="grpc",
            config=context.context().config,
        )
    on_ready()
    while True:  # in Python, where signals are heard; the server's own `join` hears none
        signal.pause()


def _peak_host_memory_bytes() -> int:
    """Read VmHWM: unlike `ru_maxrss` it forgets the program that this process was before exec."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _peak_device_memory_bytes(trial_devices: devices.Devices) -> int | None:
    """Return the most that TensorFlow held on any one GPU of this host.

    None on CPU devices, and where the allocator keeps no count.
    """
    if trial_devices.kind is not DeviceKind.GPU or os.environ.get("TF_GPU_ALLOCATOR"):
        return None
    return max(
        tf.config.experimental.get_memory_info(name)["peak"] for name in trial_devices.own_replicas
    )
