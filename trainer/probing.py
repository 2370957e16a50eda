"""`python -m trainer.probing REQUEST`: measures devices and links, a line of JSON per figure.

```
  host  --to_device-->  device 0  --pair-->  device 1 ...      all_reduce: over all of them
        <--to_host----   peak
```
`scalemark probe` starts it, reads its lines, and ends it. Copies are TensorFlow's own, which
training uses, too. Logical CPU devices share one memory, in which TensorFlow copies nothing: a deep
copy stands in for the link, by the threads of the target.
"""

import gc
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import permutations

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context

from scalemark.abilities import PRECISIONS
from scalemark.host.processes import ORCHESTRATOR_VARIABLE, available_bytes, die_with
from scalemark.records.machine import DeviceKind, Figure, Probed, ProbeRequest
from scalemark.records.measurement import MAX_FOREIGN_SHARE
from scalemark.text.untrusted import telling_line
from trainer import UnsupportedTrialError, own_process
from trainer import devices as devices_of
from trainer.all_reduces import nccl, ring
from trainer.devices import Devices, on_each
from trainer.model_tower import read_where_it_is
from trainer.watching import telemetry
from trainer.watching.utilization import fastest_s, peak_flops_per_s

MIB = 2**20
# of GPUs so much that starting the copy counts for little; of CPU devices more than their caches
COPY_BYTES = {DeviceKind.CPU_DEVICE: 1024 * MIB, DeviceKind.GPU: 2048 * MIB}
COPY_PIECES = {DeviceKind.CPU_DEVICE: 1, DeviceKind.GPU: 8}  # tensors that are copied at once
OF_HOST_MEMORY = 8  # a tensor takes at most such a part of it, as up to three are held at once
LEAST_COPY_BYTES = 4 * MIB
# Of a reduction, from where latency counts to where bandwidth does.
SUM_BYTES = {
    DeviceKind.CPU_DEVICE: tuple(MIB * size // 16 for size in (1, 16, 256, 1024)),
    DeviceKind.GPU: tuple(MIB * size // 16 for size in (1, 16, 256, 1024, 4096)),
}
TURN_S = 0.05  # of actions between two looks at the clock
ALL_TURNS_S = 0.5
_FLOAT_BYTES = 4
_ALL_REDUCES = {DeviceKind.CPU_DEVICE: ring, DeviceKind.GPU: nccl}

Step = Callable[[], Figure]


def main(request: ProbeRequest) -> None:
    """Print what is measured at once: an error or an interruption loses nothing before it."""
    devices = devices_of.claim(DeviceKind(request.device_kind), request.num_devices)
    pin_host_memory(devices)
    room = copy_bytes(devices.kind, available_bytes())
    steps = steps_of(request, devices, room)
    _print({"total": len(steps)})
    before = telemetry.now()
    for measure in steps:
        _print(asdict(measure()))
    taken = telemetry.cores_taken_by_others(before, telemetry.now())
    num_cores = len(os.sched_getaffinity(0))
    if taken is not None and taken > MAX_FOREIGN_SHARE * num_cores:
        doubt = f"others took {taken:.1f} of {num_cores} cores; stop them, and probe again"
        _print({"doubt": doubt})


def _print(value: object) -> None:
    print(json.dumps(value), flush=True)


def pin_host_memory(devices: Devices) -> None:
    """Have the host's tensors lie in memory that GPUs read directly, as what a graph sends them
    does. Call it before TensorFlow touches a device.
    """
    if devices.kind is DeviceKind.GPU:
        options = config_pb2.GPUOptions(force_gpu_compatible=True)
        context.context()._config = config_pb2.ConfigProto(gpu_options=options)


def copy_bytes(kind: DeviceKind, host_bytes: int) -> int:
    """Return the size of what is copied or summed, where the host has the memory."""
    room = host_bytes // OF_HOST_MEMORY // MIB * MIB
    return max(LEAST_COPY_BYTES, min(COPY_BYTES[kind], room))


def steps_of(request: ProbeRequest, devices: Devices, num_bytes: int) -> list[Step]:
    """Return what measures each figure, in the order in which they are shown."""
    is_cpu = devices.kind is DeviceKind.CPU_DEVICE
    everyone = range(len(devices.replicas))
    # CPU devices share cores and memory: one stands for all
    numbers = everyone[:1] if is_cpu else everyone
    steps: list[Step] = []
    for precision in request.precisions:
        steps += [partial(_peak, devices, precision, number) for number in numbers]
    for number in numbers:
        steps.append(partial(_copy, devices, num_bytes, Probed.TO_DEVICE, None, number))
        steps.append(partial(_copy, devices, num_bytes, Probed.TO_HOST, number, None))
    for source, target in permutations(everyone, 2):
        steps.append(partial(_copy, devices, num_bytes, Probed.PAIR, source, target))
    if len(everyone) > 1:
        steps += [partial(_all_reduce, devices, size) for size in SUM_BYTES[devices.kind]]
    return steps


def _peak(devices: Devices, precision: str, number: int) -> Figure:
    abilities = PRECISIONS[precision]
    tf.config.experimental.enable_tensor_float_32_execution(abilities.tensor_float_32)
    alone = replace(devices, replicas=(devices.replicas[number],))
    peak = peak_flops_per_s(alone, tf.as_dtype(abilities.compute_type))
    problem = "" if peak else f"{_named(devices, number)}: no memory for a large matrix"
    return Figure(what=Probed.PEAK, value=peak, problem=problem, precision=precision, source=number)


def _copy(
    devices: Devices, num_bytes: int, what: Probed, source: int | None, target: int | None
) -> Figure:
    # functions of TensorFlow refer to themselves, and hold memory of devices until garbage is
    # collected
    gc.collect()
    value, problem = None, ""
    try:
        act = _copying(devices, _device(devices, source), _device(devices, target), num_bytes)
        value = num_bytes / _seconds(devices, act)
    except tf.errors.ResourceExhaustedError:
        ends = " or ".join(_named(devices, each) for each in (source, target))
        problem = f"{ends}: no memory for {num_bytes // MIB} MiB"
    return Figure(
        what=what, value=value, problem=problem, source=source, target=target, num_bytes=num_bytes
    )


def _copying(
    devices: Devices, source: str, target: str, num_bytes: int
) -> Callable[[], Sequence[tf.Tensor]]:
    """Copy in a graph: eager TensorFlow copies a tensor once, and then has it there."""
    num_pieces = COPY_PIECES[devices.kind]
    with tf.device(source):
        pieces = [tf.Variable(_values(num_bytes // num_pieces)) for _ in range(num_pieces)]
    is_cpu = devices.kind is DeviceKind.CPU_DEVICE

    @tf.function(autograph=False, jit_compile=False)
    def copy() -> list[tf.Tensor]:
        ends = []
        for piece in pieces:
            with tf.device(source):
                read = piece.read_value()
            with tf.device(target):
                arrived = tf.raw_ops.DeepCopy(x=read) if is_cpu else tf.identity(read)
                ends.append(arrived[:1])  # all of it need not be kept
        return ends

    return copy


def _all_reduce(devices: Devices, num_bytes: int) -> Figure:
    num_devices = len(devices.replicas)
    sent = 2 * (num_devices - 1) / num_devices  # of each device, in a ring
    gc.collect()
    value, problem = None, ""
    try:
        value = sent * num_bytes / _seconds(devices, _reduction(devices, num_bytes))
    except tf.errors.ResourceExhaustedError:
        problem = f"a reduction of {num_bytes // MIB} MiB: no memory"
    return Figure(what=Probed.ALL_REDUCE, value=value, problem=problem, num_bytes=num_bytes)


def _reduction(devices: Devices, num_bytes: int) -> Callable[[], Sequence[tf.Tensor]]:
    all_reduce = _ALL_REDUCES[devices.kind].create(devices)
    copies = on_each(devices.replicas, lambda: tf.Variable(_values(num_bytes)))

    @tf.function(autograph=False, jit_compile=False)
    def reduce() -> list[tf.Tensor]:
        sums = all_reduce.sum(list(map(read_where_it_is, copies)), 0)
        return on_each(devices.replicas, lambda total: total[:1], sums)

    return reduce


def _values(num_bytes: int) -> tf.Tensor:
    return tf.fill([num_bytes // _FLOAT_BYTES], 1.0)


def _seconds(devices: Devices, act: Callable[[], object]) -> float:
    """Return the seconds of one action in the fastest turn."""
    wait = partial(devices_of.synchronize, devices)
    return fastest_s(act, wait, turn_s=TURN_S, all_turns_s=ALL_TURNS_S)


def _device(devices: Devices, number: int | None) -> str:
    if number is None:
        return devices.host
    return devices.replicas[number]


def _named(devices: Devices, number: int | None) -> str:
    if number is None:
        return "the host"
    return f"{devices.kind.singular} {number}"


if __name__ == "__main__":
    orchestrator = os.environ.get(ORCHESTRATOR_VARIABLE)
    if orchestrator:
        die_with(int(orchestrator))
    own_process.heed_signals()
    own_process.end_at_signals()
    try:
        main(ProbeRequest.from_json(sys.argv[1]))
    except UnsupportedTrialError as refusal:
        sys.exit(str(refusal))
    except Exception as error:
        traceback.print_exc()  # of a graph's error the last line says nothing
        sys.exit(f"{type(error).__name__}: {telling_line(str(error))}")
