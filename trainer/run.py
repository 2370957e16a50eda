"""Runs one trial from its spec to its result. The file to read first.

```
  devices ─► model (template) ─► variable update + all-reduce + optimizer ─► towers
                                                                               │
  result.json ◄─ measurement ◄─ warm-up and measured steps ◄─ first call ◄─ trace
```
"""

from __future__ import annotations

import json
import math
import os
import resource
import statistics
import time
from dataclasses import asdict, dataclass
from typing import TextIO

import keras
import numpy as np
import tensorflow as tf

from store.records import DeviceKind, Measurement, Outcome, Result, RunFolder, StepSample, TrialSpec
from trainer import devices, op_placement, registry, timing, towers


def run(spec: TrialSpec, folder: RunFolder) -> Result:
    """Train and measure one trial, leaving steps.jsonl in the folder.

    A trial that ran but did not do what it says is invalid, with its measurement as evidence. Raises UnsupportedTrialError, or
    what TensorFlow raises.
    """
    training = build(spec, devices.prepare(DeviceKind(spec.device_kind), spec.num_gpus))
    data = registry.load("data", spec.data).open_input(spec, training.devices)

    batches = data.next()
    start = time.perf_counter()
    training.towers.step.get_concrete_function(batches)
    traced = time.perf_counter()
    with op_placement.recorded() as placement:
        first_loss = float(training.towers.step(batches))
    compiled = time.perf_counter()
    with folder.steps.open("w") as steps_file:
        timed = timing.run_steps(
            next_batch=data.next,
            step=lambda batch: float(training.towers.step(batch)),
            synchronize=tf.test.experimental.sync_devices,
            min_warm_up_steps=spec.min_warm_up_steps,
            num_steps=spec.num_steps,
            on_step=lambda sample: _append(steps_file, sample),
        )
    losses = [sample.loss for sample in timed.samples if sample.loss is not None]
    all_finite = len(losses) == len(timed.samples)
    measured = timed.measured()
    durations_s = [sample.duration_s for sample in measured]
    measurement = Measurement(
        images_per_second=spec.num_gpus * spec.batch_size * spec.num_steps / timed.window_s,
        median_step_s=statistics.median(durations_s),
        jitter_s=timing.jitter_s(durations_s),
        num_steps=len(measured),
        num_warm_up_steps=len(timed.samples) - len(measured),
        steady=timed.steady,
        trace_s=traced - start,
        first_step_s=compiled - traced,
        data_wait_share=sum(sample.data_wait_s for sample in measured) / timed.window_s,
        cpu_s=timed.cpu_s,
        peak_host_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        peak_device_memory_bytes=_peak_device_memory_bytes(training.devices),
        first_loss=first_loss if math.isfinite(first_loss) else None,
        last_loss=statistics.median(losses[-5:]) if all_finite else None,
        num_parameters=sum(weights.size for weights in training.update.weights(0)),
    )
    problem = placement.problem(training.update, training.devices)
    if not all_finite:
        problem = "the loss is not finite; try a smaller learning_rate"
    return Result(
        outcome=Outcome.INVALID if problem else Outcome.COMPLETED,
        message=problem or "",
        measurement=measurement,
        op_placement=placement.summary(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """Everything that takes a training step."""

    devices: devices.Devices
    update: towers.VariableUpdate
    towers: towers.Towers


def build(spec: TrialSpec, trial_devices: devices.Devices, model: keras.Model | None = None) -> Training:
    """Build the towers on devices already claimed; `model` replaces the one the spec names."""
    keras.utils.set_random_seed(spec.seed)
    keras.mixed_precision.set_global_policy(registry.load("precisions", spec.precision).prepare())
    with tf.device(trial_devices.host):
        model = model or registry.load("models", spec.model).build(spec.image_px, spec.num_classes)
        initial = [np.asarray(variable) for variable in model.trainable_variables]
    update = registry.load("variable_updates", spec.variable_update).create(
        initial,
        trial_devices,
        registry.load("all_reduces", spec.all_reduce),
        registry.load("optimizers", spec.optimizer).create(spec),
        spec.local_parameter_device,
    )
    return Training(devices=trial_devices, update=update, towers=towers.Towers(model, update, trial_devices))


def _append(steps_file: TextIO, sample: StepSample) -> None:
    steps_file.write(json.dumps(asdict(sample)) + "\n")
    steps_file.flush()


def _peak_device_memory_bytes(trial_devices: devices.Devices) -> int | None:
    """The most that TensorFlow held on any one GPU; none on stand-ins, and where its allocator keeps no count."""
    if trial_devices.kind is not DeviceKind.GPU or os.environ.get("TF_GPU_ALLOCATOR"):
        return None
    return max(tf.config.experimental.get_memory_info(devices.short_name(name))["peak"] for name in trial_devices.replicas)
