"""Runs one trial from its spec to its result. The file to read first.

```
  devices ─► model (template) ─► variable update + all-reduce + optimizer ─► towers
                                                                               │
  result.json ◄─ verdict ◄─ measurement ◄─ warm-up and measured steps ◄─ first call ◄─ trace
```
"""

from __future__ import annotations

import json
import os
import statistics
import time
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from scalemark import models
from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES
from scalemark.records import switches
from scalemark.records.cluster import WORKER_0, Cluster
from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import Measurement, Profile, Result, StepSample
from scalemark.records.outcomes import Doing, Outcome
from scalemark.records.placement import Placement
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder
from trainer import (
    ancestor_log,
    devices,
    keras_model,
    measured,
    registry,
    timing,
    towers,
    verdict,
)
from trainer.errors import BadDataError, UnsupportedTrialError
from trainer.ranks import beat, link_probe
from trainer.ranks.own_rank import OwnRank
from trainer.watching import contention, op_placement, profile, telemetry, watched_gpus

PROFILED_CALLS = 5
LONGER_THAN_DEADLINE_S = 30.0
# how often steps are written: progress for whoever watches, at no cost for the steps
FLUSH_EVERY_S = 0.5


def run(
    spec: TrialSpec,
    folder: RunFolder,
    given: Placement | None = None,
    cluster: Cluster | None = None,
) -> Result:
    """Train and measure one trial, leaving steps.jsonl, telemetry.jsonl and a profile in the
    folder.

    `given`: the placement that was taken; none by hand. `cluster`: of a distributed trial, whose
    worker 0 this process is.

    A trial that ran but did not do what it says is invalid, with its measurement as evidence.
    Raises UnsupportedTrialError, LostRankError, or what TensorFlow raises.
    """
    with devices.naming_lost_ranks(cluster) if cluster else nullcontext():
        return _run(spec, folder, given, cluster)


def _run(
    spec: TrialSpec, folder: RunFolder, given: Placement | None, cluster: Cluster | None
) -> Result:
    trial_devices = _devices(spec, folder, cluster)
    prepare(spec)  # before the input is opened: its order depends on the seed
    watched = watched_gpus.watched(spec, given)
    with telemetry.watching(watched.uuids, folder.telemetry, given.spare_core if given else None):
        data = registry.load("data", spec.data).open_input(spec, trial_devices)
        training = build(spec, trial_devices, at=data.at)
        first = _take_first_step(training, data)
        folder.write(folder.doing, Doing.STEPPING)
        looks: list[contention.Moment] = []
        with StepsFile(folder) as steps_file:
            timed = timing.run_steps(
                next_batch=data.next,
                step=training.towers.step,
                synchronize=lambda: devices.synchronize(trial_devices),
                effort=timing.Effort(
                    min_warm_up_steps=spec.min_warm_up_steps,
                    num_steps=spec.num_steps,
                    min_window_s=spec.min_window_s,
                    steps_per_call=spec.steps_per_execution,
                ),
                on_sample=steps_file.add,
                on_window=lambda: looks.append(
                    contention.now(own_cpu=contention.cpu_of_ranks_s if cluster else None)
                ),
            )
        folder.write(folder.doing, Doing.PROFILING)
        taken = (
            contention.cores_taken_by_others(*looks)
            if contention.tells_ours(cluster, given)
            else None
        )
        measurement = _measurement(spec, training, first, timed, taken)
        # Last, for what it copies is no memory of the trial's.
        measurement = replace(measurement, link_bytes_per_s=link_probe.slowest_link(trial_devices))
        seen = telemetry.summarize(
            folder.telemetry, timed.window_start_s, timed.window_start_s + timed.window_s
        )
    for line in ancestor_log.lines(
        timed.counted(), spec.num_gpus * spec.batch_size, measurement.throughput
    ):
        print(line)
    problem = first.placement.problem(training.wanted(spec))
    if any(sample.loss is None for sample in timed.samples):
        problem = "the loss is not finite; try a smaller learning_rate"
    if measurement.num_skipped_steps >= 1 + sum(sample.num_steps for sample in timed.samples):
        problem = (
            f"every step overflowed and was skipped; choose a smaller loss_scale={spec.loss_scale}"
        )
    num_cores = len(os.sched_getaffinity(0))
    shares_host = given is not None and given.shares_host
    judged, reasons = verdict.judge(
        spec,
        measurement,
        timed.step_durations_s(),
        seen,
        watched.num_wanted,
        num_cores,
        shares_host,
        problem,
    )
    found, no_profile = _profile(training, data, folder) if spec.profile else (None, "")
    if trial_devices.lockstep:
        trial_devices.lockstep.end(lambda: training.towers.step(data.next()))
    return Result(
        outcome=Outcome.INVALID if problem else Outcome.COMPLETED,
        message=problem or no_profile,
        measurement=measurement,
        op_placement=first.placement.summary(),
        verdict=judged,
        verdict_reasons=reasons,
        gpu_telemetry=seen,
        profile=found,
    )


def _devices(spec: TrialSpec, folder: RunFolder, cluster: Cluster | None) -> devices.Devices:
    if cluster and VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        return join(spec, folder, OwnRank(cluster=cluster, rank=WORKER_0))
    return devices.prepare(spec, cluster, reach_s(folder))


def reach_s(folder: RunFolder) -> float:
    """How long worker 0 tries to connect: longer than who looks after the ranks, and names the one
    that is not there.
    """
    return folder.read_rank_limits().start_timeout_s + LONGER_THAN_DEADLINE_S


def join(spec: TrialSpec, folder: RunFolder, own: OwnRank) -> devices.Devices:
    """The devices of one of several workers that all train, once all are there. Its own beat must
    have begun.
    """
    beat.wait_for(folder, own.others)
    update = registry.load("variable_updates", spec.variable_update)
    with beat.joining():
        return update.join(spec, own.cluster, own.rank, folder.read_rank_limits().start_timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStep:
    """The first call of the training function: it is traced, then compiled and run."""

    trace_s: float
    first_step_s: float
    time_to_first_step_s: float
    loss: float
    placement: op_placement.OpPlacement


def _take_first_step(training: Training, data: towers.Input) -> FirstStep:
    batches = data.next()
    start = time.monotonic()
    training.towers.step.get_concrete_function(batches)
    traced = time.monotonic()
    with op_placement.recorded() as placement:
        loss = float(training.towers.step(batches))
    return FirstStep(
        trace_s=traced - start,
        first_step_s=time.monotonic() - traced,
        time_to_first_step_s=timing.process_age_s(),
        loss=loss,
        placement=placement,
    )


def _measurement(
    spec: TrialSpec,
    training: Training,
    first: FirstStep,
    timed: timing.Timed,
    cores_taken_by_others: float | None,
) -> Measurement:
    return measured.measurement(
        timed,
        images_per_step=spec.num_gpus * spec.batch_size,
        time_to_first_step_s=first.time_to_first_step_s,
        trace_s=first.trace_s,
        first_step_s=first.first_step_s,
        first_loss=first.loss,
        cores_taken_by_others=cores_taken_by_others,
        peak_host_memory_bytes=_peak_host_memory_bytes(),
        peak_device_memory_bytes=_peak_device_memory_bytes(training.devices),
        num_skipped_steps=training.towers.loss_scale.num_skipped,
        last_loss_scale=training.towers.loss_scale.current,
        num_parameters=training.num_parameters,
        link_bytes_per_s=None,
    )


def _profile(
    training: Training, data: towers.Input, folder: RunFolder
) -> tuple[Profile | None, str]:
    """The profile, or why there is none: what was measured before is not lost with it."""
    waits_s: list[float] = []

    def take_step() -> None:
        start = time.monotonic()
        batches = data.next()
        waits_s.append(time.monotonic() - start)
        float(training.towers.step(batches))

    try:
        path = profile.capture(take_step, PROFILED_CALLS, folder.profile)
        found = profile.read(path, statistics.fmean(waits_s))
    except (tf.errors.OpError, BadDataError, ValueError, OSError) as error:
        traceback.print_exc()
        return None, f"no profile: {type(error).__name__}: {str(error).splitlines()[0]}"
    for line in profile.describe(found):
        print(line)
    return found, ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Everything that takes a training step."""

    devices: devices.Devices
    update: towers.VariableUpdate
    towers: towers.Towers
    num_parameters: int  # trained ones, of one replica

    def wanted(self, spec: TrialSpec) -> op_placement.Wanted:
        """What the graph must show, so that the trial did what it says."""
        return op_placement.Wanted(
            devices=self.devices,
            update=self.update,
            data_format=spec.data_format,
            compute_type=PRECISIONS[spec.precision].compute_type,
            xla=spec.xla,
        )


def build(
    spec: TrialSpec,
    trial_devices: devices.Devices,
    model: Callable[[], keras.Model] | None = None,
    at: towers.At | None = None,
) -> Training:
    """Build the towers on devices already claimed; `model` makes another one than the spec names.

    `at`, an input's, is needed only where a call of several steps takes a batch for each. Raises
    UnsupportedTrialError.
    """
    prepare(spec)
    if PRECISIONS[spec.precision].gpu_only and trial_devices.kind is not DeviceKind.GPU:
        raise UnsupportedTrialError(
            f"precision={spec.precision}: a way of GPUs; these replicas are "
            f"{trial_devices.described}"
        )
    with tf.device(trial_devices.host):
        template = model() if model else _model(spec)
        initial = [np.asarray(variable) for variable in template.trainable_variables]
    optimizer = registry.load("optimizers", spec.optimizer).create(spec)
    update = registry.load("variable_updates", spec.variable_update).create(
        spec, initial, trial_devices, optimizer
    )
    return Training(
        devices=trial_devices,
        update=update,
        towers=towers.Towers(spec, template, update, optimizer, trial_devices, at),
        num_parameters=sum(values.size for values in initial),
    )


def _model(spec: TrialSpec) -> keras.Model:
    try:
        logits = models.define(spec.model, image_px=spec.image_px, num_classes=spec.num_classes)
    except models.ModelError as error:
        raise UnsupportedTrialError(str(error)) from None
    return keras_model.build(logits)


def prepare(spec: TrialSpec) -> None:
    """Set what models are built under: seed, precision, data format. Raises
    UnsupportedTrialError.
    """
    if missing := switches.variables(spec, os.environ).items() - os.environ.items():
        raise UnsupportedTrialError(
            f"{dict(missing)} must be in the environment before TensorFlow is imported"
        )
    precision = registry.load("precisions", spec.precision).ABILITIES
    keras.mixed_precision.set_global_policy(precision.policy)
    tf.config.experimental.enable_tensor_float_32_execution(precision.tensor_float_32)
    keras.config.set_image_data_format(
        {"NHWC": "channels_last", "NCHW": "channels_first"}[spec.data_format]
    )
    keras.utils.set_random_seed(spec.seed)


class StepsFile:
    """Writes samples to steps.jsonl, many at once: encoding and writing one takes as long as a
    small model's step.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._file = folder.steps.open("w")
        self._waiting: list[StepSample] = []
        self._written_s = time.monotonic()

    def __enter__(self) -> StepsFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._write()
        self._file.close()

    def add(self, sample: StepSample) -> None:
        self._waiting.append(sample)
        if time.monotonic() - self._written_s > FLUSH_EVERY_S:
            self._write()

    def _write(self) -> None:
        self._file.writelines(json.dumps(asdict(sample)) + "\n" for sample in self._waiting)
        self._file.flush()
        self._waiting.clear()
        self._written_s = time.monotonic()


def _peak_host_memory_bytes() -> int:
    """Of this program alone: `ru_maxrss` would remember the process that started it, too."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024


def _peak_device_memory_bytes(trial_devices: devices.Devices) -> int | None:
    """The most that TensorFlow held on any one GPU of this host; none on stand-ins, and where its
    allocator keeps no count.
    """
    if trial_devices.kind is not DeviceKind.GPU or os.environ.get("TF_GPU_ALLOCATOR"):
        return None
    return max(
        tf.config.experimental.get_memory_info(name)["peak"] for name in trial_devices.own_replicas
    )
