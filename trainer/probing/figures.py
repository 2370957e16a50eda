"""Measures the devices of a machine and the links between them, a figure after another.

```
  host  --to_device-->  device 0  --pair-->  device 1 ...      all_reduce: over all of them
        <--to_host----   memory, peak
```
Copies are TensorFlow's own, which training uses, too. Logical CPU devices share one memory, in
which TensorFlow copies nothing: a deep copy stands in for the link, by the threads of the target.

Functions of TensorFlow refer to themselves, and so does what they hold on the devices: garbage is
collected before each figure, which needs the room.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations

import tensorflow as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context

from scalemark.abilities import PRECISIONS
from scalemark.host.available_memory import available_bytes
from scalemark.records.devices import DeviceKind
from scalemark.records.probe import Figure, Probed, ProbeRequest
from trainer import devices as devices_of
from trainer.all_reduces import nccl, ring
from trainer.devices import Devices
from trainer.probing.caches import last_level_bytes
from trainer.probing.turns import FULL, QUICK, Effort, fastest_s
from trainer.watching.peak import peak_flops_per_s

MIB = 2**20
# Of GPUs so much that starting the copy counts for little, and of CPU devices at least so much.
COPY_BYTES = {DeviceKind.CPU_DEVICE: 64 * MIB, DeviceKind.GPU: 2048 * MIB}
TIMES_CACHES = 4  # of CPU devices: then at most a quarter of a tensor is still in a cache
COPY_PIECES = {DeviceKind.CPU_DEVICE: 1, DeviceKind.GPU: 8}  # tensors that are copied at once
OF_HOST_MEMORY = 8  # a tensor takes at most such a part of it, as up to three are held at once
LEAST_COPY_BYTES = 4 * MIB  # a device without room for this has no figure
# Of a reduction, from where latency counts to where bandwidth does.
SUM_BYTES = {
    DeviceKind.CPU_DEVICE: tuple(MIB * size // 16 for size in (1, 16, 256, 1024)),
    DeviceKind.GPU: tuple(MIB * size // 16 for size in (1, 16, 256, 1024, 4096)),
}
QUICK_SUMS = slice(1, None, 2)
_FLOAT_BYTES = 4
_ADD_TRAFFIC = 3  # bytes moved per byte of a sum in place: two read, one written
ALL_REDUCES = {DeviceKind.CPU_DEVICE: ring, DeviceKind.GPU: nccl}


def pin_host_memory(devices: Devices) -> None:
    """Have the host's tensors lie in memory that GPUs read directly, as what a graph sends them
    does. Call it before TensorFlow touches a device.
    """
    if devices.kind is DeviceKind.GPU:
        options = config_pb2.GPUOptions(force_gpu_compatible=True)
        context.context()._config = config_pb2.ConfigProto(gpu_options=options)


Step = Callable[[], Figure]


def steps_of(request: ProbeRequest, devices: Devices) -> list[Step]:
    """Return what measures each figure, in the order in which they are shown."""
    effort = QUICK if request.is_quick else FULL
    is_cpu = devices.kind is DeviceKind.CPU_DEVICE
    everyone = range(len(devices.replicas))
    # CPU devices share cores and memory: one stands for all, and the host for its memory
    numbers = everyone[:1] if request.is_quick or is_cpu else everyone
    found: list[Step] = []
    for precision in request.precisions:
        found += [partial(_peak, devices, precision, number) for number in numbers]
    owners = [None] if is_cpu else [None, *numbers]
    found += [partial(_memory, devices, owner, effort) for owner in owners]
    for number in numbers:
        found.append(partial(_copy, devices, Probed.TO_DEVICE, None, number, effort))
        found.append(partial(_copy, devices, Probed.TO_HOST, number, None, effort))
    for source, target in permutations(everyone, 2):
        found.append(partial(_copy, devices, Probed.PAIR, source, target, effort))
    if len(everyone) > 1:
        sizes = SUM_BYTES[devices.kind]
        sizes = sizes[QUICK_SUMS] if request.is_quick else sizes
        found += [partial(_all_reduce, devices, num_bytes, effort) for num_bytes in sizes]
    return found


def _peak(devices: Devices, precision: str, number: int) -> Figure:
    abilities = PRECISIONS[precision]
    tf.config.experimental.enable_tensor_float_32_execution(abilities.tensor_float_32)
    alone = replace(devices, replicas=(devices.replicas[number],))
    found = peak_flops_per_s(alone, tf.as_dtype(abilities.compute_type))
    problem = "" if found else f"{_named(devices, number)}: no memory for a large matrix"
    return Figure(
        what=Probed.PEAK, value=found, problem=problem, precision=precision, source=number
    )


def _memory(devices: Devices, number: int | None, effort: Effort) -> Figure:
    """Measure the memory of a device; of the host where `number` is None."""

    def measure(num_bytes: int) -> float:
        with tf.device(_device(devices, number)):
            total, one = tf.Variable(_values(num_bytes)), _values(num_bytes)
            seconds = fastest_s(lambda: total.assign_add(one), _wait(devices), effort)
        return _ADD_TRAFFIC * num_bytes / seconds

    return _largest(devices, measure, Probed.MEMORY, number, None)


def _copy(
    devices: Devices, what: Probed, source: int | None, target: int | None, effort: Effort
) -> Figure:
    def measure(num_bytes: int) -> float:
        act = _copying(devices, _device(devices, source), _device(devices, target), num_bytes)
        return num_bytes / fastest_s(act, _wait(devices), effort)

    return _largest(devices, measure, what, source, target)


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


def copy_bytes(kind: DeviceKind) -> int:
    """Return the size of what is copied or summed: more than the caches of a host hold, where it
    has the memory.
    """
    wanted = COPY_BYTES[kind]
    if kind is DeviceKind.CPU_DEVICE:
        wanted = max(wanted, TIMES_CACHES * last_level_bytes())
    room = available_bytes() // OF_HOST_MEMORY // MIB * MIB
    return max(LEAST_COPY_BYTES, min(wanted, COPY_BYTES[DeviceKind.GPU], room))


def _device(devices: Devices, number: int | None) -> str:
    return devices.host if number is None else devices.replicas[number]


def _largest(
    devices: Devices,
    measure: Callable[[int], float],
    what: Probed,
    source: int | None,
    target: int | None,
) -> Figure:
    """Measure with as many bytes as there is room for, half as many after each time too many."""
    num_bytes = copy_bytes(devices.kind)
    while True:
        gc.collect()
        try:
            rate = measure(num_bytes)
        except tf.errors.ResourceExhaustedError:
            num_bytes //= 2
            if num_bytes < LEAST_COPY_BYTES:
                ends = " or ".join(_named(devices, each) for each in (source, target))
                return Figure(
                    what=what,
                    value=None,
                    problem=f"{ends}: no memory for {2 * num_bytes // MIB} MiB",
                    source=source,
                    target=target,
                )
        else:
            return Figure(what=what, value=rate, source=source, target=target, num_bytes=num_bytes)


def _all_reduce(devices: Devices, num_bytes: int, effort: Effort) -> Figure:
    num_devices = len(devices.replicas)
    gc.collect()
    try:
        act = _reduction(devices, num_bytes)
        seconds = fastest_s(act, _wait(devices), effort)
    except tf.errors.ResourceExhaustedError:
        return Figure(
            what=Probed.ALL_REDUCE,
            value=None,
            problem=f"a reduction of {num_bytes // MIB} MiB: no memory",
            num_bytes=num_bytes,
        )
    sent = 2 * (num_devices - 1) / num_devices  # of each device, in a ring
    return Figure(what=Probed.ALL_REDUCE, value=sent * num_bytes / seconds, num_bytes=num_bytes)


def _reduction(devices: Devices, num_bytes: int) -> Callable[[], Sequence[tf.Tensor]]:
    all_reduce = ALL_REDUCES[devices.kind].create(devices)
    copies = []
    for device in devices.replicas:
        with tf.device(device):
            copies.append(tf.Variable(_values(num_bytes)))

    @tf.function(autograph=False, jit_compile=False)
    def reduce() -> list[tf.Tensor]:
        read = []
        for device, copy in zip(devices.replicas, copies, strict=True):
            with tf.device(device):
                read.append(copy.read_value())
        sums = all_reduce.sum(read, 0)
        ends = []
        for device, total in zip(devices.replicas, sums, strict=True):
            with tf.device(device):
                ends.append(total[:1])
        return ends

    return reduce


def _values(num_bytes: int) -> tf.Tensor:
    return tf.fill([num_bytes // _FLOAT_BYTES], 1.0)


def _wait(devices: Devices) -> Callable[[], None]:
    return lambda: devices_of.synchronize(devices)


def _named(devices: Devices, number: int | None) -> str:
    if number is None:
        return "the host"
    return f"{'GPU' if devices.kind is DeviceKind.GPU else 'CPU device'} {number}"
