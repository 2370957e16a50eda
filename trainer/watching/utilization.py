"""Works out model FLOPs utilization: the share of a device's peak that training a model uses.

```
  items/s of one device x FLOPs of an item, forward and backward ─► FLOP/s ┐
  fastest product of matrices in this process, after the steps   ─► FLOP/s ┴─► utilization
```
CPU devices share the cores of their machine: each has its part of the peak of all cores, so that
theirs is the utilization of the whole machine, however many devices it is cut into.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict

import tensorflow as tf

from scalemark.abilities import PRECISIONS, VARIABLE_UPDATES
from scalemark.host import software
from scalemark.own_model import is_own
from scalemark.records.cluster import Cluster
from scalemark.records.devices import DeviceKind
from scalemark.records.measurement import GpuTelemetry, Measurement, said_of_others
from scalemark.records.placement import Placement
from scalemark.records.trial import TrialSpec
from scalemark.run_folder.folder import RunFolder
from simulator.costs.work import Work
from trainer import measured
from trainer.devices import Devices
from trainer.verdict import MAX_FOREIGN_SHARE
from trainer.watching import contention, kept_peaks
from trainer.watching.kept_peaks import PeakOf
from trainer.watching.peak import peak_flops_per_s


def with_utilization(
    measurement: Measurement,
    spec: TrialSpec,
    items_per_example: int,
    devices: Devices,
    folder: RunFolder,
    given: Placement | None,
    cluster: Cluster | None,
    seen: Sequence[GpuTelemetry],
) -> Measurement:
    """Add `mfu`; a model of the user's own, whose FLOPs nobody knows, has none.

    Call it after the measured window: the first trial on a machine measures the peak, and so does
    one that exceeds the peak that was kept. Where others took cores or GPUs (`seen`) meanwhile
    nothing is known: the peak would be too low, and the utilization too high.
    """
    if is_own(spec.model):
        return measurement
    counted = Work.of(asdict(spec)).network
    num_sharing = _num_sharing(spec, devices, given, cluster)
    of = _peak_of(spec, devices, folder)

    def at(peak: float) -> Measurement:
        return measured.with_mfu(
            measurement,
            num_gpus=spec.num_gpus,
            flops_per_item=counted.training_flops / items_per_example,
            peak_flops_per_s=peak / num_sharing,
        )

    kept = kept_peaks.read(of)
    if kept is not None and not measured.exceeds_peak(at(kept)):
        return at(kept)
    own_cpu_s = contention.cpu_of_ranks_s if cluster else contention.own_cpu_s
    if kept is None and (doubt := _doubt_before(spec, seen)):
        return _unknown(measurement, doubt)
    begin = contention.now(own_cpu_s)
    found = _measured(spec, devices, of)
    taken = None
    if contention.knows_own_processes(cluster, given):
        taken = contention.cores_taken_by_others(begin, contention.now(own_cpu_s))
    if kept is not None:  # a disturbed one is a bound, too
        found = max(kept, found or 0.0)
    elif doubt := _doubt(devices, found, taken):
        return _unknown(measurement, doubt)
    assert found is not None
    kept_peaks.write(of, found)
    return at(found)


def _measured(spec: TrialSpec, devices: Devices, of: PeakOf) -> float | None:
    num_at_once = 1
    if of.num_intra_threads:
        num_at_once = math.ceil(of.num_cores / of.num_intra_threads)
    dtype = tf.as_dtype(PRECISIONS[spec.precision].compute_type)
    return peak_flops_per_s(devices, dtype, num_at_once)


def _unknown(measurement: Measurement, doubt: str) -> Measurement:
    print(f"model FLOPs utilization is not known: {doubt}", flush=True)
    return measurement


def _doubt_before(spec: TrialSpec, seen: Sequence[GpuTelemetry]) -> str:
    """Return why no peak need be measured, because nothing may be divided by it."""
    if VARIABLE_UPDATES[spec.variable_update].every_worker_trains:
        return "the trial's other workers compute while the peak would be measured"
    for gpu in seen:
        if gpu.num_foreign_processes:
            return said_of_others(gpu)
    return ""


def _doubt(devices: Devices, found: float | None, taken: float | None) -> str:
    """Return why nothing may be divided by the peak that was measured; empty where it may."""
    if found is None:
        return "the device has no room for a large product of matrices beside the model"
    if devices.kind is not DeviceKind.CPU_DEVICE:
        return ""
    if taken is None:
        return "nobody knows which cores others took while the peak was measured"
    num_cores = len(os.sched_getaffinity(0))
    if taken > MAX_FOREIGN_SHARE * num_cores:
        return f"others took {taken:.1f} of {num_cores} cores while the peak was measured"
    return ""


def _peak_of(spec: TrialSpec, devices: Devices, folder: RunFolder) -> PeakOf:
    machine = folder.read_machine()
    environment = folder.read_environment() or software.describe()
    is_cpu = devices.kind is DeviceKind.CPU_DEVICE
    return PeakOf(
        machine=machine.key if machine else platform.node(),
        device=str(devices.kind) if is_cpu else f"{devices.kind} {_gpu_name(devices)}",
        num_cores=len(os.sched_getaffinity(0)) if is_cpu else 0,
        num_intra_threads=spec.num_intra_threads if is_cpu else 0,
        num_inter_threads=spec.num_inter_threads if is_cpu else 0,
        precision=spec.precision,
        software=software.key(environment),
    )


def _gpu_name(devices: Devices) -> str:
    """Return the name of the first own replica's GPU, whose peak is measured."""
    number = int(devices.own_replicas[0].rpartition(":")[2])
    visible = tf.config.get_visible_devices("GPU")
    gpu = visible[0] if devices.shared else visible[number]
    return str(tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name))


def _num_sharing(
    spec: TrialSpec, devices: Devices, given: Placement | None, cluster: Cluster | None
) -> int:
    """Count the replicas of the trial that share what the peak was measured of."""
    if not devices.shared:
        return 1
    return len(devices.own_replicas) * _num_workers_here(spec, given, cluster)


def _num_workers_here(spec: TrialSpec, given: Placement | None, cluster: Cluster | None) -> int:
    """Count the workers on this machine, this one included; each may use all of its cores."""
    if cluster is None:
        return 1
    if "link_mbit" in spec.injected_values:  # processes of this machine, with an address each
        return len(cluster.worker_hosts)
    names = [address.rpartition(":")[0] for address in cluster.worker_hosts]
    if given is not None and given.hosts:
        names = list(given.hosts)
    return names.count(names[0])
