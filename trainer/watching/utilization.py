"""Measures the peak of a device, and how much of it a trial used: model FLOPs utilization."""

import hashlib
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import tensorflow as tf

from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES
from scalemark.host import software
from scalemark.host.files import cache_folder, write_whole
from scalemark.own_model import is_own
from scalemark.records.attempt import Cluster
from scalemark.records.machine import DeviceKind
from scalemark.records.measurement import (
    MAX_FOREIGN_SHARE,
    GpuTelemetry,
    Measurement,
    said_of_others,
)
from scalemark.records.trial import TrialSpec
from scalemark.records.validation import canonical
from scalemark.run_folder import RunFolder, read_regular
from simulator.costs.step import network_of
from trainer import devices as devices_of
from trainer import measured
from trainer.devices import Devices
from trainer.watching import telemetry

# Square matrices. On CPU devices small ones that stay in the caches are the fastest, on GPUs large
# ones. Three of the largest take 192 MiB of a host's memory in float32, 3 GiB of a GPU's.
SIZES = (512, 1024, 2048, 4096, 8192, 16384)
LARGEST = {DeviceKind.CPU_DEVICE: 4096, DeviceKind.GPU: 16384}
LONG_S = 0.1  # a product of a size that takes longer is the last: larger ones are no faster
TURN_S = 0.02  # of products between two looks at the clock
SIZE_S = 0.25  # of turns, for each size
_THREADS = "TF_NUM_INTRAOP_THREADS"
_BLOCK = 512  # of random numbers, which are repeated: zeros would heat no device


def peak_flops_per_s(
    devices: Devices,
    dtype: tf.DType,
    clock: Callable[[], float] = time.perf_counter,
) -> float | None:
    """Return the rate of the fastest turn of products of `dtype` on the first own replica's device.

    TensorFlow's switches, as TensorFloat-32, are those of the trial in this process. CPU devices
    share the cores, so that theirs is the peak of all cores together. None where one finds no room
    in the device's memory: the smaller ones do not reach the peak.
    """
    device = devices.own_replicas[0]
    alone = replace(devices, replicas=(device,))
    fastest = 0.0
    for size in SIZES:
        if size > LARGEST[devices.kind]:
            break
        try:
            with tf.device(device):
                multiply = _products(size, dtype)
                took_s = fastest_s(multiply, lambda: devices_of.synchronize(alone), clock)
        except tf.errors.ResourceExhaustedError:  # the model's variables are still there
            return None
        fastest = max(fastest, 2 * size**3 / took_s)
        if took_s > LONG_S:
            break
    return fastest


def _products(size: int, dtype: tf.DType) -> Callable[[], object]:
    block = tf.random.stateless_normal((_BLOCK, _BLOCK), (1, size))
    matrix = tf.cast(tf.tile(block, (size // _BLOCK, size // _BLOCK)), dtype)
    return lambda: tf.linalg.matmul(matrix, matrix)


def fastest_s(
    act: Callable[[], object],
    wait: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
    turn_s: float = TURN_S,
    all_turns_s: float = SIZE_S,
) -> float:
    """Return the seconds of one action in the fastest turn.

    What disturbs a turn makes it longer, never shorter: the fastest is what the hardware can do.
    """

    def turn(num_calls: int) -> float:
        wait()
        start_s = clock()
        for _ in range(num_calls):
            act()
        wait()
        return max(clock() - start_s, 1e-9)

    turn(1)  # libraries choose their ways, and memory is claimed
    num_calls = math.ceil(turn_s / turn(1))
    turns_s = [turn(num_calls)]
    while sum(turns_s) < all_turns_s:
        turns_s.append(turn(num_calls))
    return min(turns_s) / num_calls


def read(key: str) -> float | None:
    """Return a peak in FLOP/s; None where none is kept, or what is kept is damaged."""
    try:
        kept = json.loads(read_regular(_file(key)))
        if not isinstance(kept, float) or not 0 < kept < math.inf:
            raise ValueError(f"{str(kept)[:60]}: wanted a number greater than 0")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RuntimeError) as error:
        print(f"the kept peak cannot be used, and is measured again: {error}", file=sys.stderr)
        return None
    return kept


def write(key: str, flops_per_s: float) -> None:
    """Keep a peak, whole or not at all; where that is not possible the next trial measures it."""
    try:
        write_whole(_file(key), json.dumps(flops_per_s))
    except (OSError, RuntimeError) as error:
        print(f"the peak cannot be kept: {error}", file=sys.stderr)


def _file(key: str) -> Path:
    """Raises RuntimeError for a user without a home."""
    return cache_folder() / "peaks" / f"{key}.json"


def with_utilization(
    measurement: Measurement,
    spec: TrialSpec,
    items_per_example: int,
    devices: Devices,
    folder: RunFolder,
    cluster: Cluster | None,
    seen: Sequence[GpuTelemetry],
) -> Measurement:
    """Add `mfu`; a model of the user's own, whose FLOPs are unknown, has none.

    Call it after the measured window: the first trial on a machine measures the peak, and so does
    one that exceeds the peak that was kept. Where others took cores or GPUs (`seen`) meanwhile
    nothing is known: the peak would be too low, and the utilization too high.
    """
    if is_own(spec.model):
        return measurement
    flops_per_item = network_of(spec).training_flops / items_per_example
    # CPU devices share what the peak was measured of
    num_sharing = len(devices.own_replicas) if devices.shared else 1

    def at(peak: float) -> Measurement:
        return measured.with_mfu(
            measurement,
            num_gpus=spec.num_gpus,
            flops_per_item=flops_per_item,
            peak_flops_per_s=peak / num_sharing,
        )

    key = peak_key(spec, devices, folder)
    doubt = ""
    if devices.kind is DeviceKind.CPU_DEVICE and (cluster or _THREADS in os.environ):
        doubt = f"cores are shared out by {_THREADS}, or among the trial's processes"
    kept = None if doubt else read(key)
    if kept is not None and not measured.exceeds_peak(at(kept)):
        return at(kept)
    if kept is None:
        doubt = doubt or _doubt_before(spec, seen)
    peak = None
    if not doubt:
        peak, doubt = _new_peak(spec, devices, kept)
    if peak is None:
        print(f"model FLOPs utilization is not known: {doubt}", flush=True)
        return measurement
    write(key, peak)
    return at(peak)


def _doubt_before(spec: TrialSpec, seen: Sequence[GpuTelemetry]) -> str:
    """Return why no peak need be measured, because nothing may be divided by it."""
    if VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        return "the trial's other workers compute while the peak would be measured"
    for gpu in seen:
        if gpu.num_foreign_processes:
            return said_of_others(gpu)
    return ""


def _new_peak(spec: TrialSpec, devices: Devices, kept: float | None) -> tuple[float | None, str]:
    """Measure the peak; return None and why where nothing may be divided by it. One that was kept
    is a bound of a disturbed one, too.
    """
    begin = telemetry.now()
    peak = peak_flops_per_s(devices, tf.as_dtype(PRECISIONS[spec.precision].compute_type))
    taken = telemetry.cores_taken_by_others(begin, telemetry.now())
    if kept is not None:
        return max(kept, peak or 0.0), ""
    if peak is None:
        return None, "the device has no room for a large product of matrices beside the model"
    if devices.kind is not DeviceKind.CPU_DEVICE:
        return peak, ""
    if taken is None:
        return None, "how many cores others took while the peak was measured is unknown"
    num_cores = len(os.sched_getaffinity(0))
    if taken > MAX_FOREIGN_SHARE * num_cores:
        return None, f"others took {taken:.1f} of {num_cores} cores while the peak was measured"
    return peak, ""


def peak_key(spec: TrialSpec, devices: Devices, folder: RunFolder) -> str:
    """Return a digest of all that a peak depends on."""
    machine = folder.read_machine()  # None where a trainer was started by hand
    environment = folder.read_environment() or software.describe()
    depends_on: dict[str, object] = {
        "machine": machine.key if machine else platform.node(),
        "device": str(devices.kind),
        "precision": spec.precision,
        "software": software.key(environment),
    }
    if devices.kind is DeviceKind.CPU_DEVICE:
        depends_on["num_cores"] = len(os.sched_getaffinity(0))
    else:
        number = int(devices.own_replicas[0].rpartition(":")[2])
        visible = tf.config.get_visible_devices("GPU")
        gpu = visible[0] if devices.shared else visible[number]
        details = tf.config.experimental.get_device_details(gpu)
        depends_on["gpu"] = str(details.get("device_name", gpu.name))
    return hashlib.sha256(canonical(depends_on).encode()).hexdigest()[:16]
