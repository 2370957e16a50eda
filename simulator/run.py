"""Plays one trial from its spec to its result, as the trainer would leave it: its steps pass in
virtual time, with noise by seed."""

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

import numpy as np

from scalemark import models
from scalemark.records.machine import Machine
from scalemark.records.measurement import (
    AttemptResult,
    Doing,
    GpuTelemetry,
    Measurement,
    Outcome,
    ReplicaTimes,
    StepSample,
)
from scalemark.records.switches import unknown_axes
from scalemark.records.trial import TrialSpec
from scalemark.run_folder import RunFolder
from simulator.costs.box import Hardware
from simulator.costs.step import Costs, costs, decodes, network_of, peak_tflops
from trainer import measured

START_S = 0.5  # of a forked trainer, until it builds its model
TRACE_S = 0.007  # per gradient tensor and replica: ResNet-50 on 8 replicas took 9 s to trace
COMPILE_S = 0.01  # the same, of the first call
WARMING = (3.0, 1.5, 1.2)  # so many times longer the first calls take: allocators and caches fill
AUTOCORRELATION = 0.3  # of the noise of neighboring steps: steps are no independent samples
THROTTLED = "sw_thermal_slowdown"
NUM_ROUNDS = 128  # of each GPU's own compute, as many as the trainer takes


class NotSimulatedError(Exception):
    """Raised for a trial that cannot be played; the message says what is missing."""


class NoResultError(Exception):
    """Raised where the process ends without a result, as injected."""


def run(spec: TrialSpec, folder: RunFolder) -> AttemptResult:
    """Play a trial, and leave steps.jsonl in the folder.

    Raises NotSimulatedError and NoResultError.
    """
    machine = folder.read_machine()
    if machine is None or not machine.hardware_profile:
        raise NotSimulatedError(
            f"{folder.machine}: wanted one with a hardware_profile, as sweep.py "
            "engine=simulated makes it"
        )
    if problem := next(unknown_axes(spec), None):
        raise NotSimulatedError(problem)
    hardware = Hardware.from_json(machine.hardware_profile)
    faults = spec.injected_values
    try:
        truth = with_injected(costs(spec, hardware), faults, spec)
    except ValueError as error:
        raise NotSimulatedError(str(error)) from error
    begin = folder.read_attempt()
    attempt = (begin.sweep_uid, begin.repeat, begin.attempt) if begin else ("", 1, 1)
    # of this attempt alone; sweeps all count from 1, so the sweep is part of it
    identity = json.dumps([spec.to_json(), machine.key, *attempt])
    seed = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:8])
    random = np.random.default_rng(seed)
    failure_rate = faults.get("failure_rate", 0.0)
    if random.random() < failure_rate:
        raise NoResultError(f"injected.failure_rate={failure_rate:g} met this attempt")
    if message := _no_room(spec, truth, hardware):
        return AttemptResult(outcome=Outcome.OUT_OF_MEMORY, message=message)
    return _played(spec, folder, machine, hardware, truth, random)


def _played(
    spec: TrialSpec,
    folder: RunFolder,
    machine: Machine,
    hardware: Hardware,
    truth: Costs,
    random: np.random.Generator,
) -> AttemptResult:
    faults = spec.injected_values
    folder.write(folder.doing, Doing.STEPPING)
    factor = process_factor(random, faults)
    timed = _play(spec, folder, truth, factor, random)
    folder.write(folder.doing, Doing.PROFILING)
    measurement = _measurement(spec, hardware, truth, timed)
    telemetry = _telemetry(spec, folder, machine, hardware, truth)
    # seconds per step by part, faults as `injected.NAME`, and the factor
    parts = asdict(truth) | {f"injected.{name}": value for name, value in faults.items()}
    parts["process_factor"] = factor
    verdict, reasons = measured.judge(
        spec, measurement, timed.step_durations_s(), telemetry, spec.num_gpus, hardware.num_cores
    )
    return AttemptResult(
        outcome=Outcome.COMPLETED,
        message="",
        measurement=measurement,
        verdict=verdict,
        verdict_reasons=reasons,
        gpu_telemetry=telemetry,
        replica_times=_replica_times(spec, truth, factor, random),
        truth=dict(zip(parts, map(float, parts.values()), strict=True)),
    )


def _play(
    spec: TrialSpec, folder: RunFolder, truth: Costs, factor: float, random: np.random.Generator
) -> measured.Timed:
    """Play the steps of one process, and write them."""
    faults = spec.injected_values
    effort = measured.Effort(
        min_warm_up_steps=spec.min_warm_up_steps,
        num_steps=spec.num_steps,
        min_window_s=spec.min_window_s,
        steps_per_call=spec.steps_per_execution,
    )
    # as many as there will be, but for the noise
    num_steps = max(spec.num_steps, math.ceil(spec.min_window_s / (truth.step_s * factor)))
    factors = step_factors(random, faults, spec.min_warm_up_steps + num_steps)
    samples: list[StepSample] = []
    warming = iter(WARMING)
    now_s = call_factor = 0.0

    def next_batch() -> None:
        nonlocal now_s, call_factor
        steps = itertools.islice(factors, spec.steps_per_execution)
        call_factor = factor * next(warming, 1.0) * sum(steps)
        now_s += max(0.0, truth.step_s - truth.busy_s) * call_factor

    def step(batch: None) -> float:
        """Let a call pass; its loss is not known, as nothing is learned."""
        nonlocal now_s
        now_s += truth.busy_s * call_factor
        return math.nan

    clock = measured.StepClock(
        synchronize=lambda: None,
        effort=effort,
        on_sample=samples.append,
        now=lambda: now_s,
        cpu_now=lambda: 0.0,
    )
    timed = measured.run_steps(clock, next_batch, step)
    folder.steps.write_text("".join(f"{json.dumps(asdict(sample))}\n" for sample in samples))
    return timed


def process_factor(random: np.random.Generator, injected: Mapping[str, float]) -> float:
    """Draw the factor of all step times of one process: log-normal, of mean 1."""
    spread = _log_spread(injected.get("process_noise", 0.0))
    return math.exp(spread * random.standard_normal() - spread**2 / 2)


def step_factors(
    random: np.random.Generator, injected: Mapping[str, float], num_steps: int
) -> Iterator[float]:
    """Yield the factors of the steps of one process without end, of mean 1.

    The drift grows over `num_steps`, from half of it below the mean to half of it above.
    """
    spread, drift = _log_spread(injected.get("noise", 0.0)), injected.get("drift", 0.0)
    fresh = math.sqrt(1 - AUTOCORRELATION**2)
    noise = random.standard_normal()
    for number in itertools.count():
        passed = min(1.0, number / max(1, num_steps - 1))
        yield math.exp(spread * noise - spread**2 / 2) * (1 + drift * (passed - 0.5))
        noise = AUTOCORRELATION * noise + fresh * random.standard_normal()


def _log_spread(deviation: float) -> float:
    """Return the spread of the logarithm for a standard deviation over the mean."""
    return math.sqrt(math.log1p(deviation**2))


def _no_room(spec: TrialSpec, truth: Costs, hardware: Hardware) -> str:
    """Return why it runs out of memory, and what helps; empty when it does not."""
    needed_gib = truth.memory_bytes / 2**30
    if needed_gib <= hardware.memory_gib:
        return ""
    remedy = "a smaller image_px"
    if spec.seq_len:
        remedy = "a smaller seq_len"
    if not spec.recompute and models.can_recompute(models.define(spec.model)):
        remedy += " or recompute=true"
    return (
        f"simulated: out of GPU memory: a GPU needs {needed_gib:.1f} GiB and {hardware.name} has "
        f"{hardware.memory_gib:g}; try a smaller batch_size, {remedy}"
    )


def _measurement(
    spec: TrialSpec, hardware: Hardware, truth: Costs, timed: measured.Timed
) -> Measurement:
    """Measure what was played; what nothing simulates is None, and the memory of the host 0."""
    counts = network_of(spec)
    taken = spec.injected_values.get("contention", 0.0) * hardware.num_cores
    cpu_per_step_s = truth.launch_s
    if decodes(spec):
        cpu_per_step_s += truth.input_s * (hardware.num_cores - taken)
    num_steps = sum(sample.num_steps for sample in timed.measured())
    num_tensors = len(counts.tensors) * spec.num_gpus
    trace_s, first_step_s = TRACE_S * num_tensors, COMPILE_S * num_tensors + truth.step_s
    measurement = measured.measurement(
        replace(timed, cpu_s=cpu_per_step_s * num_steps),
        items_per_step=truth.items,
        item=counts.item,
        time_to_first_step_s=START_S + trace_s + first_step_s,
        trace_s=trace_s,
        first_step_s=first_step_s,
        first_loss=None,
        cores_taken_by_others=taken,
        peak_host_memory_bytes=0,
        peak_device_memory_bytes=round(truth.memory_bytes),
        last_loss_scale=None if spec.loss_scale in ("none", "dynamic") else float(spec.loss_scale),
        num_parameters=counts.num_parameters,
    )
    return measured.with_mfu(
        measurement,
        num_gpus=spec.num_gpus,
        flops_per_item=counts.training_flops * spec.examples_per_step / truth.items,
        peak_flops_per_s=peak_tflops(hardware, spec.precision) * 1e12,
    )


def _telemetry(
    spec: TrialSpec, folder: RunFolder, machine: Machine, hardware: Hardware, truth: Costs
) -> tuple[GpuTelemetry, ...]:
    """Return the telemetry of the GPUs that it was given; nothing was sampled."""
    lost = spec.injected_values.get("throttling", 0.0)
    highest = hardware.clock_mhz
    placement = folder.read_placement()  # none where a folder was made by hand
    telemetry = []
    for number in placement.devices if placement else range(spec.num_gpus):
        telemetry.append(
            GpuTelemetry(
                uuid=machine.gpus[number].uuid,
                num_samples=0,
                sm_clock_mhz=None if highest is None else highest * (1 - lost),
                max_sm_clock_mhz=None if highest is None else round(highest),
                memory_used_bytes=round(truth.memory_bytes),
                throttle_reasons=(THROTTLED,) if lost else (),
            )
        )
    return tuple(telemetry)


def _replica_times(
    spec: TrialSpec, truth: Costs, process_factor: float, random: np.random.Generator
) -> ReplicaTimes | None:
    """Play each GPU's own compute, where it was asked for, with the noise of a step."""
    if not spec.replica_times:
        return None
    faults = spec.injected_values
    factors = replica_factors(faults, spec.num_gpus)
    usual_s = truth.compute_s / max(factors) * process_factor
    seconds = {}
    for number, factor in enumerate(factors):
        rounds = itertools.islice(step_factors(random, faults, NUM_ROUNDS), NUM_ROUNDS)
        seconds[f"GPU:{number}"] = tuple(float(f"{usual_s * factor * by:.5g}") for by in rounds)
    return ReplicaTimes(at_once=True, seconds=seconds)


def with_injected(costs: Costs, injected: Mapping[str, float], spec: TrialSpec) -> Costs:
    """Add injected faults, as `TrialSpec.injected_values` has them.

    Gradients are reduced, and batches made, only where they are: one GPU alone never waits for
    `reduction_s`, synthetic data never for `input_s`. All GPUs draw from one pipeline, so that a
    step waits for a batch of each.
    """
    slower_clock = 1 / (1 - injected.get("throttling", 0.0))
    slowest = max(replica_factors(injected, spec.num_gpus))  # for which all others wait
    fewer_cores = 1 / (1 - injected.get("contention", 0.0))
    reduction_s = late_s = 0.0
    if spec.num_gpus > 1 and costs.communication_s > 0:
        reduction_s = injected.get("reduction_s", 0.0)
    if spec.data != "synthetic":  # text, too, which takes no time to decode
        late_s = injected.get("input_s", 0.0) * spec.num_gpus
    slowed = replace(
        costs,
        compute_s=costs.compute_s * slower_clock * slowest,
        update_s=costs.update_s * slower_clock,
        sync_s=costs.sync_s * slower_clock,
        launch_s=costs.launch_s * fewer_cores + injected.get("launch_s", 0.0),
        communication_s=costs.communication_s + reduction_s,
        exposed_s=costs.exposed_s + reduction_s,
        input_s=costs.input_s * fewer_cores + late_s,
    )
    return replace(slowed, step_s=max(slowed.input_s, slowed.busy_s))


def replica_factors(injected: Mapping[str, float], num_gpus: int) -> list[float]:
    """Return how many times as long each replica computes."""
    factors = [1.0] * num_gpus
    slow = int(injected.get("slow_replica", 0.0))
    if slow < num_gpus:
        factors[slow] += injected.get("slow_replica_by", 0.0)
    return factors
